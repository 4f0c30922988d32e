package attached

import (
	"fmt"
	"regexp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var UncertainAfterFailedAttach = check.Check{
	Code:     "VD105",
	Name:     "uncertain-after-failed-attach",
	Title:    "An attach that failed is kept though no pod wants the volume there any more",
	Severity: finding.Warning,
	Needs:    check.AttachmentKinds(snapshot.Leases),
	OfDriver: true,
	Never:    "take its finalizer off: the driver is never asked to undo the attach",
	Run:      runUncertainAfterFailedAttach,
}

func runUncertainAfterFailedAttach(p *check.Run) {
	if p.ControllerYounger(facts.DanglingGrace) {
		return // a controller that starts takes over the VolumeAttachment
	}
	for _, va := range p.Attachments() {
		node, failure := p.Snapshot.Node(va.Node), p.AttachError(va.VolumeAttachment)
		// A call without an answer may still succeed and attach the volume.
		if va.Status.Attached || va.DeletionTimestamp != nil || failure == nil || facts.Unanswered(va.Spec.Attacher, failure.Message) || !va.Ours() ||
			!reconcile.NodeReady(node) || !p.World.Managed.Has(va.Node) || !p.Forgotten(va.VolumeNode) || goes(p.View, va) {
			continue
		}
		// The controller takes it for mounted until the node's next update.
		since, long, _ := unused(p.View, va)
		if !long {
			since = nobodyWaitedSince(p.View, va)
		}
		if !since.IsZero() && p.Age(since) >= facts.DanglingGrace {
			keptAfterFailure(p, va, since)
		}
	}
}

// nobodyWaitedSince is the moment since which the events prove that no pod has waited for the
// attach; zero where they do not. The controller repeats an attach as long as a pod wants it,
// with an event for each failure. Where all events were read and none names the volume, nobody
// has waited for as long as events are kept.
func nobodyWaitedSince(p *facts.View, va facts.Attachment) metav1.Time {
	oldest := oldestEvent(p)
	if oldest.IsZero() || p.Age(va.Status.AttachError.Time) < facts.ListsGrace || attachEvents(p, p.ShortVolumeOf(va)) {
		return metav1.Time{}
	}
	// A pod that came and went between two events left none.
	since := metav1.NewTime(facts.Latest(oldest, va.CreationTimestamp).Add(facts.AttachEventPause))
	if since.After(p.Snapshot.TakenAt) {
		return metav1.Time{}
	}
	return since
}

// goes reports whether the attachment's volume is being deleted: pv-terminating-va-exists.
func goes(p *facts.View, va facts.Attachment) bool {
	pv := p.Snapshot.Volume(*va.Spec.Source.PersistentVolumeName)
	return pv != nil && pv.DeletionTimestamp != nil
}

func keptAfterFailure(p *check.Run, va facts.Attachment, since metav1.Time) {
	failure := va.Status.AttachError
	f := p.About(va, finding.Finding{
		Since:   &since,
		Message: fmt.Sprintf("No pod wants volume %s on node %s, and its attach goes on", p.ShortVolumeOf(va), va.Node),
		Cause:   "the pod went away after its attach had failed; the controller took the volume for mounted and has not come back to it",
		Evidence: []finding.Evidence{
			facts.FailedAttach(va.VolumeAttachment, failure),
			{Object: va.Object(), Field: "status.attached", Value: "false, not being deleted"},
			{Object: "node/" + string(va.Node), Field: "status.volumesInUse", Value: "lacks it; lists " + facts.List(p.Snapshot.Node(va.Node).Status.VolumesInUse)},
		},
		SelfHeals: finding.SelfHeals{Because: "the controller should have taken it back by now; the controller does so after the node's next update, within about 5 min; a restart of kube-controller-manager makes it do so"},
		ByHand:    "{final} delete the VolumeAttachment: the attacher then asks the driver to undo the attach, as the controller would",
	})
	if pv := p.World.Volume(va.Volume); pv != nil && pv.Status.Phase == corev1.VolumeReleased {
		f.Evidence = append(f.Evidence, finding.Evidence{Object: "persistentvolume/" + pv.Name, Field: "status.phase", Value: "Released"})
	}
	p.Report(f)
}

// attachWords finds the volume's name in an event about its attach.
var attachWords = regexp.MustCompile(`for volume "([^"]+)"`)

var keptAttachEvents facts.Kept[sets.Set[string]]

// attachEvents reports whether any event about an attach names the volume. volume is the PV's
// name or the unique name.
func attachEvents(p *facts.View, volume string) bool {
	return keptAttachEvents.Of(p, func(p *facts.View) sets.Set[string] {
		names := sets.New[string]()
		for _, e := range p.Snapshot.Events {
			if e.Reason == facts.AttachFailedReason || e.Reason == facts.AttachSucceededReason {
				for _, m := range attachWords.FindAllStringSubmatch(e.Message, -1) {
					names.Insert(m[1])
				}
			}
		}
		return names
	}).Has(volume)
}

var keptOldestEvent facts.Kept[metav1.Time]

// oldestEvent is when the oldest event was last written: no event that was written later has
// been dropped. It is zero where there are no events, or where not all could be read.
func oldestEvent(p *facts.View) metav1.Time {
	return keptOldestEvent.Of(p, func(p *facts.View) metav1.Time {
		if !p.Snapshot.Complete(snapshot.Events) || len(p.Snapshot.Events) == 0 {
			return metav1.Time{}
		}
		oldest := snapshot.EventTime(p.Snapshot.Events[0])
		for _, e := range p.Snapshot.Events {
			if at := snapshot.EventTime(e); at.Before(&oldest) {
				oldest = at
			}
		}
		return oldest
	})
}
