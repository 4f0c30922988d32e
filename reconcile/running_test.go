package reconcile

import (
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// TestRunning: a controller that runs may have waited since it took its lease or since the
// last container ended, whichever is later.
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
			s.Claims[0].CreationTimestamp, s.VolumeAttachments[0].CreationTimestamp = metav1.NewTime(now.Add(-48*time.Hour)), metav1.NewTime(now.Add(-47*time.Hour))
			d := NewWorld(s, Options{}).Reconcile().Decision(VolumeNode{unique("v"), "n1"})
			i := slices.IndexFunc(d.Until, func(u Until) bool { return u.Event == MaxWaitForUnmount })
			if after, bound := d.Until[i].Running(*d); after != test.after || bound != 6*time.Minute {
				t.Errorf("from %s to %s", after, bound)
			}
		})
	}
}

// TestRunningMayHaveForgotten: an attachment that only a VolumeAttachment shows has no latest
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

// TestRunningMemory: the clusters in which a controller at work may act otherwise than one
// that has just started, each beside the nearest clusters in which it acts the same.
func TestRunningMemory(t *testing.T) {
	v := unique("v")
	type cluster = snapshot.Objects
	base := func(edit ...func(*cluster)) cluster {
		o := cluster{
			Nodes:   []*corev1.Node{newNode("n1", notReady, lists(v), uses(v)), newNode("n2"), newNode("n3")},
			Volumes: []*corev1.PersistentVolume{newPV("v")}, Claims: []*corev1.PersistentVolumeClaim{newClaim("v")},
			VolumeAttachments: []*storagev1.VolumeAttachment{newAttachment("v", "n1")},
		}
		o.Claims[0].CreationTimestamp, o.VolumeAttachments[0].CreationTimestamp = metav1.NewTime(time.Unix(1, 0)), metav1.NewTime(time.Unix(2, 0))
		for _, e := range edit {
			e(&o)
		}
		return o
	}
	pod := func(node string) func(*cluster) {
		return func(o *cluster) { o.Pods = append(o.Pods, newPod("p-"+node, node, []string{"v"})) }
	}
	volumeGoes := func(o *cluster) { o.Volumes = nil }
	claimGoes := func(o *cluster) { o.Claims = nil }
	claimRemade := func(o *cluster) { // for nothing yet; the volume is another claim's
		o.Claims[0].UID, o.Claims[0].Spec.VolumeName, o.Claims[0].Status.Phase = "new", "", corev1.ClaimPending
		o.Claims = append(o.Claims, newClaim("other"))
		o.Claims[1].Spec.VolumeName, o.Volumes[0].Spec.ClaimRef.Name, o.Volumes[0].Spec.ClaimRef.UID = "v", "other", o.Claims[1].UID
		waiter := newPod("waiter", "n2", []string{"other"})
		o.Pods = append(o.Pods, waiter)
	}
	second := func(o *cluster) {
		o.Nodes[1] = newNode("n2", notReady, lists(v), uses(v))
		o.VolumeAttachments = append(o.VolumeAttachments, newAttachment("v", "n2"))
		o.VolumeAttachments[1].CreationTimestamp = o.VolumeAttachments[0].CreationTimestamp
	}
	shared := func(o *cluster) {
		o.Volumes[0].Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	}
	unattached := func(o *cluster) { o.VolumeAttachments[0].Status.Attached = false }
	unmounted := func(o *cluster) { o.Nodes[0] = newNode("n1", lists(v)) }
	for name, test := range map[string]struct {
		cluster     snapshot.Objects
		node        types.NodeName
		verb        Verb
		fresh, runs time.Duration
		late        time.Duration
		keeps       bool
	}{
		"nobody has it":                           {base(), "n1", Wait, 6 * time.Minute, 6 * time.Minute, 0, false},
		"the volume goes under its pod":           {base(pod("n1"), volumeGoes), "n1", Wait, 6 * time.Minute, 0, 0, true},
		"the volume goes, and nobody has it":      {base(volumeGoes), "n1", Wait, 6 * time.Minute, 7 * time.Minute, time.Minute, false},
		"the claim goes under its pod":            {base(pod("n1"), claimGoes), "n1", Wait, 6 * time.Minute, 0, 0, true},
		"the claim is remade under its pod":       {base(pod("n1"), claimRemade), "n1", Wait, 6 * time.Minute, 0, 0, true},
		"who waits for the volume of that claim":  {base(pod("n1"), claimRemade), "n2", MultiAttach, 8 * time.Minute, 0, 0, false},
		"who waits where the pod is gone":         {base(claimRemade), "n2", MultiAttach, 8 * time.Minute, 9 * time.Minute, time.Minute, false},
		"two lost nodes":                          {base(second), "n1", Wait, 6 * time.Minute, 0, 0, false},
		"who waits for two lost nodes":            {base(second, pod("n3")), "n3", MultiAttach, 8 * time.Minute, 0, 0, false},
		"two lost nodes, a shared volume":         {base(second, shared), "n1", Wait, 6 * time.Minute, 6 * time.Minute, 0, false},
		"its attachment is not attached":          {base(unattached), "n1", Wait, 6 * time.Minute, 0, 0, false},
		"unmounted, and the claim is gone":        {base(unmounted, claimGoes), "n1", Detach, 0, 0, time.Minute, false},
		"unmounted":                               {base(unmounted), "n1", Detach, 0, 0, 0, false},
		"who waits where the claim goes":          {base(unmounted, claimRemade), "n2", Blocked, 2 * time.Minute, 3 * time.Minute, time.Minute, false},
		"who waits where the pod keeps the claim": {base(unmounted, pod("n1"), claimRemade), "n2", Blocked, 2 * time.Minute, 0, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := NewWorld(snapshotOf(test.cluster), Options{}).Reconcile().Decision(VolumeNode{v, test.node})
			var fresh, runs time.Duration
			for _, row := range d.Until {
				if row.Bound > fresh && (d.Verb != Detach || row.Event != MaxWaitForUnmount) {
					fresh = row.Bound
					_, runs = row.Running(*d)
				}
			}
			if d.Verb != test.verb || fresh != test.fresh || runs != test.runs || d.Late != test.late || len(d.MayKeep) > 0 != test.keeps {
				t.Errorf("%s, at most %s, running %s, late %s, for %s", d.Verb, fresh, runs, d.Late, d.MayKeep)
			}
		})
	}
}

// TestOneVolumeAMinute: where a pod went after its claims, the populator finds one of its
// volumes in each of its rounds.
func TestOneVolumeAMinute(t *testing.T) {
	o := snapshot.Objects{Nodes: []*corev1.Node{newNode("n1"), newNode("n2")}}
	for _, name := range []string{"a", "b", "c"} {
		lists(unique(name))(o.Nodes[0])
		o.Volumes, o.VolumeAttachments = append(o.Volumes, newPV(name)), append(o.VolumeAttachments, newAttachment(name, "n1", func(va *storagev1.VolumeAttachment) {
			va.CreationTimestamp = metav1.NewTime(time.Unix(2, 0))
		}))
	}
	for _, claims := range []int{0, 1, 3} {
		o.Claims = nil
		for _, pv := range o.Volumes[:claims] {
			o.Claims = append(o.Claims, newClaim(pv.Name, func(c *corev1.PersistentVolumeClaim) { c.CreationTimestamp = metav1.NewTime(time.Unix(1, 0)) }))
		}
		for _, d := range NewWorld(snapshotOf(o), Options{}).Reconcile().Decisions {
			want := time.Duration(3-claims) * time.Minute
			if slices.ContainsFunc(o.Claims, func(c *corev1.PersistentVolumeClaim) bool { return d.Volume == unique(c.Spec.VolumeName) }) {
				want = 0
			}
			if d.Verb != Detach || d.Late != want {
				t.Errorf("%d claims: %s of %s, %s late", claims, d.Verb, d.Volume, d.Late)
			}
		}
	}
}

// TestContenderThatFails: a node that contends for the volume does not wait for another
// contender whose attach fails as long as its old VolumeAttachment is Terminating.
func TestContenderThatFails(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(*storagev1.VolumeAttachment)
		then Verb
	}{
		"terminating":         {func(va *storagev1.VolumeAttachment) { va.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }, Attach},
		"an error, once":      {func(va *storagev1.VolumeAttachment) { va.Status.AttachError = &storagev1.VolumeError{Message: "no"} }, MultiAttach},
		"not attached as yet": {func(*storagev1.VolumeAttachment) {}, MultiAttach},
		"of some other volume": {func(va *storagev1.VolumeAttachment) {
			va.Name = "by-hand"
			va.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		}, MultiAttach},
	} {
		t.Run(name, func(t *testing.T) {
			o := snapshot.Objects{
				Nodes: []*corev1.Node{newNode("n1"), newNode("n2")}, Volumes: []*corev1.PersistentVolume{newPV("v")}, Claims: []*corev1.PersistentVolumeClaim{newClaim("v")},
				Pods:              []*corev1.Pod{newPod("p1", "n1", []string{"v"}), newPod("p2", "n2", []string{"v"})},
				VolumeAttachments: []*storagev1.VolumeAttachment{newAttachment("v", "n2")},
			}
			test.edit(o.VolumeAttachments[0])
			plan := NewWorld(snapshotOf(o), Options{}).Reconcile()
			served := plan.Decision(VolumeNode{unique("v"), "n1"})
			if served.Verb != Attach || served.Until[0].Event != OperationEnds || served.Until[0].Then != test.then {
				t.Errorf("%+v", served)
			}
			if other := plan.Decision(VolumeNode{unique("v"), "n2"}); other.Until[0].Then != MultiAttach {
				t.Errorf("%+v", other)
			}
		})
	}
}
