package facts

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// TestDetachWanted counts in seconds: the controller took its lease at 100, and the snapshot is
// from 1000.
func TestDetachWanted(t *testing.T) {
	at := func(seconds int64) *metav1.Time { m := metav1.Unix(seconds, 0); return &m }
	ended := func(seconds int64) corev1.ContainerStatus {
		return corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: *at(seconds)}}}
	}
	grace := int64(30)
	pair := reconcile.VolumeNode{Volume: "kubernetes.io/csi/d^v", Node: "n1"}
	for name, tt := range map[string]struct {
		pod             *corev1.Pod
		deleted         *metav1.Time // of the VolumeAttachment
		noLease         bool
		before, notLate int64
	}{
		"nothing but the lease": {nil, nil, false, 100, 1000},
		"nothing at all":        {nil, nil, true, 0, 1000},
		"a pod that failed": {&corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed,
			ContainerStatuses: []corev1.ContainerStatus{ended(300)}, InitContainerStatuses: []corev1.ContainerStatus{ended(200)}}}, nil, false, 300, 1000},
		"a pod that failed and was deleted later": {&corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: at(600)},
			Status: corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{ended(300)}}}, nil, false, 300, 1000},
		"a pod that failed and says no more": {&corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed}}, nil, false, 100, 1000},
		"a pod told to go, with its grace": {&corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: at(600), DeletionGracePeriodSeconds: &grace}},
			nil, false, 570, 1000},
		"a pod told to go, and ended later": {&corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: at(600), DeletionGracePeriodSeconds: &grace},
			Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{ended(580)}}}, nil, false, 580, 1000},
		"a pod that ended before the controller started": {&corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodSucceeded,
			ContainerStatuses: []corev1.ContainerStatus{ended(50)}}}, nil, false, 100, 1000},
		"a pod that runs": {&corev1.Pod{}, nil, false, 0, 0},
		"a detach that has begun": {&corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{ended(300)}}},
			at(700), false, 300, 700},
		"a VolumeAttachment that a person deleted": {&corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed,
			ContainerStatuses: []corev1.ContainerStatus{ended(300)}}}, at(200), false, 300, 1000},
	} {
		pv := "v"
		o := snapshot.Objects{
			Nodes: []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n1", Annotations: map[string]string{
				"volumes.kubernetes.io/controller-managed-attach-detach": "true"}}}},
			Volumes: []*corev1.PersistentVolume{{ObjectMeta: metav1.ObjectMeta{Name: pv}, Spec: corev1.PersistentVolumeSpec{
				ClaimRef:               &corev1.ObjectReference{Name: "c", UID: "c"},
				PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "v"}}}}},
			Claims: []*corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "c"},
				Spec:   corev1.PersistentVolumeClaimSpec{VolumeName: pv},
				Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound}}},
			VolumeAttachments: []*storagev1.VolumeAttachment{{ObjectMeta: metav1.ObjectMeta{Name: "va", DeletionTimestamp: tt.deleted},
				Spec: storagev1.VolumeAttachmentSpec{Attacher: "d", NodeName: "n1", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &pv}}}},
		}
		if tt.pod != nil {
			tt.pod.Spec = corev1.PodSpec{NodeName: "n1", Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}}
			o.Pods = []*corev1.Pod{tt.pod}
		}
		if acquired := metav1.NewMicroTime(at(100).Time); !tt.noLease {
			o.Leases = []*coordinationv1.Lease{{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-controller-manager"},
				Spec: coordinationv1.LeaseSpec{AcquireTime: &acquired}}}
		}
		s := snapshot.New(time.Unix(1000, 0), snapshot.Source{}, o, nil)
		p := NewView(s, reconcile.NewWorld(s, reconcile.Options{}), nil)
		before, after := p.DetachWanted(pair)
		if seconds(before) != tt.before || seconds(after) != tt.notLate {
			t.Errorf("%s: between %d and %d, want %d and %d", name, seconds(before), seconds(after), tt.before, tt.notLate)
		}
	}
}

func seconds(t metav1.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}
