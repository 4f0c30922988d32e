package modes_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/controlplane"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/csidriver"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/kubelet"
)

// componentActs bounds the time of a controller that acts after a time-out of its own: the
// node lifecycle controller gives a silent kubelet 50 s, and the attach/detach controller
// looks for a lost VolumeAttachment once a minute.
const componentActs = 4 * time.Minute

// stage is the place of one mode: a namespace with the mode's name and nodes whose names
// begin with it. After the first step that fails the others do nothing; err has the reason.
type stage struct {
	name     string
	client   kubernetes.Interface
	kubelets map[string]*kubelet.Kubelet
	driver   string // of the volumes and nodes that are made next
	// claimLike changes the claims that are made next.
	claimLike func(*corev1.PersistentVolumeClaim)
	// aged reports whether the stage's first pod comes only to nodes that are old enough:
	// oldEnough is when they are.
	aged      bool
	oldEnough time.Time
	err       error
}

func newStage(ctx context.Context, name string) *stage {
	s := &stage{name: name, client: cluster.Client(), kubelets: map[string]*kubelet.Kubelet{}, driver: csidriver.Name}
	s.err = fixture.Namespace(ctx, s.client, name)
	return s
}

// close stops the kubelets and leaves the rest to the end of the control plane.
func (s *stage) close() {
	for _, k := range s.kubelets {
		k.Stop()
	}
}

// do takes a step, unless an earlier one has failed.
func (s *stage) do(step func() error) {
	if s.err == nil {
		s.err = step()
	}
}

func (s *stage) await(ctx context.Context, condition fixture.Condition) {
	s.do(func() error { return fixture.AwaitFor(ctx, componentActs, condition) })
}

// nodeName is the name of the stage's node a, b, ...
func (s *stage) nodeName(node string) string { return s.name + "-" + node }

// nodes starts the kubelets of ordinary nodes.
func (s *stage) nodes(ctx context.Context, nodes ...string) {
	for _, node := range nodes {
		s.node(ctx, node, kubelet.Options{})
	}
}

func (s *stage) node(ctx context.Context, node string, options kubelet.Options) {
	s.do(func() error {
		client, err := cluster.ClientFor(controlplane.UserKubelet)
		if err != nil {
			return err
		}
		options.Node, options.Driver = s.nodeName(node), s.driver
		if s.kubelets[node], err = kubelet.Start(ctx, client, options); err == nil && s.aged {
			s.oldEnough = time.Now().Add(facts.RegistrationGrace + settled)
		}
		return err
	})
}

func (s *stage) stopKubelet(node string) {
	s.do(func() error { s.kubelets[node].Stop(); return nil })
}

// startKubelet starts a stopped kubelet again.
func (s *stage) startKubelet(ctx context.Context, node string) {
	s.do(func() error { return s.kubelets[node].Start(ctx) })
}

// lose stops the kubelet and waits until the node lifecycle controller has
// noticed.
func (s *stage) lose(ctx context.Context, node string) {
	s.stopKubelet(node)
	s.unreachable(ctx, node)
}

// unreachable waits until the node lifecycle controller marks the node as unreachable.
func (s *stage) unreachable(ctx context.Context, node string) {
	s.await(ctx, s.nodeIs(node, "unreachable", func(n *corev1.Node) bool {
		return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
			return t.Key == corev1.TaintNodeUnreachable && t.Effect == corev1.TaintEffectNoExecute
		})
	}))
}

func (s *stage) nodeIs(node, what string, holds func(*corev1.Node) bool) fixture.Condition {
	return fixture.Condition{What: s.nodeName(node) + " is " + what, Check: func(ctx context.Context) (bool, []runtime.Object, error) {
		n, err := s.client.CoreV1().Nodes().Get(ctx, s.nodeName(node), metav1.GetOptions{})
		if err != nil {
			return false, nil, err
		}
		return holds(n), []runtime.Object{n}, nil
	}}
}

// deleteNode deletes the Node object, as an autoscaler or a cloud's controller does, and
// waits until the garbage collector has removed its CSINode.
func (s *stage) deleteNode(ctx context.Context, node string) {
	s.do(func() error { return s.client.CoreV1().Nodes().Delete(ctx, s.nodeName(node), metav1.DeleteOptions{}) })
	s.await(ctx, fixture.Condition{What: "the CSINode is collected", Check: func(ctx context.Context) (bool, []runtime.Object, error) {
		_, err := s.client.StorageV1().CSINodes().Get(ctx, s.nodeName(node), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil, nil
		}
		return false, nil, err
	}})
}

// volume makes a claim and its volume.
func (s *stage) volume(ctx context.Context, claim string, change func(*corev1.PersistentVolume)) fixture.Volume {
	var v fixture.Volume
	s.do(func() (err error) {
		if s.claimLike == nil {
			s.claimLike = func(*corev1.PersistentVolumeClaim) {}
		}
		v, err = fixture.ClaimVolume(ctx, s.client, s.name, claim, s.driver, change, s.claimLike)
		return err
	})
	return v
}

// pod creates a pod with the claim "data". Its node's kubelet ends it immediately when it is
// deleted, and on an unreachable node it is evicted within seconds.
func (s *stage) pod(ctx context.Context, name, node string) {
	s.podWith(ctx, name, node, "data", nil)
}

func (s *stage) podWith(ctx context.Context, name, node, claim string, change func(*corev1.Pod)) {
	s.do(func() error {
		time.Sleep(time.Until(s.oldEnough))
		pod := fixture.Pod(s.name, name, s.nodeName(node), claim)
		evictable(&pod.Spec)
		if change != nil {
			change(pod)
		}
		_, err := fixture.CreatePod(ctx, s.client, pod)
		return err
	})
}

// evictable shortens the API server's defaults of five minutes and thirty seconds.
func evictable(spec *corev1.PodSpec) {
	soon, grace := int64(2), int64(1)
	spec.TerminationGracePeriodSeconds = &grace
	for _, key := range []string{corev1.TaintNodeUnreachable, corev1.TaintNodeNotReady} {
		spec.Tolerations = append(spec.Tolerations, corev1.Toleration{
			Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &soon,
		})
	}
}

// patient makes a pod stay on an unreachable node.
func patient(pod *corev1.Pod) {
	for i := range pod.Spec.Tolerations {
		pod.Spec.Tolerations[i].TolerationSeconds = nil
	}
}

func (s *stage) runs(ctx context.Context, pod string) {
	s.await(ctx, fixture.PodRunning(s.client, s.name, pod))
}

func (s *stage) waits(ctx context.Context, pod string) {
	s.await(ctx, fixture.PodWaiting(s.client, s.name, pod))
}

func (s *stage) gone(ctx context.Context, pod string) {
	s.await(ctx, fixture.PodGone(s.client, s.name, pod))
}

// deletePod deletes a pod and waits until its kubelet has removed it.
func (s *stage) deletePod(ctx context.Context, pod string) {
	s.do(func() error { return fixture.DeletePod(ctx, s.client, s.name, pod) })
	s.gone(ctx, pod)
}

func (s *stage) forceDeletePod(ctx context.Context, pod string) {
	s.do(func() error { return fixture.ForceDeletePod(ctx, s.client, s.name, pod) })
}

// evicted waits until the pod's deletion was asked for.
func (s *stage) evicted(ctx context.Context, pod string) {
	s.await(ctx, fixture.Condition{What: "pod " + pod + " is evicted", Check: func(ctx context.Context) (bool, []runtime.Object, error) {
		p, err := s.client.CoreV1().Pods(s.name).Get(ctx, pod, metav1.GetOptions{})
		if err != nil {
			return false, nil, err
		}
		return p.DeletionTimestamp != nil, []runtime.Object{p}, nil
	}})
}

// attachment waits until holds is true for the volume on the node.
func (s *stage) attachment(ctx context.Context, node string, v fixture.Volume, what string, holds func(fixture.AttachmentState) bool) {
	s.await(ctx, fixture.Attachment(s.client, s.nodeName(node), v, what, holds))
}

func (s *stage) detaching(ctx context.Context, node string, v fixture.Volume) {
	s.attachment(ctx, node, v, "failing to detach", func(a fixture.AttachmentState) bool {
		return a.Deleting() && a.Attachment.Status.DetachError != nil
	})
}

func (s *stage) detached(ctx context.Context, node string, v fixture.Volume) {
	s.await(ctx, fixture.Detached(s.client, s.nodeName(node), v))
}

// deleteAttachment deletes the VolumeAttachment as kubectl delete does.
func (s *stage) deleteAttachment(ctx context.Context, node string, v fixture.Volume) {
	s.do(func() error {
		return s.client.StorageV1().VolumeAttachments().Delete(ctx, v.AttachmentName(s.nodeName(node)), metav1.DeleteOptions{})
	})
}

// createAttachment makes a VolumeAttachment by hand.
func (s *stage) createAttachment(ctx context.Context, name, node string, v fixture.Volume) {
	s.do(func() error {
		_, err := s.client.StorageV1().VolumeAttachments().Create(ctx, &storagev1.VolumeAttachment{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: storagev1.VolumeAttachmentSpec{
				Attacher: s.driver, NodeName: s.nodeName(node),
				Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &v.PersistentVolume},
			},
		}, metav1.CreateOptions{})
		return err
	})
}

// noFinalizers is the patch with which people take finalizers off.
var noFinalizers = []byte(`{"metadata":{"finalizers":null}}`)

// stripAttachment takes the finalizers off a VolumeAttachment and deletes it.
func (s *stage) stripAttachment(ctx context.Context, node string, v fixture.Volume) {
	s.do(func() error {
		name := v.AttachmentName(s.nodeName(node))
		_, err := s.client.StorageV1().VolumeAttachments().Patch(ctx, name, types.MergePatchType, noFinalizers, metav1.PatchOptions{})
		return err
	})
	s.deleteAttachment(ctx, node, v)
}

// ownDriver gives the stage a driver with an attacher of its own, whose lease
// is in the stage's namespace.
func (s *stage) ownDriver(ctx context.Context) *controlplane.Attacher {
	s.installed(ctx)
	var a *controlplane.Attacher
	s.do(func() (err error) {
		a, err = cluster.AddDriver(ctx, s.driver, s.name)
		return err
	})
	return a
}

// unattended names the stage's own driver, none of whose parts exist yet.
func (s *stage) unattended() { s.driver = s.name + ".test" }

// installed makes the CSIDriver object of the stage's own driver.
func (s *stage) installed(ctx context.Context) {
	s.unattended()
	s.do(func() error { return installDriver(ctx, s.driver, true) })
}

// evict ends a pod that has not begun to run, as a kubelet does whose node runs out of a
// resource.
func (s *stage) evict(ctx context.Context, pod string) {
	s.do(func() error {
		patch := fmt.Sprintf(`{"status":{"phase":"Failed","reason":"Evicted","message":"The node was low on resource: memory.",`+
			`"conditions":[{"type":"DisruptionTarget","status":"True","reason":"TerminationByKubelet","lastTransitionTime":%q}]}}`, time.Now().UTC().Format(time.RFC3339))
		_, err := s.client.CoreV1().Pods(s.name).Patch(ctx, pod, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
		return err
	})
}

func (s *stage) patchNodeStatus(ctx context.Context, node, patch string) {
	s.do(func() error {
		_, err := s.client.CoreV1().Nodes().Patch(ctx, s.nodeName(node), types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
		if err != nil {
			return fmt.Errorf("patch the status of node %s: %w", s.nodeName(node), err)
		}
		return nil
	})
}

// awaitController waits until a controller that has just started acts: it attaches a volume
// for a pod that comes now only after it has rebuilt its worlds.
func (s *stage) awaitController(ctx context.Context) {
	s.nodes(ctx, "witness")
	v := s.volume(ctx, "witness", nil)
	s.podWith(ctx, "witness", "witness", "witness", nil)
	s.runs(ctx, "witness")
	s.await(ctx, fixture.Attached(s.client, s.nodeName("witness"), v))
}
