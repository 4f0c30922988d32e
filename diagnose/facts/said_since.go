package facts

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/kubeletwords"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// A message proves something only about the moment at which it was written. One from before the
// last change of its object is about an earlier state. Events, errors of VolumeAttachments and
// lines of a log are therefore read through the functions of this file.

// FailedKillPodReason is the reason of the kubelet's events about a pod that it fails to end.
const FailedKillPodReason = "FailedKillPod"

// EventsOf are the events of the pod that still apply to it.
func (v *View) EventsOf(pod *corev1.Pod) []*corev1.Event {
	return v.CurrentEvents(pod, v.Snapshot.EventsOfPod(pod))
}

// CurrentEvents are those of the pod's events that still apply to it.
func (v *View) CurrentEvents(pod *corev1.Pod, events []*corev1.Event) []*corev1.Event {
	if len(events) == 0 {
		return nil // as for most pods
	}
	began := pod.CreationTimestamp // events may come before the kubelet writes that the pod is bound
	if node := v.Snapshot.Node(NodeOf(pod)); node != nil {
		began = Latest(began, node.CreationTimestamp)
	}
	onNode := Latest(began, BoundAt(pod))
	inLife := Latest(onNode, lifeBegan(pod))
	return slices.DeleteFunc(slices.Clone(events), func(e *corev1.Event) bool {
		switch e.Reason {
		case AttachFailedReason, AttachSucceededReason:
			return !SaidSince(e, began)
		case FailedKillPodReason:
			return !SaidSince(e, onNode, EndAsked(pod))
		default:
			return !SaidSince(e, inLife, v.pluginCame(e, NodeOf(pod)))
		}
	})
}

// lifeBegan is when the last container of the pod started, or its sandbox changed: the kubelet's
// earlier reports are over. A machine that restarts loses the sandbox, and the kubelet mounts all
// volumes again.
func lifeBegan(pod *corev1.Pod) metav1.Time {
	var began metav1.Time
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if c.State.Running != nil {
			began = Latest(began, c.State.Running.StartedAt)
		}
		for _, ended := range []*corev1.ContainerStateTerminated{c.State.Terminated, c.LastTerminationState.Terminated} {
			if ended != nil {
				began = Latest(began, ended.StartedAt)
			}
		}
	}
	if c := Condition(pod, corev1.PodReadyToStartContainers); c != nil {
		began = Latest(began, c.LastTransitionTime)
	}
	return began
}

// pluginCame is when the node plugin of the event's unknown driver became Ready: the driver may
// have registered since. It is zero for other events, and where no plugin is Ready.
func (v *View) pluginCame(e *corev1.Event, node types.NodeName) metav1.Time {
	var came metav1.Time
	if m := kubeletwords.UnknownDriver.FindStringSubmatch(e.Message); m != nil {
		for _, plugin := range v.Plugins()[m[1]][node] {
			if Ready(plugin) {
				came = Latest(came, ReadyChanged(plugin))
			}
		}
	}
	return came
}

// EndAsked is when the pod's deletion was asked for: deletionTimestamp is the end of the grace
// period. It is zero where nobody has asked.
func EndAsked(pod *corev1.Pod) metav1.Time {
	if pod.DeletionTimestamp == nil {
		return metav1.Time{}
	}
	return metav1.NewTime(pod.DeletionTimestamp.Add(-time.Duration(ptr.Deref(pod.DeletionGracePeriodSeconds, 0)) * time.Second))
}

// GraceEnds is when the grace period of a Terminating pod ends. A kubelet grants all of it from
// when it learns about the deletion (calculateEffectiveGracePeriod, pkg/kubelet/pod_workers.go).
// One that was cut off then learns about it once its node is Ready again.
func (v *View) GraceEnds(pod *corev1.Pod) metav1.Time {
	node, ends := v.Snapshot.Node(NodeOf(pod)), *pod.DeletionTimestamp
	if node == nil {
		return ends
	}
	if ready, asked := ReadyCondition(node), EndAsked(pod); ready != nil && ready.Status == corev1.ConditionTrue && asked.Before(&ready.LastTransitionTime) {
		return metav1.NewTime(ends.Add(ready.LastTransitionTime.Sub(asked.Time)))
	}
	return ends
}

// attachBegan is since when the attachment of the volume to the pod's node has its present state.
// began is when the PersistentVolume and its VolumeAttachment were created, ended when the
// VolumeAttachment was deleted. Both are zero where nothing shows it.
func (v *View) attachBegan(pod *corev1.Pod, name string) (began, ended metav1.Time) {
	pv := v.Snapshot.Volume(name)
	if pv == nil {
		return began, ended
	}
	began = pv.CreationTimestamp
	volume, err := v.World.VolumeName(pv)
	if err != nil {
		return began, ended
	}
	if va := v.Snapshot.VolumeAttachment(AttachmentName(reconcile.VolumeNode{Volume: volume, Node: NodeOf(pod)})); va != nil {
		began, ended = Latest(began, va.CreationTimestamp), ptr.Deref(va.DeletionTimestamp, metav1.Time{})
	}
	return began, ended
}

// mountBegan is the same for a mount, which also needs the driver's entry in the CSINode. A stale
// entry in the node's list may have let the kubelet begin before the volume was attached: its
// messages until then are over.
func (v *View) mountBegan(pod *corev1.Pod, name string) metav1.Time {
	began, _ := v.attachBegan(pod, name)
	if e := v.AttachSucceeded(pod, name); e != nil {
		began = Latest(began, snapshot.EventTime(e))
	}
	pv := v.Snapshot.Volume(name)
	if csiNode := v.Snapshot.CSINode(NodeOf(pod)); csiNode != nil && pv != nil && pv.Spec.CSI != nil {
		began = Latest(began, csiNode.CreationTimestamp)
	}
	return began
}

// SaidSince reports whether the event was last seen at or after all of the moments at which its
// objects changed.
func SaidSince(e *corev1.Event, changed ...metav1.Time) bool {
	return !snapshot.EventTime(e).Time.Before(Latest(changed...).Time)
}

// AttachError is the error of the last attach, where it is about the present objects; else nil.
// An error that is older than the VolumeAttachment, the node, its drivers or the volume is about
// other objects of the same name. One from before the volume's deletion is about a volume that
// was to stay.
func (v *View) AttachError(va *storagev1.VolumeAttachment) *storagev1.VolumeError {
	if va.Status.AttachError == nil {
		return nil
	}
	began := []metav1.Time{va.CreationTimestamp, v.nodeBegan(va)}
	if csiNode := v.Snapshot.CSINode(types.NodeName(va.Spec.NodeName)); csiNode != nil {
		began = append(began, csiNode.CreationTimestamp)
	}
	if pv := v.Snapshot.Volume(VolumeName(va)); pv != nil {
		began = append(began, pv.CreationTimestamp)
		if pv.DeletionTimestamp != nil {
			began = append(began, *pv.DeletionTimestamp)
		}
	}
	return errorSince(va.Status.AttachError, began...)
}

// DetachError is the same for the last attempt to detach, which follows the request to delete
// the VolumeAttachment.
func (v *View) DetachError(va *storagev1.VolumeAttachment) *storagev1.VolumeError {
	if va.Status.DetachError == nil {
		return nil
	}
	began := []metav1.Time{va.CreationTimestamp, v.nodeBegan(va)}
	if va.DeletionTimestamp != nil {
		began = append(began, *va.DeletionTimestamp)
	}
	if pv := v.Snapshot.Volume(VolumeName(va)); pv != nil {
		began = append(began, pv.CreationTimestamp)
	}
	return errorSince(va.Status.DetachError, began...)
}

func (v *View) nodeBegan(va *storagev1.VolumeAttachment) metav1.Time {
	if node := v.Snapshot.Node(types.NodeName(va.Spec.NodeName)); node != nil {
		return node.CreationTimestamp
	}
	return metav1.Time{}
}

// errorSince is the error; nil where it is older than any of the moments.
func errorSince(e *storagev1.VolumeError, changed ...metav1.Time) *storagev1.VolumeError {
	if e == nil || e.Time.Time.Before(Latest(changed...).Time) {
		return nil
	}
	return e
}

// StillRefused reports whether the error may be the attacher's latest answer: a living attacher
// would have tried again since an older one.
func (v *View) StillRefused(e *storagev1.VolumeError) bool {
	return e != nil && v.Age(e.Time) <= AttacherRetries
}

// RefusedAlone reports whether the failed attempt began after the last other VolumeAttachment of
// the volume had gone. In an earlier attempt the driver may have named a machine whose detach has
// succeeded since. Only somebody who follows the VolumeAttachments knows this: the present ones
// do not show it.
func (v *View) RefusedAlone(va Attachment) bool {
	followed := v.Snapshot.Followed
	if followed == nil {
		return false
	}
	name := VolumeName(va.VolumeAttachment)
	stood := followed.Stood(func(gone *storagev1.VolumeAttachment) bool {
		if gone.Spec.Attacher != va.Spec.Attacher {
			return false
		}
		volume, err := v.World.AttachmentVolume(gone)
		return err != nil || volume == va.Volume || name != "" && VolumeName(gone) == name
	})
	asked, known := followed.Asked[va.Name]
	return known && asked.After(stood)
}

// FollowFor is how long RefusedAlone needs to follow the VolumeAttachments: two attempts at the
// attacher's longest back-off, and their calls.
const FollowFor = AttacherRetries + time.Minute
