package reconcile

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// Forgotten is a pair that a controller at work may still want and a controller that has just
// started does not. A controller looks up what a pod's volume means once, when it first sees
// the pod on its node, and keeps the answer until the pod is gone: a claim, a
// PersistentVolume or an annotation of the node that changes later makes no difference to it
// (podAdd, findAndRemoveDeletedPods). A controller that starts looks everything up again.
type Forgotten struct {
	// VolumeNode is the pair. Its Volume is "" where only the VolumeAttachment is left: the
	// volume cannot be told from that object's name.
	VolumeNode
	PersistentVolume string
	VolumeAttachment string
	// Pods are the pods for which the controller at work may want the pair; sorted.
	Pods []types.NamespacedName
}

// Forgotten returns the pairs that a controller at work may remember and a fresh one would
// not build, sorted. They are possible, not proven: no object shows which volume a deleted
// claim led to, so it may be any volume on the pod's node that no pod there wants.
func (w *World) Forgotten() []Forgotten {
	if len(w.Actual.Items()) == 0 && len(w.snapshot.VolumeAttachments) == 0 {
		return nil
	}
	onNode := sync.OnceValue(w.wishes) // mostly every attachment is wanted, and nobody asks
	names := sync.OnceValue(w.namesByPV)
	var all []Forgotten
	add := func(f Forgotten, pv string) {
		for _, v := range onNode()[f.Node] {
			pod := namespaced(v.pod.Namespace, v.pod.Name)
			if w.mayHaveMeant(v, f.Volume, pv, names()) && !slices.Contains(f.Pods, pod) {
				f.Pods = append(f.Pods, pod)
			}
		}
		if len(f.Pods) > 0 {
			slices.SortFunc(f.Pods, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
			all = append(all, f)
		}
	}
	named := map[*storagev1.VolumeAttachment]bool{}
	for _, row := range w.Actual.Items() {
		named[row.Attachment] = row.computedName
		if w.Desired.Find(row.VolumeNode) != nil {
			continue
		}
		f := Forgotten{VolumeNode: row.VolumeNode}
		if row.Attachment != nil {
			f.VolumeAttachment, f.PersistentVolume = row.Attachment.Name, ptr.Deref(row.Attachment.Spec.Source.PersistentVolumeName, "")
		}
		if pv := w.Volume(f.Volume); pv != nil {
			f.PersistentVolume = pv.Name
		}
		add(f, f.PersistentVolume)
	}
	for _, va := range w.snapshot.VolumeAttachments {
		pv := va.Spec.Source.PersistentVolumeName
		if named[va] || pv == nil {
			continue
		}
		// The object's name is computed from another volume than its PersistentVolume leads
		// to. An earlier PersistentVolume of the same name may have led there.
		f := Forgotten{VolumeNode: VolumeNode{Node: types.NodeName(va.Spec.NodeName)}, PersistentVolume: *pv, VolumeAttachment: va.Name}
		if w.recoveredFrom(*pv) == nil {
			add(f, *pv)
		} else {
			add(f, "")
		}
	}
	slices.SortFunc(all, func(a, b Forgotten) int {
		return cmp.Or(a.compare(b.VolumeNode), strings.Compare(a.VolumeAttachment, b.VolumeAttachment))
	})
	return all
}

// wishes are the volumes of pods that a controller at work may want, by node.
func (w *World) wishes() map[types.NodeName][]*podVolume {
	onNode := map[types.NodeName][]*podVolume{}
	for i := range w.podVolumes {
		v := &w.podVolumes[i]
		if v.node == "" || !CanBeAttached(v.volume) || PodTerminated(v.pod) && !w.keepsTerminated(v.node) {
			continue
		}
		onNode[v.node] = append(onNode[v.node], v)
	}
	return onNode
}

// mayHaveMeant reports whether the pod's volume, when the controller at work saw the pod, may
// have been this volume, or may have led to this PersistentVolume.
func (w *World) mayHaveMeant(v *podVolume, volume corev1.UniqueVolumeName, pv string, names map[string][]corev1.UniqueVolumeName) bool {
	if v.err == nil && v.name == volume {
		return true // its node is not managed any more, or is gone
	}
	claimName := ClaimName(v.pod, v.volume)
	if claimName == "" {
		// The pod itself names its volume; the volume's unique name may depend on the node.
		var why *skip
		return errors.As(v.err, &why) && why.reason != NotAttachable
	}
	claim := w.snapshot.Claim(namespaced(v.pod.Namespace, claimName))
	if claim == nil || claim.Spec.VolumeName == "" || madeSince(claim.CreationTimestamp, v.pod) {
		return true // there was another claim of the name, or may have been
	}
	found := w.snapshot.Volume(claim.Spec.VolumeName)
	if found == nil || found.Name == pv || madeSince(found.CreationTimestamp, v.pod) {
		return true
	}
	return slices.Contains(names[found.Name], volume)
}

// madeSince reports whether an object is younger than the pod is on its node.
func madeSince(made metav1.Time, pod *corev1.Pod) bool {
	return made.After(boundAt(pod))
}
