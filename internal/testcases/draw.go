package testcases

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// Draw crosses up to three cases of the corpus, whose objects share names and so get
// mixed up, and then changes a few facts. Most of the results are broken in ways that nobody
// has thought of.
func Draw(t *rapid.T, cases []*snapshot.Snapshot) *snapshot.Snapshot {
	s := rapid.SampledFrom(cases).Draw(t, "case")
	for range rapid.IntRange(0, 2).Draw(t, "more cases") {
		s = Cross(s, rapid.SampledFrom(cases).Draw(t, "case"))
	}
	o := Copy(s.Objects)
	for _, va := range o.VolumeAttachments {
		va.UID = types.UID("attachment-" + va.Name) // no two objects have one UID, but those of two cases may
	}
	for range rapid.IntRange(0, 5).Draw(t, "changes") {
		alter(t, &o, s.TakenAt)
	}
	later := time.Duration(rapid.IntRange(0, 3).Draw(t, "later")) * 5 * time.Minute
	made := snapshot.New(s.TakenAt.Add(later), s.Source, o, slices.Clone(s.Gaps))
	made.Backends = s.Backends
	return made
}

// alter changes one random fact of the cluster.
func alter(t *rapid.T, o *snapshot.Objects, now time.Time) {
	at := metav1.NewTime(now.Add(-time.Duration(rapid.IntRange(0, 20).Draw(t, "minutes ago")) * time.Minute))
	changes := []func(){
		func() { One(t, o.Nodes, func(n *corev1.Node) { n.Annotations = nil }) },
		func() {
			One(t, o.Nodes, func(n *corev1.Node) {
				n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, LastTransitionTime: at,
					Status: rapid.SampledFrom([]corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionUnknown}).Draw(t, "ready")}}
			})
		},
		func() {
			One(t, o.Nodes, func(n *corev1.Node) {
				n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeOutOfService})
			})
		},
		func() { One(t, o.Nodes, func(n *corev1.Node) { n.Status.VolumesAttached = nil }) },
		func() { One(t, o.Nodes, func(n *corev1.Node) { n.Status.VolumesInUse = nil }) },
		func() { // another node uses what one node lists
			One(t, o.Nodes, func(n *corev1.Node) {
				One(t, o.Nodes, func(other *corev1.Node) {
					for _, v := range other.Status.VolumesAttached {
						n.Status.VolumesInUse = append(n.Status.VolumesInUse, v.Name)
					}
				})
			})
		},
		func() {
			One(t, o.Nodes, func(n *corev1.Node) {
				One(t, o.Nodes, func(other *corev1.Node) { n.Status.VolumesAttached = slices.Clone(other.Status.VolumesAttached) })
			})
		},
		func() {
			One(t, o.VolumeAttachments, func(va *storagev1.VolumeAttachment) { va.Status.Attached = !va.Status.Attached })
		},
		func() {
			One(t, o.VolumeAttachments, func(va *storagev1.VolumeAttachment) { va.DeletionTimestamp = &at })
		},
		func() {
			One(t, o.VolumeAttachments, func(va *storagev1.VolumeAttachment) {
				va.Status.DetachError = &storagev1.VolumeError{Time: at, Message: "refused"}
			})
		},
		func() { // it is on another node, under the name for that node
			One(t, o.VolumeAttachments, func(va *storagev1.VolumeAttachment) {
				One(t, o.Nodes, func(n *corev1.Node) { va.Spec.NodeName = n.Name })
				One(t, o.Volumes, func(pv *corev1.PersistentVolume) {
					if csi := pv.Spec.CSI; csi != nil {
						va.Spec.Source.PersistentVolumeName = &pv.Name
						va.Name = reconcile.VolumeAttachmentName(csi.VolumeHandle, csi.Driver, types.NodeName(va.Spec.NodeName))
					}
				})
				o.VolumeAttachments = slices.DeleteFunc(o.VolumeAttachments, func(other *storagev1.VolumeAttachment) bool {
					return other != va && other.Name == va.Name
				})
			})
		},
		func() { One(t, o.Pods, func(p *corev1.Pod) { p.DeletionTimestamp = &at }) },
		func() { One(t, o.Pods, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }) },
		func() { One(t, o.Pods, func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }) },
		func() {
			One(t, o.Pods, func(p *corev1.Pod) {
				One(t, o.Nodes, func(n *corev1.Node) { p.Spec.NodeName = n.Name })
			})
		},
		func() { One(t, o.Claims, func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimLost }) },
		func() { One(t, o.Claims, func(c *corev1.PersistentVolumeClaim) { c.UID += "-new" }) },
		func() {
			One(t, o.Volumes, func(pv *corev1.PersistentVolume) {
				pv.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
			})
		},
		func() { One(t, o.CSINodes, func(n *storagev1.CSINode) { n.Spec.Drivers = nil }) },
		func() { drop(t, &o.Nodes) },
		func() { drop(t, &o.Pods) },
		func() { drop(t, &o.Volumes) },
		func() { drop(t, &o.VolumeAttachments) },
		func() { drop(t, &o.Leases) },
	}
	changes[rapid.IntRange(0, len(changes)-1).Draw(t, "change")]()
}

// One applies f to a random element of the list, if there is one.
func One[T any](t *rapid.T, list []*T, f func(*T)) {
	if len(list) > 0 {
		f(rapid.SampledFrom(list).Draw(t, fmt.Sprintf("%T", list)))
	}
}

func drop[T any](t *rapid.T, list *[]*T) {
	One(t, *list, func(object *T) { *list = slices.DeleteFunc(*list, func(o *T) bool { return o == object }) })
}
