package apply

import (
	"slices"
	"strings"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/repair"
)

// unnamed are the permissions without names, as a role has them.
func unnamed(permissions []repair.Permission) []string {
	var list []string
	for _, p := range permissions {
		p.Name, p.Namespace = "", ""
		list = append(list, p.String())
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// roleOf are the rights of a role without the one to write events; nil where there is no such
// role.
func roleOf(name string) []string {
	for _, role := range repair.Roles() {
		if role.Name == name {
			return unnamed(role.Needs[1:])
		}
	}
	return nil
}

// takes is the right that an operation needs.
func takes(op repair.Operation) repair.Permission {
	group, _, has := strings.Cut(op.Target.APIVersion, "/")
	if !has {
		group = ""
	}
	return repair.Permission{Verb: op.Verb, Group: group, Resource: repair.Resource(op.Target.Kind), Subresource: op.Subresource}
}

// TestRolesAreWhatIsAskedFor: the role of a kind has the rights that its repairs name, and
// their writes need no others; the same for taking them back.
func TestRolesAreWhatIsAskedFor(t *testing.T) {
	undone := map[repair.Kind]bool{}
	for _, world := range worlds {
		m := world(t)
		r := m.only()
		role := roleOf("repair-" + string(r.Kind))
		if needs := unnamed(r.Needs); !slices.Equal(needs, role) {
			t.Errorf("%s needs %v, and its role has %v", r.Kind, needs, role)
		}
		sink := repaired(t, m)
		for _, op := range m.stored {
			if right := takes(op).String(); !slices.Contains(role, right) {
				t.Errorf("%s does %q, and its role has %v", r.Kind, right, role)
			}
		}
		if len(m.stored) == 0 {
			t.Errorf("%s wrote nothing", r.Kind)
		}
		undoRole := roleOf("undo-" + string(r.Kind))
		if undoRole != nil {
			role = undoRole
		}
		for _, w := range standingIn(sink.entries()) {
			back, err := repair.Reverse(w.Written)
			if err != nil {
				t.Fatal(err)
			}
			undone[r.Kind] = true
			for _, needs := range unnamed(back.Needs) {
				if !slices.Contains(role, needs) {
					t.Errorf("undo of %s needs %q, and its role has %v", r.Kind, needs, role)
				}
			}
			if undoRole != nil && !slices.Equal(unnamed(back.Needs), role) {
				t.Errorf("undo of %s needs %v, and its role has %v", r.Kind, unnamed(back.Needs), role)
			}
		}
	}
	for _, kind := range repair.Kinds() {
		if roleOf("undo-"+string(kind)) != nil && !undone[kind] {
			t.Errorf("%s is never undone here", kind)
		}
	}
}

func TestEveryKindHasARole(t *testing.T) {
	var names []string
	for _, role := range repair.Roles() {
		names = append(names, role.Name)
		if len(role.Needs) < 2 || role.For == "" {
			t.Errorf("%+v", role)
		}
		for _, p := range role.Needs {
			if p.Name != "" || p.Namespace != "" {
				t.Errorf("role %s is for one object: %s", role.Name, p)
			}
		}
	}
	for _, kind := range repair.Kinds() {
		if !slices.Contains(names, "repair-"+string(kind)) {
			t.Errorf("kind %s has no role", kind)
		}
	}
}
