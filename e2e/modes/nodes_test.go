package modes_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/kubelet"
)

// settled is how long a story waits where the order of two creations matters: the API server
// keeps whole seconds.
const settled = 2 * time.Second

// running is the beginning of most stories: a pod that runs with a volume on node a.
func (s *stage) running(ctx context.Context, pod string) fixture.Volume {
	v := s.volume(ctx, "data", nil)
	s.pod(ctx, pod, "a")
	s.runs(ctx, pod)
	return v
}

var nodeModes = []mode{
	{
		name: "node-lost", check: "node-lost-6min", idles: true,
		story: "A kubelet falls silent; the taint evicts its pod, which stays Terminating, and a replacement waits on another node.",
		provoke: func(ctx context.Context, s *stage) {
			s.nodes(ctx, "a", "b")
			s.running(ctx, "web-0")
			s.lose(ctx, "a")
			s.evicted(ctx, "web-0")
			s.pod(ctx, "web-1", "b")
			s.waits(ctx, "web-1")
		},
	},
	{
		name: "forced-away", check: "node-lost-6min", idles: true, heals: true,
		story: "A kubelet falls silent, its pod is force-deleted, and a replacement waits on another node.",
		provoke: func(ctx context.Context, s *stage) {
			s.nodes(ctx, "a", "b")
			s.running(ctx, "web-0")
			s.lose(ctx, "a")
			s.forceDeletePod(ctx, "web-0")
			s.pod(ctx, "web-1", "b")
			s.waits(ctx, "web-1")
		},
	},
	{
		name: "graceful-shutdown", check: "graceful-shutdown-leaves-inuse", idles: true, heals: true,
		story: "A node shuts down in order and ends its pod, but is off before the volume is unmounted; a replacement waits on another node.",
		provoke: func(ctx context.Context, s *stage) {
			s.nodes(ctx, "a", "b")
			s.volume(ctx, "data", nil)
			// Once the taint has evicted it, no object shows the shutdown any more.
			s.podWith(ctx, "web-0", "a", "data", patient)
			s.runs(ctx, "web-0")
			s.do(func() error { return s.kubelets["a"].ShutDown(ctx) })
			s.lose(ctx, "a")
			s.pod(ctx, "web-1", "b")
			s.waits(ctx, "web-1")
		},
	},
	{
		name: "statefulset-pod", check: "sts-terminating-on-dead-node", idles: true,
		story: "A kubelet falls silent; the pod of a StatefulSet is evicted and stays Terminating.",
		provoke: func(ctx context.Context, s *stage) {
			s.nodes(ctx, "a")
			s.volume(ctx, "data", nil)
			s.statefulSet(ctx, "db", "a")
			s.runs(ctx, "db-0")
			s.lose(ctx, "a")
			s.evicted(ctx, "db-0")
		},
	},
	{
		name: "impatient-delete", check: "va-recreated-on-dead-node", idles: true,
		story: "A kubelet falls silent, and somebody deletes the VolumeAttachment of the pod that is still bound there.",
		provoke: func(ctx context.Context, s *stage) {
			s.nodes(ctx, "a")
			v := s.volume(ctx, "data", nil)
			s.podWith(ctx, "web-0", "a", "data", patient)
			s.runs(ctx, "web-0")
			s.lose(ctx, "a")
			old := types.UID("")
			s.attachment(ctx, "a", v, "attached", func(a fixture.AttachmentState) bool {
				if a.Attachment != nil {
					old = a.Attachment.UID
				}
				return a.Attached()
			})
			s.deleteAttachment(ctx, "a", v)
			s.attachment(ctx, "a", v, "attached anew", func(a fixture.AttachmentState) bool {
				return a.Attached() && a.Attachment.UID != old
			})
		},
	},
	{
		name: "other-machine", check: "same-name-new-instance", idles: true,
		story: "A node is replaced by another machine of its name while the pod of a Deployment is made anew there.",
		provoke: func(ctx context.Context, s *stage) {
			s.node(ctx, "a", kubelet.Options{Machine: "machine-1", Backend: cluster.Driver})
			s.volume(ctx, "data", nil)
			s.deployment(ctx, "web", "a")
			s.await(ctx, s.podOn("a", corev1.PodRunning))
			s.do(func() error { time.Sleep(settled); return nil })
			s.stopKubelet("a")
			// A Deployment makes the next pod while the last one is still there: there is
			// always one that wants the volume, so the controller sees no reason to detach
			// it. The next pod of a StatefulSet is made only once the last is gone, and in
			// that moment the volume is detached, as the machine that had it in use is gone.
			last := s.podOf(ctx)
			s.do(func() error { return fixture.DeletePod(ctx, s.client, s.name, last) })
			s.await(ctx, s.podOn("a", corev1.PodPending))
			s.deleteNode(ctx, "a")
			s.forceDeletePod(ctx, last)
			s.node(ctx, "a", kubelet.Options{Machine: "machine-2", Backend: cluster.Driver})
		},
	},
	{
		name: "machine-gone", check: "attach-to-deleted-node-detach-fails", later: true, idles: true,
		story: "A machine is deleted with its Node; the driver does not find it when it is to detach the volume.",
		provoke: func(ctx context.Context, s *stage) {
			s.nodes(ctx, "a")
			v := s.running(ctx, "web-0")
			cluster.Driver.FailUnpublish(status.Errorf(codes.NotFound, "instance %s not found", s.nodeName("a")), v.Handle)
			s.stopKubelet("a")
			s.deleteNode(ctx, "a")
			s.gone(ctx, "web-0") // as the pod garbage collector does
			s.deleteAttachment(ctx, "a", v)
			s.await(ctx, s.deletedAttachmentFails("a", v))
		},
	},
	{
		name: "termination-blocked", check: "node-termination-blocked-by-va", also: []string{"va-stuck-deleting"}, later: true,
		story: "A drained node is deleted, its finalizer waits for the VolumeAttachments to go, and ControllerUnpublishVolume fails.",
		provoke: func(ctx context.Context, s *stage) {
			s.nodes(ctx, "a")
			v := s.running(ctx, "web-0")
			cluster.Driver.FailUnpublish(status.Error(codes.Internal, "device is busy"), v.Handle)
			s.deletePod(ctx, "web-0")
			s.detaching(ctx, "a", v)
			s.do(func() error {
				patch := `{"metadata":{"finalizers":["karpenter.sh/termination"]}}`
				_, err := s.client.CoreV1().Nodes().Patch(ctx, s.nodeName("a"), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
				return err
			})
			s.do(func() error { return s.client.CoreV1().Nodes().Delete(ctx, s.nodeName("a"), metav1.DeleteOptions{}) })
		},
	},
	{
		name: "taint-left", check: "oos-taint-misuse", idles: true,
		story: "A node that was down is tainted out of service, comes back, and keeps the taint.",
		provoke: func(ctx context.Context, s *stage) {
			s.nodes(ctx, "a")
			v := s.running(ctx, "web-0")
			s.lose(ctx, "a")
			s.outOfService(ctx, "a")
			s.gone(ctx, "web-0")
			s.attachment(ctx, "a", v, "detached by force", func(a fixture.AttachmentState) bool { return a.Attachment == nil })
			s.startKubelet(ctx, "a")
		},
	},
	{
		name: "came-back", check: "force-detached-while-mounted", idles: true, announced: true,
		story: "A node that was cut off is tainted out of service, comes back, cannot unmount what was detached from it, and loses the taint.",
		provoke: func(ctx context.Context, s *stage) {
			s.nodes(ctx, "a")
			v := s.running(ctx, "web-0")
			s.do(func() error {
				s.kubelets["a"].FailUnstage(v.PersistentVolume)
				s.kubelets["a"].CutOff()
				return nil
			})
			s.unreachable(ctx, "a")
			s.outOfService(ctx, "a")
			s.gone(ctx, "web-0")
			s.attachment(ctx, "a", v, "detached by force", func(a fixture.AttachmentState) bool { return a.Attachment == nil })
			s.do(func() error { s.kubelets["a"].Reconnect(); return nil })
			s.backInService(ctx, "a")
		},
	},
}

// outOfService taints the node, as a user does who states that its machine is off.
func (s *stage) outOfService(ctx context.Context, node string) {
	s.do(func() error {
		patch := `[{"op":"add","path":"/spec/taints/-","value":{"key":"node.kubernetes.io/out-of-service","value":"nodeshutdown","effect":"NoExecute"}}]`
		_, err := s.client.CoreV1().Nodes().Patch(ctx, s.nodeName(node), types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
		return err
	})
}

// backInService takes that taint off.
func (s *stage) backInService(ctx context.Context, node string) {
	s.do(func() error {
		return retry.RetryOnConflict(retry.DefaultRetry, func() error {
			n, err := s.client.CoreV1().Nodes().Get(ctx, s.nodeName(node), metav1.GetOptions{})
			if err != nil {
				return err
			}
			n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
			_, err = s.client.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{})
			return err
		})
	})
}

// statefulSet makes a StatefulSet with one pod on the node.
func (s *stage) statefulSet(ctx context.Context, name, node string) {
	s.do(func() error {
		labels := map[string]string{"app": name}
		one := int32(1)
		_, err := s.client.AppsV1().StatefulSets(s.name).Create(ctx, &appsv1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: appsv1.StatefulSetSpec{
				Replicas: &one, ServiceName: name,
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: s.template(node, labels),
			},
		}, metav1.CreateOptions{})
		return err
	})
}

// deployment makes a Deployment with one pod on the node.
func (s *stage) deployment(ctx context.Context, name, node string) {
	s.do(func() error {
		labels := map[string]string{"app": name}
		_, err := s.client.AppsV1().Deployments(s.name).Create(ctx, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: s.template(node, labels)},
		}, metav1.CreateOptions{})
		return err
	})
}

// podOf is the name of the story's only pod.
func (s *stage) podOf(ctx context.Context) (name string) {
	s.do(func() error {
		list, err := s.client.CoreV1().Pods(s.name).List(ctx, metav1.ListOptions{})
		if err == nil && len(list.Items) != 1 {
			err = fmt.Errorf("%d pods instead of one", len(list.Items))
		}
		if err == nil {
			name = list.Items[0].Name
		}
		return err
	})
	return name
}

// template is the template of a pod with the claim "data". It names its node: there is
// no scheduler.
func (s *stage) template(node string, labels map[string]string) corev1.PodTemplateSpec {
	spec := fixture.Pod(s.name, "", s.nodeName(node), "data").Spec
	evictable(&spec)
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec}
}
