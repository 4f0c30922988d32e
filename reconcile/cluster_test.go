package reconcile

import (
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// The tests build their clusters from the objects below, each right in every
// way until an edit spoils it: nodes are managed and Ready, claims are bound.

func snapshotOf(o snapshot.Objects) *snapshot.Snapshot {
	return snapshot.New(time.Unix(0, 0), snapshot.Source{}, o, nil)
}

// cloneObjects keeps the original from snapshot.New, which takes its lists over.
func cloneObjects(o snapshot.Objects) snapshot.Objects {
	var clone snapshot.Objects
	from, to := reflect.ValueOf(o), reflect.ValueOf(&clone).Elem()
	for i := range from.NumField() {
		for j := range from.Field(i).Len() {
			object := from.Field(i).Index(j).Interface().(runtime.Object).DeepCopyObject()
			to.Field(i).Set(reflect.Append(to.Field(i), reflect.ValueOf(object)))
		}
	}
	return clone
}

func edited[T any](object *T, edits []func(*T)) *T {
	for _, edit := range edits {
		edit(object)
	}
	return object
}

func newNode(name string, edits ...func(*corev1.Node)) *corev1.Node {
	return edited(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{ManagedAnnotation: "true"}},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}, edits)
}

func unmanaged(n *corev1.Node) { n.Annotations = nil }

func notReady(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }

func outOfService(n *corev1.Node) {
	n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoSchedule})
}

func lists(names ...corev1.UniqueVolumeName) func(*corev1.Node) {
	return func(n *corev1.Node) {
		for _, name := range names {
			n.Status.VolumesAttached = append(n.Status.VolumesAttached, corev1.AttachedVolume{Name: name})
		}
	}
}

func uses(names ...corev1.UniqueVolumeName) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Status.VolumesInUse = append(n.Status.VolumesInUse, names...) }
}

// newPV is a CSI volume whose handle is its name.
func newPV(name string, edits ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	return edited(&corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			ClaimRef:               &corev1.ObjectReference{Namespace: "default", Name: "claim-" + name, UID: types.UID("uid-" + name)},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: name}},
		},
	}, edits)
}

func unique(name string) corev1.UniqueVolumeName {
	return corev1.UniqueVolumeName("kubernetes.io/csi/d^" + name)
}

func modes(m ...corev1.PersistentVolumeAccessMode) func(*corev1.PersistentVolume) {
	return func(pv *corev1.PersistentVolume) { pv.Spec.AccessModes = m }
}

func source(s corev1.PersistentVolumeSource) func(*corev1.PersistentVolume) {
	return func(pv *corev1.PersistentVolume) { pv.Spec.PersistentVolumeSource = s }
}

// newClaim is the claim that newPV refers to.
func newClaim(pv string, edits ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	return edited(&corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "claim-" + pv, UID: types.UID("uid-" + pv)},
		Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: pv},
		Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
	}, edits)
}

// newPod runs on the node and uses the claims of the PVs.
func newPod(name, node string, pvs []string, edits ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
		Spec:       corev1.PodSpec{NodeName: node},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, pv := range pvs {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: pv, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "claim-" + pv},
		}})
	}
	return edited(pod, edits)
}

func inline(s corev1.VolumeSource) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "inline", VolumeSource: s})
	}
}

// newAttachment is a VolumeAttachment with the name that the controller computes.
func newAttachment(pv, node string, edits ...func(*storagev1.VolumeAttachment)) *storagev1.VolumeAttachment {
	return edited(&storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: VolumeAttachmentName(pv, "d", types.NodeName(node))},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: "d", NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &pv},
		},
		Status: storagev1.VolumeAttachmentStatus{Attached: true},
	}, edits)
}
