package facts

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/step"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// LostEntryCause is a way in which a node's volumesAttached loses a volume that is attached
// there.
//
// The controller writes the list from its own list, volumesToReportAsAttached, and only when that
// changes. Whether its own list still has the volume therefore decides how the loss ends, and
// whether an entry that somebody else adds lasts.
type LostEntryCause struct {
	// Issue is its number in kubernetes/kubernetes; 0 where somebody else wrote the list.
	Issue int
	// Does is the controller's fault, for a bug that releases have a fix for.
	Does string
	// Fixed has the first fixed release of each minor, as reconcile.FixedAfter takes it; nil
	// where no release has a fix.
	Fixed []string
	// Forgets reports that the controller's own list has lost the volume too, while the
	// controller still holds it for attached. Only a complete detach or a restart brings the
	// entry back, and each write of the list removes an entry that somebody else has added.
	Forgets bool
}

// LostEntryCauses are all known causes. RemoveVolumeFromReportAsAttached comes before each
// detach. Before the fixes nothing put the volume back where the detach then did not start,
// because of its back-off (DetachVolume) or because the node's status could not be written
// (UpdateNodeStatuses). In the third case the volume is put back, but the patch is empty: it is
// made against a cache that still has the entry.
var LostEntryCauses = []LostEntryCause{
	{
		Issue: 72181, Forgets: true,
		Does: "a detach in back-off takes the volume off the list, the pod returns to the node before the back-off ends, and nobody puts " +
			"the volume back",
		Fixed: []string{"1.21.7", "1.22.4", "1.23.0"}, // pull request 104526
	},
	{
		Issue: 111000, Forgets: true,
		Does:  "a detach that cannot write the node's status does not start, and the volume is not put back on the list",
		Fixed: []string{"1.22.14", "1.23.11", "1.24.5", "1.25.1", "1.26.0"}, // 111205
	},
	{Issue: 122413},
	{},
}

// LostEntry is the known causes of one missing entry.
type LostEntry struct {
	// Causes are the possible causes, in the order of LostEntryCauses.
	Causes []LostEntryCause
	// Writer is who last wrote the list; "" where that may be the controller.
	Writer string
	// LeftOut is another volume that the controller has attached and listed since, in a write
	// without the lost entry: its own list has lost it. "" where that is not known.
	LeftOut corev1.UniqueVolumeName
}

// LostEntry is why the node's list may lack the volume of the attachment that the pod uses.
func (p *View) LostEntry(node *corev1.Node, own Attachment, pod *corev1.Pod) LostEntry {
	writer, _ := VolumesAttachedWriter(node)
	lost := LostEntry{}
	if !MayBeController(writer) && writer != FieldManager { // an entry that a repair adds removes no other
		lost.Writer = writer
	}
	if writer != "" && MayBeController(writer) {
		lost.LeftOut = p.writtenSince(node, own, pod)
	}
	release := p.Snapshot.Source.ServerVersion
	for _, cause := range LostEntryCauses {
		has := !reconcile.IsRelease(release) || len(cause.Fixed) == 0 || reconcile.FixedAfter(release, "", cause.Fixed) != ""
		switch {
		case lost.LeftOut != "" && !cause.Forgets, // it would have listed the volume again
			cause.Issue == 0 && writer != "" && MayBeController(writer): // it wrote the whole list after that writer
		case has:
			lost.Causes = append(lost.Causes, cause)
		}
	}
	return lost
}

// writtenSince is another volume that the controller has attached to the node and listed, after
// any operation on the pod's own volume must have ended.
func (p *View) writtenSince(node *corev1.Node, own Attachment, pod *corev1.Pod) corev1.UniqueVolumeName {
	settled := Latest(BoundAt(pod), own.CreationTimestamp).Add(AttachGrace)
	for _, other := range p.AttachmentsByNode()[node.Name] {
		if other.Volume != own.Volume && other.Ours() && other.Holds() && other.CreationTimestamp.After(settled) && p.Lists(node, other.Volume) {
			return other.Volume
		}
	}
	return ""
}

// Forgets reports whether the controller's own list may have lost the volume.
func (l LostEntry) Forgets() bool {
	return l.LeftOut != "" || slices.ContainsFunc(l.Causes, func(c LostEntryCause) bool { return c.Forgets })
}

// Bug is the first possible cause with a fix in a known release, and that release; nil where
// there is none.
func (l LostEntry) Bug(release string) (cause *LostEntryCause, fixedIn string) {
	for i, c := range l.Causes {
		if in := reconcile.FixedAfter(release, "", c.Fixed); in != "" {
			return &l.Causes[i], in
		}
	}
	return nil, ""
}

// issues are the numbers of the issues in which the controller forgets the volume, for a
// sentence.
func (l LostEntry) issues() string {
	var issues []string
	for _, c := range l.Causes {
		if c.Forgets {
			issues = append(issues, fmt.Sprint(c.Issue))
		}
	}
	return strings.Join(issues, " or ")
}

const (
	whenWritten = "when it attaches or detaches another volume there"
	manager     = reconcile.ControllerManager
)

// Heals is how the entry comes back, in a sentence that is true of all possible causes.
func (l LostEntry) Heals() finding.SelfHeals {
	var because string
	switch {
	case l.LeftOut != "":
		because = "the controller has forgotten to list the volume; the controller leaves the volume out whenever it writes the list; a restart " +
			"of " + manager + " brings the entry back"
	case l.Forgets():
		because = fmt.Sprintf("the controller does not compare the list; a controller with the bug of kubernetes issue %s may "+
			"leave the volume out when it next writes the list, that is, %s; a restart of %s brings the entry back", l.issues(), whenWritten, manager)
	default:
		because = fmt.Sprintf("the controller does not compare the list; the controller writes the list again, with the volume, %s, or "+
			"when %s restarts", whenWritten, manager)
	}
	if l.Writer != "" {
		because += fmt.Sprintf("; %q may take it off again at any time", l.Writer)
	}
	return finding.SelfHeals{Because: because}
}

// Advice is what else to do where an added entry is sure to be lost again. Where it merely may
// be, the outcome of the repair says so.
func (l LostEntry) Advice(node *corev1.Node) string {
	if l.LeftOut == "" {
		return ""
	}
	return fmt.Sprintf("%s when that can be done: it then lists the volume for good, while what --apply adds lasts until the next "+
		"attach or detach on %s", step.RestartManager.Of(), node.Name)
}

// Lasts is a clause: how long an entry stays that somebody other than the controller adds, and
// what makes it last; "" where it stays.
func (l LostEntry) Lasts(node *corev1.Node) string {
	var until, then []string
	may := "it may last only until "
	if l.LeftOut != "" {
		may = "it lasts until "
	}
	if l.Forgets() {
		until, then = append(until, "the next attach or detach on "+node.Name), append(then, "restart the "+manager+" leader to make it last")
	}
	if l.Writer != "" {
		until, then = append(until, fmt.Sprintf("%q writes the list again", l.Writer)), append(then, "find out why that writes it")
	}
	if len(until) == 0 {
		return ""
	}
	return may + strings.Join(until, ", or until ") + "; " + strings.Join(then, ", and ")
}
