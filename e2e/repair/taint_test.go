package repair_test

import (
	"context"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
)

// TestOutOfServiceTaint: the pod of a StatefulSet is deleted on a node that is lost, and
// stays Terminating. The StatefulSet's controller does not run here: the test makes the new
// pod as soon as the old one is gone.
func TestOutOfServiceTaint(t *testing.T) {
	s := newStage(t)
	s.nodes("a", "b")
	v := s.volume()
	template := fixture.Pod(s.name, "", s.nodeName("a"), "data").Spec
	labels, one := map[string]string{"app": "db"}, int32(1)
	set, err := s.client.AppsV1().StatefulSets(s.name).Create(t.Context(), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "db"},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &one, ServiceName: "db", Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: template},
		},
	}, metav1.CreateOptions{})
	s.must(err)
	owner := metav1.OwnerReference{Kind: "StatefulSet", Name: set.Name, UID: set.UID}
	s.ownedPod("db-0", "a", owner)
	s.await(fixture.PodRunning(s.client, s.name, "db-0"))
	s.await(fixture.Attached(s.client, s.nodeName("a"), v))
	s.lose("a")
	s.must(fixture.DeletePod(t.Context(), s.client, s.name, "db-0"))

	f := s.find("sts-terminating-on-dead-node", fewMin)
	before := s.nodeNow("a").Spec.Taints
	s.refuses(f, "--allow=out-of-service-taint")
	s.refuses(f, "--allow=out-of-service-taint", "--fenced", s.nodeName("a"))
	s.refuses(f, "--fenced="+s.nodeName("a"), "--allow", "out-of-service-taint")
	s.refuses(f, "--fenced="+s.nodeName("a"), "--allow", "out-of-service-taint", "--fenced", s.nodeName("b"))
	s.published(v, "a")
	s.mends(f, "out-of-service-taint", "--allow", "out-of-service-taint", "--fenced", s.nodeName("a"))
	node := s.nodeNow("a")
	s.marked(node, "out-of-service-taint for VD403")
	s.announced(node, "Repaired", "VD403 sts-terminating-on-dead-node")
	after := node.Spec.Taints
	if len(after) != len(before)+1 || after[len(before)].Key != corev1.TaintNodeOutOfService {
		t.Errorf("the taints are %v, and were %v", after, before)
	}
	s.await(fixture.PodGone(s.client, s.name, "db-0")) // as the pod garbage collector does
	s.noAttachment("a", v)
	s.published(v)
	s.ownedPod("db-0", "b", owner)
	s.await(fixture.PodRunning(s.client, s.name, "db-0"))
	s.published(v, "b")

	// The volume that the dead kubelet has reported in use is detached.
	s.undo(3, "restart the node")
	if !outOfService(s.nodeNow("a")) {
		t.Error("the taint is gone")
	}
	s.must(s.kubelets["a"].Start(t.Context()))
	s.await(condition("node a has rebooted", func(ctx context.Context) bool {
		n, err := s.client.CoreV1().Nodes().Get(ctx, s.nodeName("a"), metav1.GetOptions{})
		return err == nil && len(n.Status.VolumesInUse) == 0
	}))
	s.undo(0, "take taint")
	node = s.nodeNow("a")
	if outOfService(node) {
		t.Errorf("the taints are %v", node.Spec.Taints)
	}
	s.marked(node, "")
	s.published(v, "b")
}

// TestTaintTakenOff: somebody taints a node that is alive.
func TestTaintTakenOff(t *testing.T) {
	s := newStage(t)
	s.nodes("a")
	v := s.running()
	s.patchNode("a", types.JSONPatchType, write(t, []map[string]any{{"op": "add", "path": "/spec/taints", "value": []corev1.Taint{
		{Key: "kept", Effect: corev1.TaintEffectPreferNoSchedule},
		{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute},
	}}}))

	f := s.find("oos-taint-misuse", fewMin)
	s.mends(f, "remove-out-of-service-taint")
	node := s.nodeNow("a")
	if len(node.Spec.Taints) != 1 || node.Spec.Taints[0].Key != "kept" {
		t.Errorf("the taints are %v", node.Spec.Taints)
	}
	s.marked(node, "remove-out-of-service-taint for VD110")
	s.announced(node, "Repaired", "VD110 oos-taint-misuse")
	s.stays(fixture.All(fixture.PodRunning(s.client, s.name, "web-0"), fixture.Attached(s.client, s.nodeName("a"), v)))
	s.published(v, "a")
	s.undo(3, "remove-out-of-service-taint cannot be taken back")
}

func outOfService(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
}
