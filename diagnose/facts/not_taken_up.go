package facts

import (
	"slices"
	"time"

	storagev1 "k8s.io/api/storage/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// untouchedGrace is how long an attacher may leave a new VolumeAttachment alone: it acts within
// seconds, and after a rollout of the driver, with its images to pull, within minutes.
const untouchedGrace = AttacherAway + 2*time.Minute

// NotTakenUp reports whether no attacher has touched the attachment for longer than one that runs takes,
// or a younger one since.
func (p *View) NotTakenUp(va Attachment) bool {
	grace := untouchedGrace
	if p.NoAttacherRuns(va.Spec.Attacher) { // then no newer version is about to come either
		grace = AttacherAway
	}
	return untouched(va) && p.Lasted(va.CreationTimestamp, grace) && !p.busyElsewhere(va)
}

// untouched reports whether nothing was written to the object after its creation.
func untouched(va Attachment) bool {
	return !va.Status.Attached && va.Status.AttachError == nil && va.Status.DetachError == nil && va.DeletionTimestamp == nil &&
		len(va.Finalizers) == 0 && va.Annotations[reconcile.NodeIDAnnotation] == ""
}

// busyElsewhere reports whether the driver's attacher has processed younger attachments: it
// lives, and is only slow.
func (p *View) busyElsewhere(va Attachment) bool {
	return p.LastAnswer(va.Spec.Attacher).After(va.CreationTimestamp.Time) || slices.ContainsFunc(p.Tasks(va.Spec.Attacher), func(t Task) bool {
		return !t.Untouched() && (t.Failure == nil || va.CreationTimestamp.Before(&t.CreationTimestamp))
	})
}

var keptNoAttacher KeptBy[string, bool]

// NoAttacherRuns reports whether nothing in the cluster can attach for the driver. It has no
// lease, no pod runs an external-attacher that may be its own, and its attachments have no trace
// of one outside the cluster.
func (p *View) NoAttacherRuns(driver string) bool {
	return keptNoAttacher.Of(p, driver, (*View).findNoAttacherRuns)
}

func (p *View) findNoAttacherRuns(driver string) bool {
	return p.AttacherLease(driver) == nil && len(p.UnclaimedAttachers()) == 0 &&
		!slices.ContainsFunc(p.Snapshot.VolumeAttachments, func(va *storagev1.VolumeAttachment) bool {
			return va.Spec.Attacher == driver && (va.Status.Attached || !Task{VolumeAttachment: va}.Untouched() || va.Status.AttachError != nil)
		})
}
