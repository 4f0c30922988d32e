package repair_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
)

// TestNudge: the driver refuses to detach, the pod comes back meanwhile, and when the driver
// works again its attacher is in a long pause.
func TestNudge(t *testing.T) {
	s := newStage(t)
	s.ownDriver("--retry-interval-start=1h", "--retry-interval-max=1h", "--resync=2h")
	s.nodes("a")
	v := s.volume()
	s.pod("web-0", "a")
	s.await(fixture.PodRunning(s.client, s.name, "web-0"))
	s.driver.FailUnpublish(status.Error(codes.Internal, "device is busy"), v.Handle)
	s.deletePod("web-0")
	s.detachFails("a", v)
	s.pod("web-1", "a")
	s.await(fixture.PodWaiting(s.client, s.name, "web-1"))

	f := s.find("reuse-while-detaching", soon)
	if f.Repair == nil || f.Repair.Kind != "nudge" || f.Repair.BlockedBy != "" {
		t.Fatalf("the repair is %+v", f.Repair)
	}
	// In vain: the driver still refuses, and says so again.
	if r := s.doctorAs(cluster.Kubeconfig, f, "--yes"); r.Code != 3 || !strings.Contains(r.Stderr, "still refuses: ") || !strings.Contains(r.Stderr, "device is busy") {
		t.Errorf("a nudge in vain: exit code %d", r.Code)
	}
	va := s.attachment("a", v)
	s.marked(va, "nudge for VD401")
	s.announced(va, "Unverified", "VD401 reuse-while-detaching")
	s.refuses(f, "and the driver still refuses")
	asked := len(s.driver.History(v.Handle))
	s.undo(0, "take the annotation off")
	s.marked(s.attachment("a", v), "")
	s.await(condition("the driver is asked once more", func(context.Context) bool { return len(s.driver.History(v.Handle)) > asked }))

	s.driver.FailUnpublish(nil, v.Handle)
	s.stays(fixture.Attachment(s.client, s.nodeName("a"), v, "still failing to detach", fixture.AttachmentState.Deleting))
	s.mends(f, "nudge")
	s.await(fixture.PodRunning(s.client, s.name, "web-1"))
	s.await(fixture.Attached(s.client, s.nodeName("a"), v))
	if now := s.attachment("a", v); now.UID == va.UID {
		t.Error("the volume was not attached anew")
	}
	s.published(v, "a")
	s.noViolation()
	s.undo(0, "gone already")
	s.await(fixture.PodRunning(s.client, s.name, "web-1"))
}

// TestCyclePod: the kubelet evicts a pod of a ReplicaSet before it has mounted its volume,
// and withholds the volume from the pod that replaces it. The controller of the ReplicaSet
// does not run here: the test makes its second pod.
func TestCyclePod(t *testing.T) {
	s := newStage(t)
	s.nodes("a", "b")
	v := s.volume()
	labels := map[string]string{"app": "web"}
	set, err := s.client.AppsV1().ReplicaSets(s.name).Create(t.Context(), &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.ReplicaSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: fixture.Pod(s.name, "", "", "data").Spec},
		},
	}, metav1.CreateOptions{})
	s.must(err)
	owner := metav1.OwnerReference{Kind: "ReplicaSet", Name: set.Name, UID: set.UID}
	s.driver.Delay(slowly, v.Handle)
	first := s.ownedPod("web-1", "a", owner)
	s.await(fixture.PodWaiting(s.client, s.name, "web-1"))
	s.await(fixture.Attachment(s.client, s.nodeName("a"), v, "announced", func(a fixture.AttachmentState) bool { return a.InUse }))
	s.evict("web-1")
	s.await(fixture.Attached(s.client, s.nodeName("a"), v))
	s.ownedPod("web-2", "b", owner)
	s.await(fixture.PodWaiting(s.client, s.name, "web-2"))

	f := s.find("terminated-pod-holds-volume", fewMin)
	s.await(fixture.PodWaiting(s.client, s.name, "web-2"))
	s.published(v, "a")
	s.mends(f, "cycle-pod")
	s.await(fixture.PodGone(s.client, s.name, "web-1"))
	s.announced(first, "Repaired", "VD107 terminated-pod-holds-volume")
	s.await(fixture.PodRunning(s.client, s.name, "web-2"))
	s.await(fixture.Attached(s.client, s.nodeName("b"), v))
	s.published(v, "b")
	s.undo(3, "cycle-pod cannot be taken back")
	s.published(v, "b")
}

// slowly is how long an attach takes that is to be overtaken; it is within the attacher's
// patience.
const slowly = 4 * time.Second

// evict ends a pod whose containers have not run, as a kubelet does that runs out of memory.
func (s *stage) evict(name string) {
	s.Helper()
	s.must(retry.RetryOnConflict(retry.DefaultRetry, func() error {
		pod, err := s.client.CoreV1().Pods(s.name).Get(s.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		pod.Status.Phase, pod.Status.Reason, pod.Status.Message = corev1.PodFailed, "Evicted", "The node was low on resource: memory."
		for i := range pod.Status.ContainerStatuses {
			pod.Status.ContainerStatuses[i].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				Reason: "ContainerStatusUnknown", ExitCode: 137, Message: "The container could not be located when the pod was terminated",
			}}
		}
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonTerminationByKubelet, LastTransitionTime: metav1.Now(),
		})
		_, err = s.client.CoreV1().Pods(s.name).UpdateStatus(s.Context(), pod, metav1.UpdateOptions{})
		return err
	}))
}
