package standing

import (
	"cmp"
	"slices"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
)

// detach is the detach of a volume from a node that was asked for and is not done.
type detach struct {
	namespace, claim, volume, node, driver string
	lasts                                  time.Duration
}

// detachesOf has an entry for each VolumeAttachment that is being deleted, the oldest first.
// The controller asks for a detach by that deletion, and the object goes when the driver has
// detached the volume. A detach that the controller puts off, as it does for up to six
// minutes while the volume is still mounted, is not yet asked for.
func detachesOf(view *repair.View) []detach {
	var list []detach
	for _, va := range view.Snapshot.VolumeAttachments {
		if !facts.Deleting(va) {
			continue
		}
		d := detach{node: va.Spec.NodeName, driver: va.Spec.Attacher, lasts: max(0, view.Report.TakenAt.Sub(va.DeletionTimestamp.Time))}
		if name := va.Spec.Source.PersistentVolumeName; name != nil {
			d.volume = *name
			if pv := view.Snapshot.Volume(*name); pv != nil && pv.Spec.ClaimRef != nil {
				d.namespace, d.claim = pv.Spec.ClaimRef.Namespace, pv.Spec.ClaimRef.Name
			}
		} else if volume, err := view.World.AttachmentVolume(va); err == nil {
			d.volume = string(volume)
		}
		list = append(list, d)
	}
	slices.SortStableFunc(list, func(a, b detach) int { return cmp.Compare(b.lasts, a.lasts) })
	return list
}
