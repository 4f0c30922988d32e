package apply

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

const driver = "ebs.csi.aws.com"

var epoch = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(epoch.Add(-d)) }

func uniqueName(handle string) corev1.UniqueVolumeName {
	return corev1.UniqueVolumeName("kubernetes.io/csi/" + driver + "^" + handle)
}

// lostEntry is the case of 2020: on n1 the kubelet waits for vol-1, which is attached but
// missing from volumesAttached. n2 is idle. vol-0 belongs to another pod and is well.
func lostEntry(t testing.TB) *memory {
	m := &memory{t: t, now: epoch, version: 100}
	m.addNode("n1")
	m.addNode("n2")
	m.addVolume("n1", "pv0", "vol-0", "web-x")
	m.addVolume("n1", "pv1", "vol-1", "web-0")
	n1 := m.node("n1")
	n1.Status.VolumesInUse = []corev1.UniqueVolumeName{uniqueName("vol-0"), uniqueName("vol-1")}
	n1.Status.VolumesAttached = []corev1.AttachedVolume{{Name: uniqueName("vol-0")}}
	required := true
	m.objects.CSIDrivers = []*storagev1.CSIDriver{{
		ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: storagev1.CSIDriverSpec{AttachRequired: &required},
	}}
	acquired := metav1.NewMicroTime(epoch.Add(-24 * time.Hour))
	m.objects.Leases = []*coordinationv1.Lease{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-controller-manager"},
		Spec:       coordinationv1.LeaseSpec{AcquireTime: &acquired},
	}}
	return m
}

func (m *memory) addNode(name string) {
	m.version++
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID("uid-" + name), ResourceVersion: "100", CreationTimestamp: ago(48 * time.Hour),
		Annotations: map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
	}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	m.objects.Nodes = append(m.objects.Nodes, node)
	m.objects.CSINodes = append(m.objects.CSINodes, &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: driver, NodeID: "i-" + name}}},
	})
}

// addVolume adds a persistent volume, its claim, a pod on the node that wants
// it, and its VolumeAttachment, attached.
func (m *memory) addVolume(node, pv, handle, pod string) {
	claimUID := types.UID("uid-claim-" + pv)
	m.objects.Volumes = append(m.objects.Volumes, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: pv, UID: types.UID("uid-" + pv), ResourceVersion: "100"},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			ClaimRef:               &corev1.ObjectReference{Namespace: "default", Name: pv, UID: claimUID},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: handle}},
		},
	})
	m.objects.Claims = append(m.objects.Claims, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: pv, UID: claimUID},
		Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: pv},
		Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
	})
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: pod, UID: types.UID("uid-" + pod), ResourceVersion: "100", CreationTimestamp: ago(20 * time.Minute)},
		Spec: corev1.PodSpec{
			NodeName:   node,
			Containers: []corev1.Container{{Name: "app", VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}}},
			Volumes: []corev1.Volume{{
				Name: "data",
				VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: pv},
				},
			}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	m.objects.Pods = append(m.objects.Pods, p)
	m.addAttachment(node, pv, reconcile.VolumeAttachmentName(handle, driver, types.NodeName(node)))
}

func (m *memory) addAttachment(node, pv, name string) *storagev1.VolumeAttachment {
	va := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("uid-" + name), ResourceVersion: "100", CreationTimestamp: ago(30 * time.Minute),
			Annotations: map[string]string{reconcile.NodeIDAnnotation: "i-" + node},
		},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: driver, NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &pv},
		},
		Status: storagev1.VolumeAttachmentStatus{Attached: true},
	}
	m.objects.VolumeAttachments = append(m.objects.VolumeAttachments, va)
	return va
}

// attachment is the VolumeAttachment of vol-1 on n1.
func (m *memory) attachment() *storagev1.VolumeAttachment {
	name := reconcile.VolumeAttachmentName("vol-1", driver, "n1")
	for _, va := range m.objects.VolumeAttachments {
		if va.Name == name {
			return va
		}
	}
	m.t.Fatal("no VolumeAttachment of vol-1 on n1")
	return nil
}

// pod is web-0, which waits for vol-1.
func (m *memory) pod() *corev1.Pod {
	for _, pod := range m.objects.Pods {
		if pod.Name == "web-0" {
			return pod
		}
	}
	m.t.Fatal("no pod web-0")
	return nil
}

func (m *memory) volume(name string) *corev1.PersistentVolume {
	for _, pv := range m.objects.Volumes {
		if pv.Name == name {
			return pv
		}
	}
	m.t.Fatalf("no volume %s", name)
	return nil
}

// entries are the handles that volumesAttached of n1 lists.
func (m *memory) entries() []string {
	handles := []string{}
	for _, v := range m.node("n1").Status.VolumesAttached {
		_, handle, _ := reconcile.ParseCSI(v.Name)
		handles = append(handles, handle)
	}
	return handles
}
