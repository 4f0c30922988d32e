package reconcile

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

func TestPodTerminated(t *testing.T) {
	running := corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	ended := corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}
	waiting := corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}}
	unknown := corev1.ContainerStatus{}
	deleted := func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }
	containers := func(init, main, ephemeral []corev1.ContainerStatus) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.InitContainerStatuses, p.Status.ContainerStatuses, p.Status.EphemeralContainerStatuses = init, main, ephemeral
		}
	}
	type list = []corev1.ContainerStatus
	tests := []struct {
		name  string
		edits []func(*corev1.Pod)
		want  bool
	}{
		{"running", nil, false},
		{"pending", []func(*corev1.Pod){phase(corev1.PodPending)}, false},
		{"failed", []func(*corev1.Pod){phase(corev1.PodFailed), containers(nil, list{running}, nil)}, true},
		{"succeeded", []func(*corev1.Pod){phase(corev1.PodSucceeded)}, true},
		{"all containers ended, not deleted", []func(*corev1.Pod){containers(nil, list{ended}, nil)}, false},
		{"deleted, no statuses", []func(*corev1.Pod){deleted}, true},
		{"deleted, ended and waiting", []func(*corev1.Pod){deleted, containers(list{ended}, list{ended, waiting}, nil)}, true},
		{"deleted, one running", []func(*corev1.Pod){deleted, containers(nil, list{ended, running}, nil)}, false},
		{"deleted, init container running", []func(*corev1.Pod){deleted, containers(list{running}, list{waiting}, nil)}, false},
		{"deleted, ephemeral container running", []func(*corev1.Pod){deleted, containers(nil, list{ended}, list{running})}, false},
		{"deleted, state not known", []func(*corev1.Pod){deleted, containers(nil, list{unknown}, nil)}, false},
	}
	for _, test := range tests {
		if got := PodTerminated(newPod("p", "n1", nil, test.edits...)); got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}

func TestNode(t *testing.T) {
	noCondition := func(n *corev1.Node) { n.Status.Conditions = nil }
	tests := []struct {
		name                string
		node                *corev1.Node
		ready, outOfService bool
	}{
		{"missing", nil, false, false},
		{"ready", newNode("n1"), true, false},
		{"not ready", newNode("n1", notReady), false, false},
		{"without condition", newNode("n1", noCondition), false, false},
		{"out of service", newNode("n1", outOfService), true, true},
	}
	for _, test := range tests {
		if NodeReady(test.node) != test.ready || OutOfService(test.node) != test.outOfService {
			t.Errorf("%s: ready %v, out of service %v", test.name, NodeReady(test.node), OutOfService(test.node))
		}
	}
}

// remade makes the claim of the volume again, with another one, so long after the pod.
func remade(after time.Duration) func(*snapshot.Objects) {
	return func(o *snapshot.Objects) {
		made := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
		o.Pods[0].CreationTimestamp = made
		o.Claims[0].CreationTimestamp, o.Claims[0].UID, o.Claims[0].Spec.VolumeName = metav1.NewTime(made.Add(after)), "again", "w"
	}
}

// TestLivePods finds the pods that may have the volume mounted, also those that
// the desired state of the world leaves out.
func TestLivePods(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(*snapshot.Objects)
		want  []string
	}{
		{"in the desired state", func(*snapshot.Objects) {}, []string{"p"}},
		{"node not managed", func(o *snapshot.Objects) { unmanaged(o.Nodes[0]) }, []string{"p"}},
		{"claim lost", func(o *snapshot.Objects) { o.Claims[0].Status.Phase = corev1.ClaimLost }, []string{"p"}},
		{"volume not claimed", func(o *snapshot.Objects) { o.Volumes[0].Spec.ClaimRef = nil }, []string{"p"}},
		{"pod ended", func(o *snapshot.Objects) { o.Pods[0].Status.Phase = corev1.PodFailed }, nil},
		{"pod elsewhere", func(o *snapshot.Objects) { o.Pods[0].Spec.NodeName = "n2" }, nil},
		{"claim of another volume", func(o *snapshot.Objects) { o.Claims[0].Spec.VolumeName = "w" }, nil},
		{"claim gone", func(o *snapshot.Objects) { o.Claims = nil }, []string{"p"}},
		{"claim of another namespace gone", func(o *snapshot.Objects) { o.Claims, o.Volumes[0].Spec.ClaimRef.Namespace = nil, "another" }, nil},
		{"claim made again under the pod", remade(time.Hour), []string{"p"}},
		{"claim made again before the pod", remade(-time.Hour), nil},
		{"another volume", func(o *snapshot.Objects) { o.Volumes[0].Spec.CSI.VolumeHandle = "w" }, nil},
	}
	for _, test := range tests {
		o := snapshot.Objects{
			Nodes: []*corev1.Node{newNode("n1")}, Volumes: []*corev1.PersistentVolume{newPV("v")},
			Claims: []*corev1.PersistentVolumeClaim{newClaim("v")}, Pods: []*corev1.Pod{newPod("p", "n1", []string{"v"})},
		}
		test.spoil(&o)
		var got []string
		for _, pod := range NewWorld(snapshotOf(o), Options{}).LivePods(VolumeNode{unique("v"), "n1"}) {
			got = append(got, pod.Name)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}

// TestLookups finds objects by their names.
func TestLookups(t *testing.T) {
	byHand := newAttachment("v1", "n1", func(va *storagev1.VolumeAttachment) { va.Name = "by-hand" })
	twin := func(pv *corev1.PersistentVolume) { pv.Spec.CSI.VolumeHandle = "v1" }
	w := NewWorld(snapshotOf(snapshot.Objects{
		Nodes:             []*corev1.Node{newNode("n1")},
		Volumes:           []*corev1.PersistentVolume{newPV("v2", twin), newPV("v1")},
		VolumeAttachments: []*storagev1.VolumeAttachment{newAttachment("v1", "n1"), byHand},
	}), Options{})
	pair := VolumeNode{unique("v1"), "n1"}
	if pv := w.Volume(pair.Volume); pv == nil || pv.Name != "v1" || len(w.Volumes(pair.Volume)) != 2 {
		t.Errorf("Volume: %v", pv)
	}
	if pv := w.Volume("garbage"); pv != nil {
		t.Errorf("Volume of a name that is none: %v", pv)
	}
	if vas := w.Attachments(pair); len(vas) != 2 || vas[0] != byHand {
		t.Errorf("Attachments: %v", vas)
	}
	if va := w.Actual.Find(pair).Attachment; va == nil || va == byHand {
		t.Errorf("the attachment by its computed name comes first, not %v", va)
	}
	if name, err := w.AttachmentVolume(byHand); err != nil || name != pair.Volume {
		t.Errorf("AttachmentVolume: %v, %v", name, err)
	}
}
