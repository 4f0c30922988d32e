package diagnose

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// attachment is a VolumeAttachment and the pair that it is for.
type attachment struct {
	*storagev1.VolumeAttachment
	reconcile.VolumeNode
	// computed is the name that the controller gives it; "" where that is not
	// known yet. It is a hash, and every check would make it anew.
	computed string
	// ran says that a pod on the node has the volume mounted for all that is known,
	// which is so of nearly all: one that is false may not have been asked yet.
	ran bool
}

// attachments are those whose volume can be told. One without a PV, or of a
// driver that attaches nothing, is another failure mode.
func (p *Pass) attachments() []attachment {
	return p.remember().attachments.get(p.findAttachments)
}

func (p *Pass) findAttachments() []attachment {
	strays := sets.New(p.World.Strays()...)
	list := make([]attachment, 0, len(p.Snapshot.VolumeAttachments))
	for _, va := range p.Snapshot.VolumeAttachments {
		if volume, err := p.World.AttachmentVolume(va); err == nil {
			pair := reconcile.VolumeNode{Volume: volume, Node: types.NodeName(va.Spec.NodeName)}
			computed := va.Name
			if strays.Has(va) {
				computed = attachmentName(pair)
			}
			list = append(list, attachment{va, pair, computed, p.World.HasRunningPod(pair)})
		}
	}
	return list
}

// attachmentsOf are those of the volume, on whatever nodes, in the order of
// their names.
func (p *Pass) attachmentsOf(volume corev1.UniqueVolumeName) []attachment {
	return p.remember().byVolume.get(func() map[corev1.UniqueVolumeName][]attachment {
		all := p.attachments()
		byVolume := make(map[corev1.UniqueVolumeName][]attachment, len(all))
		for i, va := range all {
			if vas, ok := byVolume[va.Volume]; ok {
				byVolume[va.Volume] = append(vas, va)
			} else {
				byVolume[va.Volume] = all[i : i+1 : i+1] // nearly all volumes have one
			}
		}
		return byVolume
	})[volume]
}

// holds says that the volume is attached and nothing is under way to change it.
func (a attachment) holds() bool { return holds(a.VolumeAttachment) }

func holds(va *storagev1.VolumeAttachment) bool {
	return va.Status.Attached && va.DeletionTimestamp == nil
}

// ours says that the name is the one under which the controller makes and
// deletes the object. With any other name it belongs to somebody else.
func (a attachment) ours() bool { return a.Name == a.properName() }

// properName is the name under which the controller makes the object.
func (a attachment) properName() string {
	if a.computed != "" {
		return a.computed
	}
	return attachmentName(a.VolumeNode)
}

// attachmentName is the name of the controller's VolumeAttachment for the pair;
// "" where there can be none.
func attachmentName(pair reconcile.VolumeNode) string {
	driver, handle, ok := reconcile.ParseCSI(pair.Volume)
	if !ok {
		return ""
	}
	return reconcile.VolumeAttachmentName(handle, driver, pair.Node)
}

func (a attachment) object() string { return "volumeattachment/" + a.Name }

// oneNode says whether the volume may be attached to one node at a time only.
func (p *Pass) oneNode(volume corev1.UniqueVolumeName) bool {
	pvs := p.World.Volumes(volume)
	return len(pvs) > 0 && !slices.ContainsFunc(pvs, func(pv *corev1.PersistentVolume) bool {
		return (&reconcile.VolumeSpec{PV: pv}).MultiAttach()
	})
}

// waiting are the pods that cannot start before a volume is attached to their
// node, by volume; the one that waits longest comes first.
func (p *Pass) waiting() map[corev1.UniqueVolumeName][]*corev1.Pod {
	return p.remember().waiting.get(p.findWaiting)
}

func (p *Pass) findWaiting() map[corev1.UniqueVolumeName][]*corev1.Pod {
	waiting := map[corev1.UniqueVolumeName][]*corev1.Pod{}
	for pair, row := range p.World.Desired {
		if slices.ContainsFunc(p.World.Attachments(pair), holds) {
			continue // it is attached: what the pod waits for comes later
		}
		waiting[pair.Volume] = append(waiting[pair.Volume], pending(p.wantingPods(row))...)
	}
	for _, pods := range waiting {
		longestFirst(pods)
	}
	return waiting
}

// pending are the pods that have not come to use their volumes and still mean to.
func pending(pods []*corev1.Pod) []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool { return !isPending(pod) })
}

func isPending(pod *corev1.Pod) bool { return pod.DeletionTimestamp == nil && !started(pod) }

// pendingOn are the pending pods of the node. There are few of them, and many
// checks ask about every node.
func (p *Pass) pendingOn(node types.NodeName) []*corev1.Pod {
	return slices.Clone(p.pendingByNode()[node])
}

// pendingPods are the pending pods of all nodes and of none.
func (p *Pass) pendingPods() []*corev1.Pod {
	return slices.Concat(slices.Collect(maps.Values(p.pendingByNode()))...)
}

func (p *Pass) pendingByNode() map[types.NodeName][]*corev1.Pod {
	return p.podsByRole().pending
}

func longestFirst(pods []*corev1.Pod) {
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(boundAt(a).Compare(boundAt(b).Time), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
}

// elsewhere are those of the pods that are not on the node.
func elsewhere(pods []*corev1.Pod, node types.NodeName) []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool { return pod.Spec.NodeName == string(node) })
}

func deleting(va *storagev1.VolumeAttachment) bool { return va.DeletionTimestamp != nil }

// attachRequired says whether the driver's volumes are attached at all; they
// are where the driver does not say otherwise.
func (p *Pass) attachRequired(driver string) bool {
	d := p.Snapshot.CSIDriver(driver)
	return d == nil || d.Spec.AttachRequired == nil || *d.Spec.AttachRequired
}

// podVolume is a pod and one volume that it waits for, by its unique name where
// it is attached, and by the name people know.
type podVolume struct {
	pod    *corev1.Pod
	volume corev1.UniqueVolumeName
	name   string
}

// attacherName is how the external-attacher writes its driver's name in its
// finalizer and in its lease.
func attacherName(driver string) string {
	name := strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' {
			return r
		}
		return '-'
	}, driver)
	if strings.HasSuffix(name, "-") {
		name += "X"
	}
	return name
}

// unanswered says that a driver's message tells of a call without an answer or
// of one still under way. A storage system that is only slow says the same.
func unanswered(message string) bool {
	return containsAny(message, "DeadlineExceeded", "deadline exceeded", "Unavailable", "Aborted", "timed out", "timeout")
}

func containsAny(s string, words ...string) bool {
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(strings.ToLower(s), strings.ToLower(word)) })
}
