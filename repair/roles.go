package repair

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// Role is a set of rights that somebody is given for a purpose.
type Role struct {
	Name string `json:"name"`
	// For says what the role permits.
	For   string       `json:"for"`
	Needs []Permission `json:"needs"`
}

// announces is the right to write the event about a repair.
var announces = RightTo(VerbCreate, snapshot.Events, "")

// Roles are, for each kind of repair, the rights that it needs besides those to read.
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

// RolePrefix begins the names of the ClusterRoles.
const RolePrefix = "volume-doctor-"

// ClusterRole is the role's manifest, with a rule for each group, verb and name.
func (r Role) ClusterRole() rbacv1.ClusterRole {
	manifest := rbacv1.ClusterRole{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: RolePrefix + r.Name, Labels: map[string]string{"app.kubernetes.io/name": "volume-doctor"}},
	}
	for _, p := range r.Needs {
		if p.Path != "" {
			manifest.Rules = append(manifest.Rules, rbacv1.PolicyRule{NonResourceURLs: []string{p.Path}, Verbs: []string{p.Verb}})
			continue
		}
		var names []string
		if p.Name != "" {
			names = []string{p.Name}
		}
		resource := p.Resource
		if p.Subresource != "" {
			resource += "/" + p.Subresource
		}
		i := slices.IndexFunc(manifest.Rules, func(rule rbacv1.PolicyRule) bool {
			return len(rule.APIGroups) > 0 && rule.APIGroups[0] == p.Group && rule.Verbs[0] == p.Verb && slices.Equal(rule.ResourceNames, names)
		})
		if i < 0 {
			i = len(manifest.Rules)
			manifest.Rules = append(manifest.Rules, rbacv1.PolicyRule{APIGroups: []string{p.Group}, Verbs: []string{p.Verb}, ResourceNames: names})
		}
		manifest.Rules[i].Resources = append(manifest.Rules[i].Resources, resource)
	}
	return manifest
}
