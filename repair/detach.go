package repair

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// deleteAttachment deletes an attachment that is left on a node that lives: there the objects
// themselves can prove that nothing uses the volume.
var deleteAttachment = action{
	kind:     DeleteAttachment,
	risk:     RiskMedium,
	codes:    []finding.Code{"VD101", "VD105", "VD108", "VD119", "VD120", "VD502", "VD508", "VD509", "VD510"},
	detaches: true,
	needs:    []Permission{RightTo(VerbDelete, snapshot.VolumeAttachments, "")},
	guards: append(slices.Clone(detachGuards),
		nodeLivesGuard,
		notInUseGuard,
		notListedGuard,
	),
	propose: onAttachment(proposeDelete),
}

// madeByOthers are the findings about a VolumeAttachment that another program made.
var madeByOthers = []finding.Code{"VD120"}

// ofDeleted are the findings about a volume that is being deleted, whether or not a pod waits
// for it.
var ofDeleted = []finding.Code{"VD502"}

// neverDetached are the findings about a volume that the controller lists as attached and can
// never detach, in any release.
var neverDetached = []finding.Code{"VD510"}

// deleteFencedAttachment deletes an attachment that is left on a node that is lost or gone:
// there no object can prove that the node no longer writes.
var deleteFencedAttachment = action{
	kind:     DeleteFencedAttachment,
	risk:     RiskHigh,
	codes:    []finding.Code{"VD102", "VD111", "VD112", "VD114", "VD117", "VD118", "VD120"},
	detaches: true,
	needs:    []Permission{RightTo(VerbDelete, snapshot.VolumeAttachments, "")},
	// volumesInUse does not count: nobody will clear it. The user's word that nothing there
	// can write takes its place.
	guards: append(slices.Clone(detachGuards),
		notAliveGuard,
		offGuard,
	),
	propose: onAttachment(proposeFencedDelete),
}

// detachGuards make sure, on any node, that the deletion detaches only this volume from this
// machine, and that nobody uses it any more. The guards about the node stand between these and
// the user's consent.
var detachGuards = []Guard{
	controllerGuard,
	findingGuard,
	sameAttachmentGuard,
	notDeletingGuard,
	nobodyElsesGuard,
	notWantedGuard,
	noLivePodGuard,
	driverIsAskedGuard,
	ownNameGuard,
	onlyOneThereGuard,
	notAttachedElsewhereGuard,
	sameNodeIDGuard,
	notOlderGuard,
	attacherOfTargetGuard,
	diskStaysGuard,
}

// proposeDelete deletes a VolumeAttachment that nobody wants, gracefully: the attacher's
// finalizer holds it until the driver has detached the volume. The controller would do the
// same if it still knew of the attachment.
//
// The attacher checks nothing: it looks neither at volumesInUse nor at the node's health, so
// the guards do. The name must be the hash of the handle that the volume has now, because the
// attacher takes the handle from there.
func proposeDelete(v *View, f finding.Finding, va *storagev1.VolumeAttachment) (Repair, error) {
	switch {
	case slices.Contains(madeAgain, f.Code) && len(f.AdviceCommands) > 0:
		return Repair{}, errors.New("the attacher cannot detach the disk before its PersistentVolume is made again, as is advised")
	case slices.Contains(madeAgain, f.Code) && va.DeletionTimestamp != nil && facts.AttacherHolds(va):
		return Repair{}, errors.New("the VolumeAttachment is being deleted already, and waits for the attacher")
	case slices.Contains(ofDeleted, f.Code) && len(f.Pods) > 0:
		return Repair{}, fmt.Errorf("pod %s waits for the volume, which is attached to no node while it is being deleted", f.Pods[0])
	case slices.Contains(ofDeleted, f.Code) && !facts.ComputedName.MatchString(va.Name):
		return Repair{}, errors.New("another program made the VolumeAttachment, and may be at work with it")
	}
	r := deletion(va)
	if slices.Contains(madeByOthers, f.Code) {
		// The program that made it may use it in a way that no pod and no kubelet shows.
		r.Guards = []Guard{allowedGuard(DeleteAttachment)}
		r.OnlyIf = fmt.Sprintf("nothing on node %s uses the volume, which is detached under it", va.Spec.NodeName)
	}
	return r, nil
}

// proposeFencedDelete deletes a VolumeAttachment of a node that is off. The attacher then
// detaches immediately, six minutes before the controller would, or where the controller
// never would. If the machine still writes, that takes the volume away from under it, and
// another machine may write to it at the same time.
func proposeFencedDelete(v *View, f finding.Finding, va *storagev1.VolumeAttachment) (Repair, error) {
	if f.SelfHeals.Will && !slices.Contains(v.Consent.Fenced, f.Node) && shutDownByCloud(v.Snapshot.Node(f.Node)) {
		return Repair{}, fmt.Errorf("it heals by itself; give --fenced %s to have it sooner", safetext.Quote(string(f.Node)))
	}
	return deletion(va), nil
}

// deletion is the part that both kinds of deletion share.
func deletion(va *storagev1.VolumeAttachment) Repair {
	return Repair{
		Do:       Operation{Verb: VerbDelete, Target: refTo(snapshot.VolumeAttachments, va)},
		WhyNot:   "a VolumeAttachment that is made again is another attach, and what was mounted stays torn away",
		PreImage: wholeAttachment(va),
		stands: func(v *View) bool {
			return letGo(v, va, func(now *storagev1.VolumeAttachment) bool { return now.DeletionTimestamp != nil })
		},
		pending: func(v *View) string { return detaching(v, va) },
		hits:    func(v *View) string { return hitBy(v, va) },
		check:   answered(func(after *deleted) error { return after.checkSame(va.UID) }),
	}
}

// wholeAttachment is the VolumeAttachment as a manifest that a person can keep before it is
// deleted.
func wholeAttachment(va *storagev1.VolumeAttachment) json.RawMessage {
	kept := va.DeepCopy()
	kept.APIVersion, kept.Kind = storagev1.SchemeGroupVersion.String(), "VolumeAttachment"
	kept.ManagedFields = nil
	return Compact(kept)
}

// letGo reports whether the object is gone or about to go. Where another object has its name,
// it does if the controller made that since, for a pod that wants the volume: that is another
// attach.
func letGo(v *View, va *storagev1.VolumeAttachment, onItsWay func(*storagev1.VolumeAttachment) bool) bool {
	now := v.Snapshot.VolumeAttachment(va.Name)
	switch {
	case now == nil:
		return true
	case now.UID == va.UID:
		return onItsWay(now)
	}
	return wanted(v, now)
}

// detaching says what the attacher and the controller still have to do.
func detaching(v *View, va *storagev1.VolumeAttachment) string {
	now := v.Snapshot.VolumeAttachment(va.Name)
	switch {
	case now != nil && now.UID == va.UID && v.Facts.DetachError(now) != nil:
		return "the driver refuses to detach the volume: " + now.Status.DetachError.Message
	case now != nil && now.UID == va.UID:
		return "the attacher has not detached the volume yet"
	case now == nil && reported(v, va, v.Facts.Lists):
		return fmt.Sprintf("volumesAttached of node %s still lists the volume", va.Spec.NodeName)
	}
	return ""
}

// deleted is the answer to a deletion: the object, or a status that names it.
type deleted struct {
	Metadata struct {
		UID types.UID `json:"uid"`
	} `json:"metadata"`
	Details struct {
		UID types.UID `json:"uid"`
	} `json:"details"`
}

func (after *deleted) checkSame(uid types.UID) error {
	if after.Metadata.UID != uid && after.Details.UID != uid {
		return errors.New("the API server answers for another object")
	}
	return nil
}

// target is the VolumeAttachment that the repair writes to. It is empty where the object is
// gone or another has its name: then only the guard about that refuses.
func target(v *View, r *Repair) *storagev1.VolumeAttachment {
	if va := v.Snapshot.VolumeAttachment(r.Do.Target.Name); va != nil && va.UID == r.Do.Target.UID {
		return va
	}
	return &storagev1.VolumeAttachment{}
}

// sourceVolume returns the name of the persistent volume that the VolumeAttachment is for,
// and the object where it exists.
func sourceVolume(v *View, va *storagev1.VolumeAttachment) (string, *corev1.PersistentVolume) {
	name := facts.VolumeName(va)
	return name, v.Snapshot.Volume(name)
}

// volumesOf are the unique names that the VolumeAttachment's volume may have in a node's status:
// the name of its PersistentVolume or inline volume, whether or not its driver still attaches, and
// the names in the node's lists that hash to its own name.
func volumesOf(v *View, va *storagev1.VolumeAttachment) []corev1.UniqueVolumeName {
	var names []corev1.UniqueVolumeName
	if name, err := v.World.AttachmentVolume(va); err == nil {
		names = append(names, name)
	}
	if driver, handle, ok := v.Facts.AskedDisk(va); ok {
		names = append(names, reconcile.CSIVolumeName(driver, handle))
	}
	names = append(names, v.Facts.NodeHandles(va)...)
	slices.Sort(names)
	return slices.Compact(names)
}

func pairs(v *View, va *storagev1.VolumeAttachment) []reconcile.VolumeNode {
	var list []reconcile.VolumeNode
	for _, name := range volumesOf(v, va) {
		list = append(list, reconcile.VolumeNode{Volume: name, Node: types.NodeName(va.Spec.NodeName)})
	}
	return list
}

// wanted reports whether the controller wants the volume on the node.
func wanted(v *View, va *storagev1.VolumeAttachment) bool {
	return slices.ContainsFunc(pairs(v, va), func(p reconcile.VolumeNode) bool { return v.World.Desired.Find(p) != nil })
}

// livePods are the pods on the node that may have the volume mounted. Where the
// PersistentVolume is gone, only their claims show that they use it.
func livePods(v *View, va *storagev1.VolumeAttachment) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, pair := range pairs(v, va) {
		pods = append(pods, v.World.LivePods(pair)...)
	}
	name, _ := sourceVolume(v, va)
	if name == "" {
		return pods
	}
	claims := v.Facts.ClaimsNaming(name)
	for _, pod := range v.Snapshot.PodsOnNode(types.NodeName(va.Spec.NodeName)) {
		if has(pod, claims) && !reconcile.PodTerminated(pod) && !slices.Contains(pods, pod) {
			pods = append(pods, pod)
		}
	}
	return pods
}

// has reports whether the pod has a volume of one of the claims.
func has(pod *corev1.Pod, claims []*corev1.PersistentVolumeClaim) bool {
	return slices.ContainsFunc(claims, func(claim *corev1.PersistentVolumeClaim) bool {
		if claim.Namespace != pod.Namespace {
			return false
		}
		for i := range pod.Spec.Volumes {
			if reconcile.ClaimName(pod, &pod.Spec.Volumes[i]) == claim.Name {
				return true
			}
		}
		return false
	})
}
