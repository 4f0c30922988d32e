package reconcile

import (
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// TestRunning: a controller that runs may have waited since it took its lease or
// since the last container ended, whichever is later.
func TestRunning(t *testing.T) {
	now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	lease := func(ago time.Duration) *coordinationv1.Lease {
		at := metav1.NewMicroTime(now.Add(-ago))
		return &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-controller-manager"},
			Spec:       coordinationv1.LeaseSpec{AcquireTime: &at},
		}
	}
	ended := func(ago time.Duration) *corev1.Pod {
		pod := newPod("p", "n1", []string{"v"})
		pod.Status.Phase = corev1.PodSucceeded
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{
			{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(now.Add(-ago - time.Hour))}}},
			{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(now.Add(-ago))}}},
		}
		return pod
	}
	for name, test := range map[string]struct {
		leases []*coordinationv1.Lease
		pods   []*corev1.Pod
		after  time.Duration
	}{
		"nothing known":              {nil, nil, 0},
		"a controller of a minute":   {[]*coordinationv1.Lease{lease(time.Minute)}, nil, 5 * time.Minute},
		"a controller of a day":      {[]*coordinationv1.Lease{lease(24 * time.Hour)}, nil, 0},
		"a pod that ended":           {nil, []*corev1.Pod{ended(2 * time.Minute)}, 4 * time.Minute},
		"ended under the controller": {[]*coordinationv1.Lease{lease(24 * time.Hour)}, []*corev1.Pod{ended(2 * time.Minute)}, 4 * time.Minute},
		"ended before it came":       {[]*coordinationv1.Lease{lease(time.Minute)}, []*corev1.Pod{ended(2 * time.Minute)}, 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			s := snapshot.New(now, snapshot.Source{}, snapshot.Objects{
				Nodes:   []*corev1.Node{newNode("n1", notReady, lists(unique("v")), uses(unique("v")))},
				Volumes: []*corev1.PersistentVolume{newPV("v")}, Claims: []*corev1.PersistentVolumeClaim{newClaim("v")},
				Pods: test.pods, Leases: test.leases, VolumeAttachments: []*storagev1.VolumeAttachment{newAttachment("v", "n1")},
			}, nil)
			d := NewWorld(s, Options{}).Reconcile().Decision(VolumeNode{unique("v"), "n1"})
			i := slices.IndexFunc(d.Until, func(u Until) bool { return u.Event == MaxWaitForUnmount })
			if after, bound := d.Until[i].Running(*d); after != test.after || bound != 6*time.Minute {
				t.Errorf("from %s to %s", after, bound)
			}
		})
	}
}

// TestRunningMayHaveForgotten: what only a VolumeAttachment shows has no latest
// moment for a controller that runs.
func TestRunningMayHaveForgotten(t *testing.T) {
	s := snapshotOf(snapshot.Objects{
		Nodes:   []*corev1.Node{newNode("n1")},
		Volumes: []*corev1.PersistentVolume{newPV("v")}, VolumeAttachments: []*storagev1.VolumeAttachment{newAttachment("v", "n1")},
	})
	d := NewWorld(s, Options{}).Reconcile().Decision(VolumeNode{unique("v"), "n1"})
	if after, bound := d.Until[0].Running(*d); d.Until[0].Bound == 0 || after != 0 || bound != 0 {
		t.Errorf("%+v: from %s to %s", d.Until[0], after, bound)
	}
}
