package facts

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/index"
)

// Attachment is a VolumeAttachment with its volume and node.
type Attachment struct {
	*storagev1.VolumeAttachment
	reconcile.VolumeNode
	// name caches whether the controller would give the object its name; unknown where that was
	// not computed. The name is a hash that every check would compute again.
	name nameKind
	// Ran caches World.HasRunningPod; false may also mean that nobody has asked yet.
	Ran bool
}

type nameKind uint8

const (
	unknown nameKind = iota
	computed
	foreign
)

var keptAttachments Kept[[]Attachment]

// Attachments are the VolumeAttachments whose volume is known. Other checks report those without
// a PV, or of a driver that attaches nothing.
func (p *View) Attachments() []Attachment {
	return keptAttachments.Of(p, (*View).findAttachments)
}

func (p *View) findAttachments() []Attachment {
	orphans := sets.New(p.World.OrphanedAttachments()...)
	list := make([]Attachment, 0, len(p.Snapshot.VolumeAttachments))
	for _, va := range p.Snapshot.VolumeAttachments {
		if volume, err := p.World.AttachmentVolume(va); err == nil {
			pair := reconcile.VolumeNode{Volume: volume, Node: types.NodeName(va.Spec.NodeName)}
			name := computed
			if orphans.Has(va) && va.Name != AttachmentName(pair) {
				name = foreign
			}
			list = append(list, Attachment{va, pair, name, p.World.HasRunningPod(pair)})
		}
	}
	return list
}

var keptByVolume Kept[map[corev1.UniqueVolumeName][]Attachment]

// AttachmentsOf are the attachments of the volume on all nodes, in the order of their names.
func (p *View) AttachmentsOf(volume corev1.UniqueVolumeName) []Attachment {
	return keptByVolume.Of(p, func(p *View) map[corev1.UniqueVolumeName][]Attachment {
		return index.New(p.Attachments(), func(va Attachment) corev1.UniqueVolumeName { return va.Volume })
	})[volume]
}

// Holds reports whether the volume is attached and nothing is under way to change it.
func (a Attachment) Holds() bool { return Holds(a.VolumeAttachment) }

// Holds reports whether the volume is attached and nothing is under way to change it.
func Holds(va *storagev1.VolumeAttachment) bool {
	return va.Status.Attached && va.DeletionTimestamp == nil
}

// Ours reports whether the object has the name that the controller computes. An object with
// another name is somebody else's.
func (a Attachment) Ours() bool {
	return a.name == computed || a.name == unknown && a.Name == AttachmentName(a.VolumeNode)
}

// AttachmentName is the name of the controller's VolumeAttachment for the pair;
// "" where there can be none.
func AttachmentName(pair reconcile.VolumeNode) string {
	driver, handle, ok := reconcile.ParseCSI(pair.Volume)
	if !ok {
		return ""
	}
	return reconcile.VolumeAttachmentName(handle, driver, pair.Node)
}

// Object names the VolumeAttachment as evidence does.
func (a Attachment) Object() string { return "volumeattachment/" + a.Name }

// OneNode reports whether the volume may be attached to one node at a time only.
func (p *View) OneNode(volume corev1.UniqueVolumeName) bool {
	pvs := p.World.Volumes(volume)
	return len(pvs) > 0 && !slices.ContainsFunc(pvs, func(pv *corev1.PersistentVolume) bool {
		return (&reconcile.VolumeSpec{PV: pv}).MultiAttach()
	})
}

var keptWaiting Kept[map[corev1.UniqueVolumeName][]*corev1.Pod]

// Waiting are the pods that cannot start before a volume is attached to their node, by volume,
// the longest first.
func (p *View) Waiting() map[corev1.UniqueVolumeName][]*corev1.Pod {
	return keptWaiting.Of(p, (*View).findWaiting)
}

func (p *View) findWaiting() map[corev1.UniqueVolumeName][]*corev1.Pod {
	waiting := map[corev1.UniqueVolumeName][]*corev1.Pod{}
	for _, row := range p.World.Desired.Items() {
		if slices.ContainsFunc(p.World.Attachments(row.VolumeNode), Holds) {
			continue // it is attached: what the pod waits for comes later
		}
		waiting[row.Volume] = append(waiting[row.Volume], p.WaitingPods(row.VolumeNode)...)
	}
	for _, pods := range waiting {
		LongestFirst(pods)
	}
	return waiting
}

// WaitingPods are the pods on the node that do not start before they have the volume. A pod whose
// containers do not use the volume never waits: the kubelet ignores such a volume, though the
// controller attaches it.
func (p *View) WaitingPods(pair reconcile.VolumeNode) []*corev1.Pod {
	row := p.World.Desired.Find(pair)
	if row == nil {
		return nil
	}
	return slices.DeleteFunc(Pending(p.WantingPods(row)), func(pod *corev1.Pod) bool { return !p.ContainersUse(pod, pair.Volume) })
}

// Pending are the pods of the list that are pending, in a new slice.
func Pending(pods []*corev1.Pod) []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool { return !IsPending(pod) })
}

// IsPending reports whether the pod is to start and has not.
func IsPending(pod *corev1.Pod) bool { return pod.DeletionTimestamp == nil && !Started(pod) }

// PendingOn are the pending pods of the node, the longest first. There are few of
// them, and many checks ask about every node.
func (p *View) PendingOn(node types.NodeName) []*corev1.Pod { return p.PodsByRole().pendingOn[node] }

// PendingPods are the pending pods of the cluster, bound to a node or not, the longest first.
func (p *View) PendingPods() []*corev1.Pod { return p.PodsByRole().pending }

// LongestFirst sorts the pods by when they were bound, the oldest first, and returns
// them.
func LongestFirst(pods []*corev1.Pod) []*corev1.Pod {
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(BoundAt(a).Compare(BoundAt(b).Time), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return pods
}

// Deleting reports whether the VolumeAttachment was deleted and still exists.
func Deleting(va *storagev1.VolumeAttachment) bool { return va.DeletionTimestamp != nil }

// AttachRequired reports whether the driver's volumes are attached; true where its CSIDriver
// does not say otherwise.
func (p *View) AttachRequired(driver string) bool {
	d := p.Snapshot.CSIDriver(driver)
	return d == nil || ptr.Deref(d.Spec.AttachRequired, true)
}

// NeverAttachedAgain reports whether no attacher attaches the volume where it is not attached yet:
// the external-attacher refuses a volume that is marked for deletion (csiHandler.csiAttach).
func (p *View) NeverAttachedAgain(pv *corev1.PersistentVolume) bool {
	if pv.DeletionTimestamp == nil {
		return false
	}
	name, err := p.World.VolumeName(pv)
	_, _, csi := reconcile.ParseCSI(name)
	return err == nil && csi
}

// PodVolume is a pod and one of its volumes: Volume is the unique name where it is attached, and
// Name the one that people know.
type PodVolume struct {
	Pod    *corev1.Pod
	Volume corev1.UniqueVolumeName
	Name   string
}

// ContainsAny reports whether the text contains one of the words, in upper or lower case.
func ContainsAny(s string, words ...string) bool {
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(strings.ToLower(s), strings.ToLower(word)) })
}
