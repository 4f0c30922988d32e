package diagnose

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// attachment is a VolumeAttachment and the pair that it is for.
type attachment struct {
	*storagev1.VolumeAttachment
	reconcile.VolumeNode
	// computed is the name that the controller gives it; "" where that is not
	// known yet. It is a hash, and every check would make it anew.
	computed string
}

// attachments are those whose volume can be told. One without a PV, or of a
// driver that attaches nothing, is another failure mode.
func (p *Pass) attachments() []attachment {
	memory := p.remember()
	if memory.attachments == nil {
		memory.attachments = p.findAttachments()
	}
	return memory.attachments
}

func (p *Pass) findAttachments() []attachment {
	var list []attachment
	for _, va := range p.Snapshot.VolumeAttachments {
		if volume, err := p.World.AttachmentVolume(va); err == nil {
			pair := reconcile.VolumeNode{Volume: volume, Node: types.NodeName(va.Spec.NodeName)}
			list = append(list, attachment{va, pair, attachmentName(pair)})
		}
	}
	return list
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
	if known := p.remember().waiting; known != nil {
		return known
	}
	waiting := map[corev1.UniqueVolumeName][]*corev1.Pod{}
	p.remember().waiting = waiting
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
	return slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil || started(pod) })
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

var notInNames = regexp.MustCompile("[^a-zA-Z0-9-]")

// attacherName is how the external-attacher writes its driver's name in its
// finalizer and in its lease.
func attacherName(driver string) string {
	name := notInNames.ReplaceAllString(driver, "-")
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
