package repair

import (
	"slices"
	"strconv"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// addCommandLines gives every repair of the view's report that can be made the command line of
// this program that makes it.
func addCommandLines(v *View) {
	for _, f := range v.Report.Findings {
		if f.Repair != nil && len(f.Repair.Commands) > 0 {
			words := append([]string{"diagnose"}, PointedAt(f)...)
			f.Repair.Apply = CommandLine(v.Snapshot.Source.Context, v.settings, words, append([]string{"--apply"}, f.Repair.Needs...)...)
		}
	}
	addLinesForAll(v)
}

// addLinesForAll gives each cause the command line that makes its repair together with the equal
// repairs of the findings that follow from it, where all are about one node: one line for the
// node, in place of one for each of its pods. There is none where that line would also make a repair
// for another cause. Where one write repairs them all, it also counts the findings of other checks
// that this write repairs.
func addLinesForAll(v *View) {
	r := v.Report
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
		if len(alike) < 2 || slices.ContainsFunc(r.Findings, func(f finding.Finding) bool { return madeForNode(first, f) && !holds(alike, f) }) {
			continue
		}
		what := []string{"diagnose", "node/" + string(first.Node), "--check=" + first.Check}
		last := []string{"--apply"}
		if several {
			last = append(last, "--max-repairs="+strconv.Itoa(len(alike)))
		}
		roots[first.Fingerprint].Alike, roots[first.Fingerprint].Others = len(alike), len(tree)-len(alike)
		roots[first.Fingerprint].ApplyAll = CommandLine(v.Snapshot.Source.Context, v.settings, what, append(last, first.Repair.Needs...)...)
	}
}

// sameRepair reports whether one command line for their node makes the repairs of both
// findings.
func sameRepair(a, b finding.Finding) bool {
	return a.Node != "" && a.Node == b.Node && a.Code == b.Code && a.Context == b.Context &&
		a.Repair != nil && b.Repair != nil && a.Repair.Apply != "" && b.Repair.Apply != "" &&
		a.Repair.Kind == b.Repair.Kind && slices.Equal(a.Repair.Needs, b.Repair.Needs)
}

// madeForNode reports whether the line for the node and the check of the first finding makes the
// repair of the other one.
func madeForNode(first, f finding.Finding) bool {
	return f.Node == first.Node && f.Check == first.Check && f.Context == first.Context && f.Repair != nil && f.Repair.Apply != "" &&
		!slices.ContainsFunc(f.Repair.Needs, func(flag string) bool { return !slices.Contains(first.Repair.Needs, flag) })
}

func holds(list []finding.Finding, f finding.Finding) bool {
	return slices.ContainsFunc(list, func(other finding.Finding) bool { return other.Fingerprint == f.Fingerprint })
}

// sameWrite reports whether the repair of one finding is the write that repairs the other: by hand
// it is the same command.
func sameWrite(a, b finding.Finding) bool {
	return a.Context == b.Context && a.Repair != nil && b.Repair != nil && a.Repair.Apply != "" && b.Repair.Apply != "" &&
		len(a.Repair.Commands) > 0 && slices.Equal(a.Repair.Commands, b.Repair.Commands)
}

// CommandLine is a command line of this program for the cluster of the context; the words in last
// come after the flags that name the cluster.
func CommandLine(context string, settings, words []string, last ...string) string {
	words = append([]string{"volume-doctor"}, words...)
	if context != "" {
		words = append(words, "--context="+context)
	}
	return safetext.Kubectl(append(append(words, settings...), last...)...)
}

// PointedAt is the narrowest target for diagnose that has the finding. A finding about no
// target is found by its check.
func PointedAt(f finding.Finding) []string {
	for _, r := range snapshot.Resources() {
		if len(r.Names) == 0 || r.Object != f.Subject.Kind {
			continue
		}
		words := []string{r.Names[0] + "/" + f.Subject.Name}
		if r.Namespaced {
			words = append(words, "-n", f.Subject.Namespace)
		}
		return words
	}
	if f.VolumeAttachment != "" {
		return []string{"volumeattachment/" + f.VolumeAttachment}
	}
	return []string{"--check=" + f.Check}
}
