package output

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/fatih/color"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/repair"
)

// rolePrefix begins the name of every ClusterRole.
const rolePrefix = "volume-doctor-"

// PrintRoles says of each role whether a user has it: nothing of it is among
// the missing rights.
func PrintRoles(w io.Writer, roles []repair.Role, missing []repair.Permission, opts Options) error {
	rows := make([][]string, 0, len(roles))
	for _, role := range roles {
		var lacks []string
		for _, p := range role.Needs {
			if slices.Contains(missing, p) {
				lacks = append(lacks, p.String())
			}
		}
		has := paint(opts.Color, "yes", color.FgGreen)
		if len(lacks) > 0 {
			has = paint(opts.Color, "no", color.FgYellow)
		}
		rows = append(rows, []string{rolePrefix + role.Name, has, role.For, or(strings.Join(lacks, ", "))})
	}
	text, err := table([]string{"ROLE", "HAVE", "FOR", "MISSING"}, rows)
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, text)
	return err
}

// PrintClusterRoles writes the manifests of the roles.
func PrintClusterRoles(w io.Writer, roles []repair.Role) error {
	for i, role := range roles {
		separator := "---\n"
		if i == 0 {
			separator = ""
		}
		if _, err := fmt.Fprintf(w, "%s# For %s.\n", separator, role.For); err != nil {
			return err
		}
		if err := printYAML(w, clusterRole(role), Options{}); err != nil {
			return err
		}
	}
	return nil
}

// clusterRole has a rule for each group and verb.
func clusterRole(role repair.Role) rbacv1.ClusterRole {
	manifest := rbacv1.ClusterRole{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: rolePrefix + role.Name, Labels: map[string]string{"app.kubernetes.io/name": "volume-doctor"}},
	}
	for _, p := range role.Needs {
		if p.Path != "" {
			manifest.Rules = append(manifest.Rules, rbacv1.PolicyRule{NonResourceURLs: []string{p.Path}, Verbs: []string{p.Verb}})
			continue
		}
		resource := p.Resource
		if p.Subresource != "" {
			resource += "/" + p.Subresource
		}
		i := slices.IndexFunc(manifest.Rules, func(r rbacv1.PolicyRule) bool {
			return len(r.APIGroups) > 0 && r.APIGroups[0] == p.Group && r.Verbs[0] == p.Verb
		})
		if i < 0 {
			i = len(manifest.Rules)
			manifest.Rules = append(manifest.Rules, rbacv1.PolicyRule{APIGroups: []string{p.Group}, Verbs: []string{p.Verb}})
		}
		manifest.Rules[i].Resources = append(manifest.Rules[i].Resources, resource)
	}
	return manifest
}
