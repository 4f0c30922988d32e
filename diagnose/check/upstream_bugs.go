package check

import (
	"fmt"
	"slices"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

const kubelet = "kubelet"

type upstreamBug struct {
	codes     []finding.Code
	issue     int
	component string
	does      string
	since     string
	fixed     []string
	// byCheck is true where the check itself decides whether a finding shows the bug.
	byCheck bool
	// not reports whether the bug cannot be the cause of a finding; nil where it always can be.
	not func(*facts.View, *finding.Finding) bool
}

// upstreamBugs are the bugs that some release has fixed, with the codes of the findings that
// they lead to. A finding names the first bug that the release has. fixed is the argument of
// reconcile.FixedAfter. Bugs without a fix are mentioned in the causes of their checks.
var upstreamBugs = append(lostEntryBugs(), []upstreamBug{
	{
		codes: []finding.Code{"VD302", "VD401"}, issue: 120571, component: reconcile.ControllerManager,
		does:  "a volume whose detach has failed counts as attached and is listed again, while the driver goes on detaching it",
		fixed: []string{"1.26.10", "1.27.7", "1.28.3", "1.29.0"}, // 120595
		not: func(p *facts.View, f *finding.Finding) bool {
			node := p.Snapshot.Node(f.Node)
			return node != nil && facts.AddedByRepair(node, f.Volume)
		},
	},
	{
		codes: []finding.Code{"VD104"}, issue: 114207, component: kubelet,
		does:  "an unmount of the device that has begun twice fails for good, so that the volume stays in use",
		since: "1.24.0", fixed: []string{"1.24.14", "1.25.10", "1.26.5", "1.27.2", "1.28.0"}, // 116138
	},
	{
		codes: []finding.Code{"VD108"}, issue: 129572, component: reconcile.ControllerManager,
		does:  "an attach that ends after its driver no longer needs one is not recorded, and its VolumeAttachment stays",
		fixed: []string{"1.36.0"}, // 129664
	},
	{
		codes: []finding.Code{"VD111"}, issue: 115148, component: kubelet,
		does:  "a shutdown in order waits for containers alone, and ends before their volumes are unmounted",
		fixed: []string{"1.32.0"}, // 125070
	},
	{
		codes: []finding.Code{"VD116"}, issue: 106710, component: reconcile.ControllerManager,
		does:  "after 6 minutes a volume is detached by force from a node that is Ready, mounted or not",
		fixed: []string{"1.24.9", "1.25.0"}, // 110721
	},
}...)

// lostEntryBugs are the causes in facts.LostEntryCauses that releases have a fix for.
func lostEntryBugs() []upstreamBug {
	var bugs []upstreamBug
	for _, c := range facts.LostEntryCauses {
		if len(c.Fixed) > 0 {
			bugs = append(bugs, upstreamBug{
				codes: []finding.Code{"VD301"}, issue: c.Issue, component: reconcile.ControllerManager, does: c.Does, fixed: c.Fixed, byCheck: true,
			})
		}
	}
	return bugs
}

// nameUpstreamBug adds to the finding the first known bug that leads to such findings and that
// the release of its component has.
func nameUpstreamBug(p *facts.View, f *finding.Finding) {
	for _, bug := range upstreamBugs {
		if bug.byCheck || !slices.Contains(bug.codes, f.Code) || bug.not != nil && bug.not(p, f) {
			continue
		}
		release := p.Snapshot.Source.ServerVersion
		if bug.component == kubelet {
			release = ""
			if node := p.Snapshot.Node(f.Node); node != nil {
				release = node.Status.NodeInfo.KubeletVersion
			}
		}
		fixedIn := reconcile.FixedAfter(release, bug.since, bug.fixed)
		if fixedIn == "" {
			continue
		}
		NameBug(f, bug.component, bug.issue, bug.does, fixedIn)
		return
	}
}

// NameBug records in the finding that the component's release has the bug, and adds this to the
// finding's cause.
func NameBug(f *finding.Finding, component string, issue int, does, fixedIn string) {
	f.UpstreamBug = &finding.UpstreamBug{Issue: fmt.Sprintf("kubernetes/kubernetes#%d", issue), Component: component, FixedIn: fixedIn}
	said := fmt.Sprintf("the %s's release has the bug of kubernetes issue %d: %s (fixed in %s)", component, issue, does, fixedIn)
	if f.Cause != "" {
		said = f.Cause + "; " + said
	}
	f.Cause = said
}

// BugChange is a bug of kube-controller-manager that one of two releases has.
type BugChange struct {
	Issue string `json:"issue"`
	// Comes is true where the later release has the bug, and false where it has the fix.
	Comes bool           `json:"comes"`
	Does  string         `json:"does"`
	Codes []finding.Code `json:"codes"`
}

// BugChanges are the known bugs that exactly one of the two controllers has.
func BugChanges(from, to string) []BugChange {
	changes := []BugChange{}
	for _, bug := range upstreamBugs {
		if bug.component != reconcile.ControllerManager {
			continue
		}
		before, after := reconcile.FixedAfter(from, bug.since, bug.fixed) != "", reconcile.FixedAfter(to, bug.since, bug.fixed) != ""
		if before != after {
			changes = append(changes, BugChange{fmt.Sprintf("kubernetes/kubernetes#%d", bug.issue), after, bug.does, slices.Clone(bug.codes)})
		}
	}
	return changes
}
