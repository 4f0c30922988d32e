package output

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/fatih/color"

	"github.com/volume-doctor/kubectl-volume-doctor/repair"
)

// PrintRoles prints for each role whether the user has it: the user has a role if none of its
// permissions is missing.
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
		rows = append(rows, []string{repair.RolePrefix + role.Name, has, role.For, or(strings.Join(lacks, ", "))})
	}
	var b strings.Builder
	if err := table(&b, []string{"ROLE", "HAVE", "FOR", "MISSING"}, rows, nil, opts); err != nil {
		return err
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// PrintClusterRoles writes the manifests of the roles.
func PrintClusterRoles(w io.Writer, roles []repair.Role) error {
	var b strings.Builder
	for i, role := range roles {
		if i > 0 {
			b.WriteString("---\n")
		}
		fmt.Fprintf(&b, "# For %s.\n", role.For)
		if err := printYAML(&b, role.ClusterRole(), Options{}); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
