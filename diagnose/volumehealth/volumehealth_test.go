package volumehealth_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/volumehealth"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// TestOf: a driver's report is quoted for the volume that it is about, and for no other.
func TestOf(t *testing.T) {
	shared, block, filesystem := corev1.ReadWriteMany, corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem
	volume := []corev1.VolumeHealthCondition{{Status: corev1.VolumeHealthInaccessible, Reason: "Offline", Message: "the pool is full"}}
	storage := func(c storagev1.StorageHealthCondition) *storagev1.CSINode {
		c.Status, c.Reason = storagev1.StorageUnreachable, "PathsDown"
		return &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: storagev1.CSINodeStatus{
			StorageHealth: []storagev1.StorageHealth{{Name: "disk.test", HealthConditions: []storagev1.StorageHealthCondition{c}}}}}
	}
	onPod := func(name string) corev1.PodStatus {
		return corev1.PodStatus{VolumeHealth: []corev1.PodVolumeHealth{{Name: name, HealthConditions: volume}}}
	}
	for what, test := range map[string]struct {
		claim  corev1.PersistentVolumeClaimStatus
		mode   *corev1.PersistentVolumeMode
		status corev1.PodStatus
		node   *storagev1.CSINode
		driver string
		want   []string
	}{
		"nothing is said":           {},
		"nothing is wrong":          {claim: corev1.PersistentVolumeClaimStatus{HealthStatus: &corev1.VolumeHealthStatus{}}},
		"of the claim":              {claim: corev1.PersistentVolumeClaimStatus{HealthStatus: &corev1.VolumeHealthStatus{HealthConditions: volume}}, want: []string{"persistentvolumeclaim/shop/data Inaccessible, Offline: the pool is full"}},
		"of the volume on the node": {status: onPod("data"), want: []string{"pod/shop/web-0 Inaccessible, Offline: the pool is full"}},
		"of another volume":         {status: onPod("logs")},
		"of the storage":            {node: storage(storagev1.StorageHealthCondition{}), want: []string{"csinode/n1 StorageUnreachable, PathsDown: no message"}},
		"of another driver":         {node: storage(storagev1.StorageHealthCondition{}), driver: "files.test"},
		"of other access modes":     {node: storage(storagev1.StorageHealthCondition{AccessMode: &shared})},
		"of block volumes":          {node: storage(storagev1.StorageHealthCondition{VolumeMode: &block})},
		"of block volumes, as it is": {mode: &block, node: storage(storagev1.StorageHealthCondition{VolumeMode: &block}),
			want: []string{"csinode/n1 StorageUnreachable, PathsDown: no message"}},
		"of file systems, which it is by default": {node: storage(storagev1.StorageHealthCondition{VolumeMode: &filesystem}),
			want: []string{"csinode/n1 StorageUnreachable, PathsDown: no message"}},
	} {
		t.Run(what, func(t *testing.T) {
			claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data"}, Status: test.claim,
				Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, VolumeMode: test.mode}}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0"}, Spec: corev1.PodSpec{NodeName: "n1"}, Status: test.status}
			objects := snapshot.Objects{Pods: []*corev1.Pod{pod}, Claims: []*corev1.PersistentVolumeClaim{claim}}
			if test.node != nil {
				objects.CSINodes = []*storagev1.CSINode{test.node}
			}
			s := snapshot.New(time.Now(), snapshot.Source{}, objects, nil)
			world := reconcile.NewWorld(s, reconcile.Options{})
			if test.driver == "" {
				test.driver = "disk.test"
			}
			var got []string
			for _, h := range volumehealth.Of(facts.NewView(s, world, world.Reconcile()), pod, "data", test.driver, claim) {
				if h.Means() == "" {
					t.Errorf("%s is not explained", h.Status)
				}
				got = append(got, h.Object+" "+h.Text())
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
