package repair

import "github.com/volume-doctor/kubectl-volume-doctor/snapshot"

// Role is a set of rights that somebody is given for a purpose.
type Role struct {
	Name string `json:"name"`
	// For says what one can do with it.
	For   string       `json:"for"`
	Needs []Permission `json:"needs"`
}

// announces is the right to write the event that tells of a repair.
var announces = RightTo(VerbCreate, snapshot.Events, "")

// Roles are the rights that each kind of repair takes beside those to read.
func Roles() []Role {
	var roles []Role
	for _, r := range actions() {
		roles = append(roles, Role{
			Name: "repair-" + string(r.kind), For: "diagnose --apply: " + string(r.kind), Needs: append([]Permission{announces}, r.needs...),
		})
		if r.undoNeeds != nil {
			roles = append(roles, Role{
				Name: "undo-" + string(r.kind), For: "undo of " + string(r.kind), Needs: append([]Permission{announces}, r.undoNeeds...),
			})
		}
	}
	return roles
}
