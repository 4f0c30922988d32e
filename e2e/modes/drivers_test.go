package modes_test

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/kubelet"
)

// tooLong is longer than the attacher waits for an answer of the driver.
const tooLong = 30 * time.Second

// refused is the story of a driver that answers each attach with an error.
func refused(code codes.Code, message string) func(context.Context, *stage) {
	return func(ctx context.Context, s *stage) {
		s.nodes(ctx, "a")
		v := s.volume(ctx, "data", nil)
		cluster.Driver.FailPublish(status.Error(code, message), v.Handle)
		s.pod(ctx, "web-0", "a")
		s.waits(ctx, "web-0")
	}
}

var driverModes = []mode{
	{
		name: "busy-disk", check: "va-stuck-deleting", later: true,
		story: "ControllerUnpublishVolume fails: a pod is deleted and its volume cannot be detached.",
		provoke: func(ctx context.Context, s *stage) {
			s.nodes(ctx, "a")
			v := s.running(ctx, "web-0")
			cluster.Driver.FailUnpublish(status.Error(codes.Internal, "device is busy"), v.Handle)
			s.deletePod(ctx, "web-0")
			s.detaching(ctx, "a", v)
		},
	},
	{
		name: "pod-returns", check: "reuse-while-detaching",
		story: "ControllerUnpublishVolume fails, and the pod comes back to its node meanwhile.",
		provoke: func(ctx context.Context, s *stage) {
			s.nodes(ctx, "a")
			v := s.running(ctx, "web-0")
			cluster.Driver.FailUnpublish(status.Error(codes.Internal, "device is busy"), v.Handle)
			s.deletePod(ctx, "web-0")
			s.detaching(ctx, "a", v)
			s.pod(ctx, "web-0", "a")
			s.waits(ctx, "web-0")
		},
	},
	{
		name: "slow-detach", check: "reuse-while-detaching",
		story: "ControllerUnpublishVolume does not answer in time, and the pod comes back to its node meanwhile.",
		provoke: func(ctx context.Context, s *stage) {
			s.nodes(ctx, "a")
			v := s.running(ctx, "web-0")
			cluster.Driver.Delay(tooLong, v.Handle)
			s.deletePod(ctx, "web-0")
			s.detaching(ctx, "a", v)
			s.pod(ctx, "web-0", "a")
			s.waits(ctx, "web-0")
		},
	},
	{
		name: "slow-attach", check: "backend-side-stuck", also: []string{"attach-refused"}, later: true,
		story: "ControllerPublishVolume does not answer in time.",
		provoke: func(ctx context.Context, s *stage) {
			s.nodes(ctx, "a")
			v := s.volume(ctx, "data", nil)
			cluster.Driver.Delay(tooLong, v.Handle)
			s.pod(ctx, "web-0", "a")
			s.waits(ctx, "web-0")
		},
	},
	{
		name: "disk-lost", check: "attach-refused",
		story:   "ControllerPublishVolume fails: the disk was deleted at the storage system.",
		provoke: refused(codes.NotFound, "the volume was not found"),
	},
	{
		name: "node-full", check: "attach-limit",
		story:   "ControllerPublishVolume fails: no more volumes fit on the node.",
		provoke: refused(codes.ResourceExhausted, "maximum number of volumes attached"),
	},
	{
		name: "taken-elsewhere", check: "attach-refused", announced: true,
		story: "A volume is attached to another node by hand at the storage system, and ControllerPublishVolume fails.",
		provoke: func(ctx context.Context, s *stage) {
			s.nodes(ctx, "a", "b")
			v := s.volume(ctx, "data", nil)
			cluster.Driver.AttachByHand(v.Handle, s.nodeName("b"))
			cluster.Driver.FailPublish(status.Errorf(codes.FailedPrecondition, "the volume is already attached to node %s", s.nodeName("b")), v.Handle)
			s.pod(ctx, "web-0", "a")
			s.waits(ctx, "web-0")
		},
	},
	{
		name: "secret-missing", check: "publish-secret-missing",
		story: "The secret that a volume names for attaching does not exist.",
		provoke: func(ctx context.Context, s *stage) {
			s.nodes(ctx, "a")
			s.volume(ctx, "data", func(pv *corev1.PersistentVolume) {
				pv.Spec.CSI.ControllerPublishSecretRef = &corev1.SecretReference{Namespace: s.name, Name: "storage-login"}
			})
			s.pod(ctx, "web-0", "a")
			s.waits(ctx, "web-0")
		},
	},
	{
		name: "plugin-missing", check: "csinode-driver-missing",
		story: "The driver's node plugin does not run on the node of a pod.",
		provoke: func(ctx context.Context, s *stage) {
			s.node(ctx, "a", kubelet.Options{Unregistered: true})
			s.volume(ctx, "data", nil)
			s.pod(ctx, "web-0", "a")
			s.waits(ctx, "web-0")
		},
	},
	{
		name: "dead-at-attach", check: "attacher-down",
		story: "The external-attacher dies, and a pod comes.",
		provoke: func(ctx context.Context, s *stage) {
			a := s.ownDriver(ctx)
			s.nodes(ctx, "a")
			s.volume(ctx, "data", nil)
			s.do(func() error { a.Kill(); return nil })
			s.pod(ctx, "web-0", "a")
			s.waits(ctx, "web-0")
		},
	},
	{
		name: "finalizer-left", check: "attacher-down",
		story: "The external-attacher dies, and a pod moves to another node: the VolumeAttachment is deleted and keeps its finalizer.",
		provoke: func(ctx context.Context, s *stage) {
			a := s.ownDriver(ctx)
			s.nodes(ctx, "a", "b")
			v := s.running(ctx, "web-0")
			s.do(func() error { a.Kill(); return nil })
			s.deletePod(ctx, "web-0")
			s.attachment(ctx, "a", v, "being deleted", fixture.AttachmentState.Deleting)
			s.pod(ctx, "web-1", "b")
			s.waits(ctx, "web-1")
		},
	},
	{
		name: "hung-attacher", check: "attacher-zombie-leader",
		story: "The external-attacher hangs, with its lease, while its pod stays Ready.",
		provoke: func(ctx context.Context, s *stage) {
			a := s.ownDriver(ctx)
			s.nodes(ctx, "a")
			s.volume(ctx, "data", nil)
			s.do(func() error {
				_, err := fixture.CreatePod(ctx, s.client, fixture.Pod(s.name, a.Holder, s.nodeName("a")))
				return err
			})
			s.do(func() error { return fixture.Await(ctx, fixture.PodRunning(s.client, s.name, a.Holder)) })
			s.do(func() error { return a.Hang() })
			s.pod(ctx, "web-0", "a")
			s.waits(ctx, "web-0")
		},
	},
	{
		name: "no-attacher", check: "va-never-processed",
		story: "A driver is installed without an external-attacher.",
		provoke: func(ctx context.Context, s *stage) {
			s.installed(ctx)
			s.nodes(ctx, "a")
			s.volume(ctx, "data", nil)
			s.pod(ctx, "web-0", "a")
			s.waits(ctx, "web-0")
		},
	},
	{
		name: "uninstalled-driver", check: "driver-uninstalled", later: true,
		story: "A driver is uninstalled while a volume of it is attached, and the pod is deleted.",
		provoke: func(ctx context.Context, s *stage) {
			a := s.ownDriver(ctx)
			s.nodes(ctx, "a")
			v := s.running(ctx, "web-0")
			s.do(func() error { a.Kill(); return nil })
			s.do(func() error { return s.kubelets["a"].Unregister(ctx) })
			s.do(func() error { return s.client.StorageV1().CSIDrivers().Delete(ctx, s.driver, metav1.DeleteOptions{}) })
			s.deletePod(ctx, "web-0")
			s.attachment(ctx, "a", v, "being deleted", fixture.AttachmentState.Deleting)
		},
	},
	{
		name: "no-csidriver", check: "csidriver-missing", later: true,
		story: "A driver that attaches nothing runs without its CSIDriver object, which would say so.",
		provoke: func(ctx context.Context, s *stage) {
			s.unattended()
			s.nodes(ctx, "a")
			s.volume(ctx, "data", nil)
			s.pod(ctx, "web-0", "a")
			s.waits(ctx, "web-0")
		},
	},
}
