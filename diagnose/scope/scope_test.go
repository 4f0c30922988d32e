package scope_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/scope"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

const volume = corev1.UniqueVolumeName("kubernetes.io/csi/disk^vol-1")

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// written returns a node whose volumesAttached the program has written, so long before noon.
func written(name, program string, before time.Duration) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, ManagedFields: []metav1.ManagedFieldsEntry{{
		Manager: program, Time: &metav1.Time{Time: noon.Add(-before)}, FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:volumesAttached":{}}}`)}}}}
}

// attachment returns the VolumeAttachment of the volume on n1, attached and of this age.
func attachment(age time.Duration) *storagev1.VolumeAttachment {
	return &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: reconcile.VolumeAttachmentName("vol-1", "disk", "n1"), CreationTimestamp: metav1.NewTime(noon.Add(-age))},
		Spec:       storagev1.VolumeAttachmentSpec{Attacher: "disk", NodeName: "n1"},
		Status:     storagev1.VolumeAttachmentStatus{Attached: true},
	}
}

func TestNodesToReadAgain(t *testing.T) {
	uses := func(change func(*corev1.Node)) *corev1.Node {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
		node.Status.VolumesInUse = []corev1.UniqueVolumeName{volume}
		change(node)
		return node
	}
	same := func(*corev1.Node) {}
	going := attachment(time.Minute)
	going.DeletionTimestamp = &metav1.Time{Time: noon}
	waiting := attachment(time.Minute)
	waiting.Status.Attached = false
	for what, test := range map[string]struct {
		node *corev1.Node
		va   *storagev1.VolumeAttachment
		want bool
	}{
		"just written":           {written("n1", reconcile.ControllerManager, 3*time.Second), waiting, true},
		"written before":         {written("n1", reconcile.ControllerManager, 4*time.Second), waiting, false},
		"written by a kubelet":   {written("n1", "kubelet", time.Second), waiting, false},
		"the entry is missing":   {uses(same), attachment(30 * time.Minute), true},
		"it has been for longer": {uses(same), attachment(31 * time.Minute), false},
		"it is there": {uses(func(n *corev1.Node) { n.Status.VolumesAttached = []corev1.AttachedVolume{{Name: volume}} }),
			attachment(time.Minute), false},
		"it is not used":          {uses(func(n *corev1.Node) { n.Status.VolumesInUse = nil }), attachment(time.Minute), false},
		"another node has it":     {uses(func(n *corev1.Node) { n.Name = "n2" }), attachment(time.Minute), false},
		"the attach is under way": {uses(same), waiting, false},
		"it is being detached":    {uses(same), going, false},
	} {
		got := scope.NodesToReadAgain(&snapshot.Objects{Nodes: []*corev1.Node{{}, test.node}, VolumeAttachments: []*storagev1.VolumeAttachment{test.va}}, noon)
		if want := test.want; want != slices.Equal(got, []int{1}) || !want && len(got) > 0 {
			t.Errorf("%s: %v", what, got)
		}
	}
}

// TestNodesToReadAgainAreFew: a controller that writes to more than 16 nodes is at its work.
func TestNodesToReadAgainAreFew(t *testing.T) {
	var o snapshot.Objects
	for i := range 17 {
		if got := scope.NodesToReadAgain(&o, noon); len(got) != i {
			t.Fatalf("of %d nodes %d are read again", i, len(got))
		}
		o.Nodes = append(o.Nodes, written(fmt.Sprint("n", i), reconcile.ControllerManager, 0))
	}
	if got := scope.NodesToReadAgain(&o, noon); len(got) > 0 {
		t.Errorf("read again: %v", got)
	}
}

func TestAsksForStorageClasses(t *testing.T) {
	claim := func(phase corev1.PersistentVolumeClaimPhase, pv string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{VolumeName: pv}, Status: corev1.PersistentVolumeClaimStatus{Phase: phase}}
	}
	for _, test := range []struct {
		claim *corev1.PersistentVolumeClaim
		want  bool
	}{
		{claim(corev1.ClaimBound, "pv1"), false}, {claim(corev1.ClaimBound, ""), true}, {claim(corev1.ClaimPending, "pv1"), true}, {claim(corev1.ClaimLost, "pv1"), true},
	} {
		if got := scope.AsksForStorageClasses(&snapshot.Objects{Claims: []*corev1.PersistentVolumeClaim{claim(corev1.ClaimBound, "pv"), test.claim}}); got != test.want {
			t.Errorf("%v %q: %v", test.claim.Status.Phase, test.claim.Spec.VolumeName, got)
		}
	}
}

func TestAsksForDeployments(t *testing.T) {
	owned := func(kind string) *corev1.Pod {
		yes := true
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: kind, Controller: &yes}}}, Status: corev1.PodStatus{Phase: corev1.PodPending}}
	}
	leaves := owned("ReplicaSet")
	leaves.DeletionTimestamp = &metav1.Time{Time: noon}
	for _, test := range []struct {
		pod  *corev1.Pod
		want bool
	}{
		{owned("ReplicaSet"), true}, {leaves, false}, {owned("StatefulSet"), false}, {&corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending}}, false},
	} {
		if got := scope.AsksForDeployments(&snapshot.Objects{Pods: []*corev1.Pod{test.pod}}); got != test.want {
			t.Errorf("%v %v: %v", test.pod.OwnerReferences, test.pod.DeletionTimestamp, got)
		}
	}
}

func TestAsksForCounts(t *testing.T) {
	node := func(listed ...corev1.AttachedVolume) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: corev1.NodeStatus{VolumesAttached: listed}}
	}
	other := node()
	other.Name = "n2"
	for what, test := range map[string]struct {
		node *corev1.Node
		age  time.Duration
		want bool
	}{
		"young, and not listed": {node(), facts.DanglingGrace - time.Second, true},
		"older":                 {node(), facts.DanglingGrace, false},
		"listed":                {node(corev1.AttachedVolume{Name: volume}), time.Second, false},
		"another is listed":     {node(corev1.AttachedVolume{Name: volume + "2"}), time.Second, true},
		"without its node":      {other, time.Second, false},
	} {
		o := snapshot.Objects{Nodes: []*corev1.Node{test.node}, VolumeAttachments: []*storagev1.VolumeAttachment{attachment(test.age)}}
		if got := scope.AsksForCounts(snapshot.New(noon, snapshot.Source{}, o, nil)); got != test.want {
			t.Errorf("%s: %v", what, got)
		}
	}
}
