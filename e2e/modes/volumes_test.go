package modes_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
)

var volumeModes = []mode{
	{
		name: "both-write", check: "silent-double-use", alone: true,
		story: "A node's kubelet no longer leaves attaching to the controller; its VolumeAttachment is taken away while kube-controller-manager is down, and the next " +
			"one attaches the volume to another node, while the first still writes to it.",
		provoke: func(ctx context.Context, s *stage) {
			s.nodes(ctx, "a", "b")
			v := s.running(ctx, "web-0")
			s.await(ctx, fixture.Attached(s.client, s.nodeName("a"), v))
			s.unmanage(ctx, "a")
			s.do(func() error { cluster.StopController(); return nil })
			s.stripAttachment(ctx, "a", v)
			s.patchNodeStatus(ctx, "a", `{"status":{"volumesAttached":null}}`)
			s.do(func() error { return cluster.StartController(ctx) })
			s.pod(ctx, "web-1", "b")
			s.runs(ctx, "web-1")
		},
	},
	{
		name: "behind-its-back", check: "attached-phantom", alone: true,
		story: "A pod is force-deleted while its kubelet is down, the finalizer is taken off its VolumeAttachment and that deleted while kube-controller-manager is down, and the pod is made anew.",
		provoke: func(ctx context.Context, s *stage) {
			s.nodes(ctx, "a")
			v := s.running(ctx, "web-0")
			s.await(ctx, fixture.Attached(s.client, s.nodeName("a"), v))
			s.stopKubelet("a")
			s.forceDeletePod(ctx, "web-0")
			s.do(func() error { cluster.StopController(); return nil })
			s.stripAttachment(ctx, "a", v)
			s.do(func() error { return cluster.StartController(ctx) })
			s.awaitController(ctx)
			s.pod(ctx, "web-0", "a")
			s.startKubelet(ctx, "a")
			s.waits(ctx, "web-0")
		},
	},
	{
		name: "entry-dropped", check: "inuse-not-attached",
		story: "Something takes a volume off the node's volumesAttached while its pod is made anew there.",
		provoke: func(ctx context.Context, s *stage) {
			s.nodes(ctx, "a")
			v := s.running(ctx, "web-0")
			s.stopKubelet("a")
			s.forceDeletePod(ctx, "web-0")
			s.do(func() error { return fixture.DropVolumesAttached(ctx, s.client, s.nodeName("a"), v.UniqueName()) })
			s.pod(ctx, "web-0", "a")
			s.startKubelet(ctx, "a")
			s.waits(ctx, "web-0")
		},
	},
	{
		name: "list-wiped", check: "inuse-not-attached",
		story: "Something overwrites the node's status, and volumesAttached is empty under a running pod.",
		provoke: func(ctx context.Context, s *stage) {
			s.nodes(ctx, "a")
			v := s.running(ctx, "web-0")
			s.await(ctx, fixture.Attached(s.client, s.nodeName("a"), v))
			s.patchNodeStatus(ctx, "a", `{"status":{"volumesAttached":null}}`)
		},
	},
	{
		name: "two-nodes", check: "rwo-many-consumers",
		story: "Two pods on two nodes share a ReadWriteOnce claim.",
		provoke: func(ctx context.Context, s *stage) {
			s.nodes(ctx, "a", "b")
			s.running(ctx, "web-0")
			s.pod(ctx, "web-1", "b")
			s.waits(ctx, "web-1")
		},
	},
	{
		name: "rolling-update", check: "rwo-rollout-deadlock",
		story: "A Deployment with a ReadWriteOnce claim is rolled over, and the new pod is put on another node.",
		provoke: func(ctx context.Context, s *stage) {
			s.nodes(ctx, "a", "b")
			s.volume(ctx, "data", nil)
			s.deployment(ctx, "web", "a")
			s.await(ctx, s.podOn("a", corev1.PodRunning))
			s.do(func() error {
				patch := fmt.Sprintf(`{"spec":{"template":{"spec":{"nodeName":%q}}}}`, s.nodeName("b"))
				_, err := s.client.AppsV1().Deployments(s.name).Patch(ctx, "web", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
				return err
			})
			s.await(ctx, s.podOn("b", corev1.PodPending))
		},
	},
	{
		name: "stripped-volume", check: "va-pv-missing", also: []string{"pvc-lost-or-double-claim"},
		story: "The PersistentVolume of a running pod is deleted and its finalizers are taken off.",
		provoke: func(ctx context.Context, s *stage) {
			s.nodes(ctx, "a")
			v := s.running(ctx, "web-0")
			s.deleteVolume(ctx, v)
			s.do(func() error {
				_, err := s.client.CoreV1().PersistentVolumes().Patch(ctx, v.PersistentVolume, types.MergePatchType, noFinalizers, metav1.PatchOptions{})
				return err
			})
		},
	},
	{
		name: "volume-deleted", check: "pv-terminating-va-exists",
		story: "The PersistentVolume of a pod is deleted, which its protection delays; the pod moves to another node.",
		provoke: func(ctx context.Context, s *stage) {
			s.nodes(ctx, "a", "b")
			v := s.running(ctx, "web-0")
			s.deleteVolume(ctx, v)
			s.deletePod(ctx, "web-0")
			s.detached(ctx, "a", v)
			s.pod(ctx, "web-1", "b")
			s.waits(ctx, "web-1")
		},
	},
	{
		name: "claim-recreated", check: "claimref-stale",
		story: "A claim is deleted and made again under its name, and asks for the volume, which points to the first one.",
		provoke: func(ctx context.Context, s *stage) {
			s.nodes(ctx, "a")
			v := s.running(ctx, "web-0")
			s.deletePod(ctx, "web-0")
			claims := s.client.CoreV1().PersistentVolumeClaims(s.name)
			s.do(func() error { return claims.Delete(ctx, v.Claim, metav1.DeleteOptions{}) })
			s.await(ctx, fixture.Condition{What: "the claim is gone", Check: func(ctx context.Context) (bool, []runtime.Object, error) {
				_, err := claims.Get(ctx, v.Claim, metav1.GetOptions{})
				if apierrors.IsNotFound(err) {
					return true, nil, nil
				}
				return false, nil, err
			}})
			s.do(func() error { return fixture.Claim(ctx, s.client, s.name, v) })
			s.pod(ctx, "web-1", "a")
			s.waits(ctx, "web-1")
		},
	},
	{
		name: "one-disk-twice", check: "duplicate-volume-handle",
		story: "A restored PersistentVolume has the handle of its original, and pods on two nodes use the two.",
		provoke: func(ctx context.Context, s *stage) {
			s.nodes(ctx, "a", "b")
			v := s.running(ctx, "web-0")
			s.volume(ctx, "restored", func(pv *corev1.PersistentVolume) { pv.Spec.CSI.VolumeHandle = v.Handle })
			s.podWith(ctx, "web-1", "b", "restored", nil)
			s.waits(ctx, "web-1")
		},
	},
	{
		name: "made-by-hand", check: "foreign-va",
		story: "Somebody makes a VolumeAttachment under a name of their own.",
		provoke: func(ctx context.Context, s *stage) {
			s.nodes(ctx, "a")
			v := s.volume(ctx, "data", nil)
			s.createAttachment(ctx, "attach-"+s.name, "a", v)
		},
	},
	{
		name: "restored-attachment", check: "dangling-after-kcm-restart", later: true,
		story: "A restore brings back a VolumeAttachment under the controller's own name, behind the back of the controller that runs.",
		provoke: func(ctx context.Context, s *stage) {
			s.nodes(ctx, "a")
			v := s.volume(ctx, "data", nil)
			s.createAttachment(ctx, v.AttachmentName(s.nodeName("a")), "a", v)
			s.attachment(ctx, "a", v, "attached", fixture.AttachmentState.Attached)
		},
	},
	{
		name: "restored-refused", check: "uncertain-after-failed-attach", later: true,
		story: "A restore brings back a VolumeAttachment behind the back of the controller that runs, and the disk cannot be attached any more.",
		provoke: func(ctx context.Context, s *stage) {
			s.nodes(ctx, "a")
			v := s.volume(ctx, "data", nil)
			cluster.Driver.FailPublish(status.Error(codes.FailedPrecondition, "the disk is being migrated"), v.Handle)
			s.createAttachment(ctx, v.AttachmentName(s.nodeName("a")), "a", v)
			s.attachment(ctx, "a", v, "refused", func(a fixture.AttachmentState) bool {
				return a.Attachment != nil && a.Attachment.Status.AttachError != nil
			})
		},
	},
	{
		name: "removed-too-soon", check: "autoscaler-deletes-before-detach", later: true,
		story: "A VolumeAttachment is restored behind the controller's back; its node is removed with its machine, and the volume moves on to another node.",
		provoke: func(ctx context.Context, s *stage) {
			s.nodes(ctx, "a", "b")
			v := s.volume(ctx, "data", nil)
			s.createAttachment(ctx, v.AttachmentName(s.nodeName("a")), "a", v)
			s.attachment(ctx, "a", v, "attached", fixture.AttachmentState.Attached)
			s.stopKubelet("a")
			s.deleteNode(ctx, "a")
			s.do(func() error { time.Sleep(settled); return nil })
			s.pod(ctx, "web-0", "b")
			s.runs(ctx, "web-0")
		},
	},
	{
		name: "twice-attached", check: "two-vas-one-rwo", also: []string{"silent-double-use"}, later: true,
		story: "A restore brings back the VolumeAttachment of a volume that runs on another node meanwhile, the attacher obeys, and a pod comes there.",
		provoke: func(ctx context.Context, s *stage) {
			s.nodes(ctx, "a", "b")
			v := s.running(ctx, "web-0")
			s.createAttachment(ctx, v.AttachmentName(s.nodeName("b")), "b", v)
			s.attachment(ctx, "b", v, "attached", fixture.AttachmentState.Attached)
			s.pod(ctx, "web-1", "b")
			s.waits(ctx, "web-1")
		},
	},
}

func (s *stage) deleteVolume(ctx context.Context, v fixture.Volume) {
	s.do(func() error {
		return s.client.CoreV1().PersistentVolumes().Delete(ctx, v.PersistentVolume, metav1.DeleteOptions{})
	})
}

// podOn is the condition that the node has a pod of the stage in the phase.
func (s *stage) podOn(node string, phase corev1.PodPhase) fixture.Condition {
	return fixture.Condition{What: fmt.Sprintf("node %s has a pod that is %s", s.nodeName(node), phase), Check: func(ctx context.Context) (bool, []runtime.Object, error) {
		list, err := s.client.CoreV1().Pods(s.name).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + s.nodeName(node)})
		if err != nil {
			return false, nil, err
		}
		return slices.ContainsFunc(list.Items, func(p corev1.Pod) bool { return p.Status.Phase == phase }), nil, nil
	}}
}

// deletedAttachmentFails is the condition that the driver fails to detach the volume from a
// node that no longer exists.
func (s *stage) deletedAttachmentFails(node string, v fixture.Volume) fixture.Condition {
	return fixture.Condition{What: "the detach fails", Check: func(ctx context.Context) (bool, []runtime.Object, error) {
		va, err := s.client.StorageV1().VolumeAttachments().Get(ctx, v.AttachmentName(s.nodeName(node)), metav1.GetOptions{})
		if err != nil {
			return false, nil, err
		}
		return va.DeletionTimestamp != nil && va.Status.DetachError != nil, []runtime.Object{va}, nil
	}}
}
