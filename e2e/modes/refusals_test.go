package modes_test

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/controlplane"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/csidriver"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/kubelet"
)

// The other drivers whose messages are used, each with an attacher of its own.
const (
	longhorn = "driver.longhorn.io"
	trident  = "csi.trident.netapp.io"
	ebs      = "ebs.csi.aws.com"
	// cephRBD attaches nothing, as it may be configured.
	cephRBD = "rbd.csi.ceph.com"
)

// drivers are the stand-ins that have the names of other drivers.
var drivers = map[string]*csidriver.Driver{}

func startDrivers(ctx context.Context) error {
	for _, name := range []string{longhorn, trident, ebs} {
		if err := installDriver(ctx, name, true); err != nil {
			return err
		}
		a, err := cluster.AddDriver(ctx, name, metav1.NamespaceDefault)
		if err != nil {
			return err
		}
		drivers[name] = a.Driver
	}
	return installDriver(ctx, cephRBD, false)
}

func installDriver(ctx context.Context, name string, attaches bool) error {
	_, err := cluster.Client().StorageV1().CSIDrivers().Create(ctx, &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       storagev1.CSIDriverSpec{AttachRequired: &attaches},
	}, metav1.CreateOptions{})
	return err
}

// tooSeldom is an interval at which a kubelet writes its status so seldom that it might as
// well not.
const tooSeldom = time.Hour

// refusedBy is the story of another driver that answers each attach with an error.
func refusedBy(driver string, code codes.Code, message string) func(context.Context, *stage) {
	return func(ctx context.Context, s *stage) {
		s.driver = driver
		s.nodes(ctx, "a")
		v := s.volume(ctx, "data", nil)
		drivers[driver].FailPublish(status.Error(code, message), v.Handle)
		s.pod(ctx, "web-0", "a")
		s.waits(ctx, "web-0")
	}
}

var refusalModes = []mode{
	{
		name: "not-allowed", check: "attach-refused",
		story:   "ControllerPublishVolume fails: the driver's credentials do not allow it.",
		provoke: refused(codes.PermissionDenied, "the account may not attach volumes"),
	},
	{
		name: "volume-not-ready", check: "attach-refused",
		story:   "Longhorn refuses to attach a volume that is not ready for workloads.",
		provoke: refusedBy(longhorn, codes.Aborted, "volume vol-7 is not ready for workloads"),
	},
	{
		name: "node-not-known", check: "node-unknown-to-driver",
		story:   "Trident does not know the node, which is Ready.",
		provoke: refusedBy(trident, codes.NotFound, "node worker-7 was not found"),
	},
	{
		name: "key-revoked", check: "attach-refused",
		story:   "EBS does not attach an encrypted volume whose key was revoked.",
		provoke: refusedBy(ebs, codes.Internal, "Could not attach volume \"vol-7\" to node \"i-7\": CustomerKeyHasBeenRevoked: the key that encrypts the volume was revoked"),
	},
	{
		name: "away-zone", check: "topology-mismatch", aged: true,
		story:   "EBS does not attach a volume that is in another zone, of which the volume says nothing.",
		provoke: refusedBy(ebs, codes.InvalidArgument, "Could not attach volume \"vol-7\" to node \"i-7\": InvalidVolume.ZoneMismatch: The volume 'vol-7' is not in the same availability zone as instance 'i-7'"),
	},
	{
		name: "no-right-to-write", check: "attached-but-not-recorded", announced: true,
		story: "The external-attacher may not write the status of VolumeAttachments: its ClusterRole is an old one.",
		provoke: func(ctx context.Context, s *stage) {
			s.installed(ctx)
			s.do(func() error {
				return grantAttacher(ctx, s.name, "get,list,watch,patch volumeattachments", "get,list,watch,patch persistentvolumes", "get,list,watch csinodes")
			})
			s.do(func() error {
				_, err := cluster.AddDriverAs(ctx, controlplane.UserLimited, s.driver, s.name)
				return err
			})
			s.nodes(ctx, "a")
			s.volume(ctx, "data", nil)
			s.pod(ctx, "web-0", "a")
			s.waits(ctx, "web-0")
		},
	},
	{
		name: "typo-in-driver", check: "driver-renamed",
		story: "A PersistentVolume names its driver with a letter too many.",
		provoke: func(ctx context.Context, s *stage) {
			s.nodes(ctx, "a")
			s.driver = "disk.volumes-doctor.test"
			s.volume(ctx, "data", nil)
			s.pod(ctx, "web-0", "a")
			s.waits(ctx, "web-0")
		},
	},
	{
		name: "inline-typo", check: "inline-driver-missing",
		story: "A pod's inline volume names its driver with a letter too many.",
		provoke: func(ctx context.Context, s *stage) {
			s.inline(ctx, "disk.volume-doctors.test", kubelet.Options{})
		},
	},
	{
		name: "inline-unserved", check: "inline-driver-missing", aged: true,
		story: "The node plugin of the driver of a pod's inline volume does not run on its node.",
		provoke: func(ctx context.Context, s *stage) {
			s.inline(ctx, trident, kubelet.Options{})
		},
	},
	{
		name: "born-unmanaged", check: "node-not-controller-managed",
		story: "A kubelet is started with enableControllerAttachDetach: false.",
		provoke: func(ctx context.Context, s *stage) {
			s.node(ctx, "a", kubelet.Options{Unmanaged: true})
			s.volume(ctx, "data", nil)
			s.pod(ctx, "web-0", "a")
			s.waits(ctx, "web-0")
		},
	},
	{
		name: "never-announced", check: "inuse-not-reported", announced: true,
		story: "A kubelet does not write volumesInUse, and so never mounts what is attached.",
		provoke: func(ctx context.Context, s *stage) {
			s.node(ctx, "a", kubelet.Options{StatusPeriod: tooSeldom})
			s.volume(ctx, "data", nil)
			s.pod(ctx, "web-0", "a")
			s.waits(ctx, "web-0")
		},
	},
	{
		name: "attach-pinned", check: "failed-pod-pins-refused-attach", later: true,
		story: "A pod whose attach is refused is evicted and not deleted: the attach is asked for again and again.",
		provoke: func(ctx context.Context, s *stage) {
			s.nodes(ctx, "a")
			v := s.volume(ctx, "data", nil)
			cluster.Driver.FailPublish(status.Error(codes.Internal, "the array is busy"), v.Handle)
			s.pod(ctx, "web-0", "a")
			s.waits(ctx, "web-0")
			s.evict(ctx, "web-0")
		},
	},
	{
		name: "evicted-in-mount", check: "terminated-pod-holds-volume", announced: true,
		story: "A pod is evicted before its volume is mounted, and is not deleted: the volume stays, and a pod on another node waits for it.",
		provoke: func(ctx context.Context, s *stage) {
			s.nodes(ctx, "a", "b")
			v := s.volume(ctx, "data", nil)
			s.failMount("a", v.PersistentVolume, kubelet.MountFault{})
			s.pod(ctx, "web-0", "a")
			s.waits(ctx, "web-0")
			s.attachment(ctx, "a", v, "attached", attached)
			s.evict(ctx, "web-0")
			s.pod(ctx, "web-1", "b")
			s.waits(ctx, "web-1")
		},
	},
}

// inline is the story of a pod with an inline volume of a driver that the kubelet
// does not know.
func (s *stage) inline(ctx context.Context, driver string, options kubelet.Options) {
	s.node(ctx, "a", options)
	s.failMount("a", "scratch", kubelet.MountFailed(mountFails, "scratch",
		"kubernetes.io/csi: mounter.SetUpAt failed to get CSI client: driver name "+driver+" not found in the list of registered CSI drivers"))
	s.volume(ctx, "data", nil)
	s.podWith(ctx, "web-0", "a", "data", func(pod *corev1.Pod) {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "scratch", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: driver}}})
		mounts := &pod.Spec.Containers[0].VolumeMounts
		*mounts = append(*mounts, corev1.VolumeMount{Name: "scratch", MountPath: "/scratch"})
	})
	s.waits(ctx, "web-0")
}
