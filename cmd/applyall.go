package cmd

import (
	"slices"
	"strconv"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
)

// sayApplyAll gives each cause the command line that makes its repair together with the equal
// repairs of the findings that follow from it, where all are about one node: one line for the
// node, in place of one for each of its pods. Where one write repairs them all, it also counts the
// findings of other checks that this write repairs. flags name the cluster.
func sayApplyAll(r *finding.Report, flags []string) {
	roots := map[string]*finding.Repair{}
	for i := range r.Findings {
		roots[r.Findings[i].Fingerprint] = r.Findings[i].Repair
	}
	for _, tree := range r.Roots() {
		first := tree[0]
		alike := slices.DeleteFunc(slices.Clone(tree), func(f finding.Finding) bool { return !sameRepair(first, f) })
		same := slices.DeleteFunc(slices.Clone(tree), func(f finding.Finding) bool { return !sameWrite(first, f) })
		several := slices.ContainsFunc(alike, func(f finding.Finding) bool { return !sameWrite(first, f) })
		if len(same) > 1 && !several {
			roots[first.Fingerprint].OneWrite = len(same)
		}
		if len(alike) < 2 {
			continue
		}
		what := []string{"diagnose", "node/" + string(first.Node), "--check=" + first.Check}
		last := []string{"--apply"}
		if several {
			last = append(last, "--max-repairs="+strconv.Itoa(len(alike)))
		}
		roots[first.Fingerprint].Alike, roots[first.Fingerprint].Others = len(alike), len(tree)-len(alike)
		roots[first.Fingerprint].ApplyAll = commandLine(r.Source.Context, flags, what, append(last, first.Repair.Needs...)...)
	}
}

// sameRepair reports whether one command line for their node makes the repairs of both
// findings.
func sameRepair(a, b finding.Finding) bool {
	return a.Node != "" && a.Node == b.Node && a.Code == b.Code && a.Context == b.Context &&
		a.Repair != nil && b.Repair != nil && a.Repair.Apply != "" && b.Repair.Apply != "" &&
		a.Repair.Kind == b.Repair.Kind && slices.Equal(a.Repair.Needs, b.Repair.Needs)
}

// sameWrite reports whether the repair of one finding is the write that repairs the other, as once
// has it: by hand it is the same command.
func sameWrite(a, b finding.Finding) bool {
	return a.Context == b.Context && a.Repair != nil && b.Repair != nil && a.Repair.Apply != "" && b.Repair.Apply != "" &&
		len(a.Repair.Commands) > 0 && slices.Equal(a.Repair.Commands, b.Repair.Commands)
}
