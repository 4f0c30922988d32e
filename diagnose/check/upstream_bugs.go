package check

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

const kubelet = "kubelet"

// upstreamBugs are those with a fix, by what they lead to; the first that the
// release has is named. fixed has the first good release of each minor that got
// the fix, oldest first: the last is where it was made. Those without a fix stand
// in the causes of their checks.
var upstreamBugs = []struct {
	codes     []finding.Code
	issue     int
	component string
	does      string
	since     string
	fixed     []string
	// lostEntry takes the place of what the check guesses, unless somebody else
	// than the controller wrote volumesAttached last.
	lostEntry bool
}{
	{
		codes: []finding.Code{"VD301"}, issue: 72181, component: reconcile.ControllerManager, lostEntry: true,
		does: "a detach in back-off takes the volume off the list, the pod returns to the node before the back-off ends, and nobody puts " +
			"the volume back",
		fixed: []string{"1.21.7", "1.22.4", "1.23.0"}, // pull request 104526
	},
	{
		codes: []finding.Code{"VD301"}, issue: 111000, component: reconcile.ControllerManager, lostEntry: true,
		does:  "a detach that cannot write the node's status does not start, and the volume is not put back on the list",
		fixed: []string{"1.22.14", "1.23.11", "1.24.5", "1.25.1", "1.26.0"}, // 111205
	},
	{
		codes: []finding.Code{"VD302", "VD401"}, issue: 120571, component: reconcile.ControllerManager,
		does:  "a volume whose detach has failed counts as attached and is listed again, while the driver goes on detaching it",
		fixed: []string{"1.26.10", "1.27.7", "1.28.3", "1.29.0"}, // 120595
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
}

// nameUpstreamBug says of a finding which bug of the release brings such about.
func nameUpstreamBug(p *facts.View, f *finding.Finding) {
	for _, bug := range upstreamBugs {
		if !slices.Contains(bug.codes, f.Code) || bug.lostEntry && !controllerMayHaveWritten(p, f) {
			continue
		}
		release := p.Snapshot.Source.ServerVersion
		if bug.component == kubelet {
			release = ""
			if node := p.Snapshot.Node(f.Node); node != nil {
				release = node.Status.NodeInfo.KubeletVersion
			}
		}
		fixedIn := fixedAfter(release, bug.since, bug.fixed)
		if fixedIn == "" {
			continue
		}
		f.UpstreamBug = &finding.UpstreamBug{Issue: fmt.Sprintf("kubernetes/kubernetes#%d", bug.issue), Component: bug.component, FixedIn: fixedIn}
		said := fmt.Sprintf("the %s's release has the bug of kubernetes issue %d: %s (fixed in %s)", bug.component, bug.issue, bug.does, fixedIn)
		if f.Cause != "" && !bug.lostEntry {
			said = f.Cause + "; " + said
		}
		f.Cause = said
		return
	}
}

// BugChange is a bug of kube-controller-manager that one of two releases has.
type BugChange struct {
	Issue string `json:"issue"`
	// Comes says that the later release has it.
	Comes bool           `json:"comes"`
	Does  string         `json:"does"`
	Codes []finding.Code `json:"codes"`
}

// BugChanges are the bugs by which the controllers of two releases differ, as far as
// they are known here.
func BugChanges(from, to string) []BugChange {
	changes := []BugChange{}
	for _, bug := range upstreamBugs {
		if bug.component != reconcile.ControllerManager {
			continue
		}
		before, after := fixedAfter(from, bug.since, bug.fixed) != "", fixedAfter(to, bug.since, bug.fixed) != ""
		if before != after {
			changes = append(changes, BugChange{fmt.Sprintf("kubernetes/kubernetes#%d", bug.issue), after, bug.does, slices.Clone(bug.codes)})
		}
	}
	return changes
}

func controllerMayHaveWritten(p *facts.View, f *finding.Finding) bool {
	node := p.Snapshot.Node(f.Node)
	if node == nil {
		return true
	}
	writer, _ := facts.VolumesAttachedWriter(node)
	return facts.MayBeController(writer)
}

// fixedAfter is the next release with the fix, or "" where the release has it,
// is older than the bug, or is no version.
func fixedAfter(release, since string, fixed []string) string {
	v, err := version.ParseGeneric(release)
	if err != nil || since != "" && v.LessThan(version.MustParseGeneric(since)) {
		return ""
	}
	for i, f := range fixed {
		first := version.MustParseGeneric(f)
		switch {
		case v.LessThan(first):
			return f
		case i == len(fixed)-1, v.Major() == first.Major() && v.Minor() == first.Minor():
			return ""
		}
	}
	return ""
}
