package modes_test

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/csidriver"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/kubelet"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// The steps of a mount, as the kubelet names them in its events.
const (
	stageFails = "MountVolume.MountDevice failed"
	mountFails = "MountVolume.SetUp failed"
)

// unmountable is the story of a volume that the kubelet fails to mount, with these words.
func unmountable(step, reason string) func(context.Context, *stage) {
	return unmountableBy(csidriver.Name, step, reason)
}

// unmountableBy is unmountable for a volume of another driver.
func unmountableBy(driver, step, reason string) func(context.Context, *stage) {
	return func(ctx context.Context, s *stage) {
		s.driver = driver
		s.nodes(ctx, "a")
		v := s.volume(ctx, "data", nil)
		s.failMount("a", v.PersistentVolume, kubelet.MountFailed(step, v.PersistentVolume, reason))
		s.pod(ctx, "web-0", "a")
		s.waits(ctx, "web-0")
	}
}

// internal is the kubelet's quotation of a driver that answers with this error.
func internal(message string) string { return "rpc error: code = Internal desc = " + message }

func (s *stage) failMount(node, volume string, fault kubelet.MountFault) {
	s.do(func() error { s.kubelets[node].FailMount(volume, fault); return nil })
}

var mountModes = []mode{
	{
		name: "damaged-files", check: "mount-refused",
		story:   "NodeStageVolume fails: fsck finds errors in the file system that it cannot correct.",
		provoke: unmountable(stageFails, internal("'fsck' found errors on device /dev/sdb but could not correct them: fsck from util-linux 2.39")),
	},
	{
		name: "other-filesystem", check: "mount-refused",
		story: "NodeStageVolume fails: the disk has another file system than the volume says.",
		provoke: unmountable(stageFails, internal("mount failed: exit status 32: mount: /var/lib/kubelet/globalmount: "+
			"wrong fs type, bad option, bad superblock on /dev/sdb, missing codepage or helper program, or other error.")),
	},
	{
		name: "paths-lost", check: "mount-refused",
		story:   "NodeStageVolume fails: the node reaches the storage over no path.",
		provoke: unmountable(stageFails, internal("failed to get any path for iscsi disk, last err seen: iscsiadm: No records found")),
	},
	{
		name: "export-denied", check: "mount-refused",
		story:   "NodePublishVolume fails: the server does not export the share to the node.",
		provoke: unmountable(mountFails, internal("mount failed: exit status 32: mount.nfs: access denied by server while mounting 10.0.0.9:/exports/a")),
	},
	{
		name: "client-blocked", check: "mount-refused",
		story: "NodeStageVolume fails: the storage has put the node on its blocklist.",
		provoke: unmountableBy(cephRBD, stageFails, internal("rbd: map failed with error an error (exit status 108) occurred while running rbd args: "+
			"[--id csi-rbd-node map], rbd error output: rbd: sysfs write failed\nrbd: map failed: (108) Cannot send after transport endpoint shutdown")),
	},
	{
		name: "call-pending", check: "mount-refused",
		story:   "NodeStageVolume hangs in the node plugin, which refuses each further call for the volume.",
		provoke: unmountable(stageFails, "rpc error: code = Aborted desc = An operation with the given Volume ID vol-7 already exists"),
	},
	{
		name: "stage-secret", check: "mount-refused",
		story:   "The secret that a volume names for its mount on the node does not exist.",
		provoke: unmountable(stageFails, `fetching NodeStageSecretRef storage/login failed: kubernetes.io/csi: failed to find the secret login in the namespace storage with error: secrets "login" not found`),
	},
	{
		name: "config-missing", check: "mount-refused",
		story: "A pod mounts a ConfigMap that does not exist.",
		provoke: func(ctx context.Context, s *stage) {
			s.nodes(ctx, "a")
			s.volume(ctx, "data", nil)
			s.failMount("a", "settings", kubelet.MountFailed(mountFails, "settings", `configmap "settings" not found`))
			s.podWith(ctx, "web-0", "a", "data", func(pod *corev1.Pod) {
				pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "settings", VolumeSource: corev1.VolumeSource{
					ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}},
				}})
				mounts := &pod.Spec.Containers[0].VolumeMounts
				*mounts = append(*mounts, corev1.VolumeMount{Name: "settings", MountPath: "/settings"})
			})
			s.waits(ctx, "web-0")
		},
	},
	{
		name: "mount-option", check: "permanently-unmountable",
		story:   "A volume has a mount option that the node does not know.",
		provoke: unmountable(mountFails, internal("mount failed: exit status 32: mount.nfs: an incorrect mount option was specified")),
	},
	{
		name: "block-volume", check: "permanently-unmountable",
		story: "A pod mounts a volume of volumeMode Block as a file system.",
		provoke: func(ctx context.Context, s *stage) {
			s.nodes(ctx, "a")
			block := corev1.PersistentVolumeBlock
			s.claimLike = func(claim *corev1.PersistentVolumeClaim) { claim.Spec.VolumeMode = &block }
			s.volume(ctx, "data", func(pv *corev1.PersistentVolume) { pv.Spec.VolumeMode = &block })
			s.pod(ctx, "web-0", "a")
			s.waits(ctx, "web-0")
		},
	},
	{
		name: "grow-fails", check: "volume-expansion-stuck", announced: true,
		story: "A volume that has grown is mounted, and its file system cannot be made larger.",
		provoke: unmountable("MountVolume.Setup failed while expanding volume",
			"NodeExpandVolume.NodeExpandVolume failed: "+internal("resize2fs: New size smaller than minimum (262144)")),
	},
	{
		name: "second-pod", check: "rwop-conflict", announced: true,
		story: "Two pods on one node share a ReadWriteOncePod claim.",
		provoke: func(ctx context.Context, s *stage) {
			s.nodes(ctx, "a")
			once := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
			s.claimLike = func(claim *corev1.PersistentVolumeClaim) { claim.Spec.AccessModes = once }
			v := s.volume(ctx, "data", func(pv *corev1.PersistentVolume) { pv.Spec.AccessModes = once })
			s.pod(ctx, "web-0", "a")
			s.runs(ctx, "web-0")
			s.failMount("a", v.PersistentVolume, kubelet.MountFailed(mountFails, v.PersistentVolume,
				"volume uses the ReadWriteOncePod access mode and is already in use by another pod"))
			s.pod(ctx, "web-1", "a")
			s.waits(ctx, "web-1")
		},
	},
	{
		name: "other-label", check: "selinux-label-conflict", announced: true,
		story: "Two pods on one node share a volume that is mounted with the SELinux label of the first.",
		provoke: func(ctx context.Context, s *stage) {
			s.nodes(ctx, "a")
			v := s.running(ctx, "web-0")
			s.failMount("a", v.PersistentVolume, kubelet.WaitFailed("data", fmt.Sprintf(
				"waiting for unmount of volume %q, because it is already mounted to a different pod with a different SELinux label", v.UniqueName())))
			s.pod(ctx, "web-1", "a")
			s.waits(ctx, "web-1")
		},
	},
	{
		name: "owner-change", check: "slow-ownership",
		story: "The kubelet gives each file of a volume to the pod's fsGroup, and a file operation hangs: after its first report it says nothing more.",
		provoke: func(ctx context.Context, s *stage) {
			s.nodes(ctx, "a")
			v := s.volume(ctx, "data", nil)
			s.failMount("a", v.PersistentVolume, kubelet.MountFault{
				Reason:  "VolumePermissionChangeInProgress",
				Message: "Setting volume ownership for web-0/volumes/kubernetes.io~csi/" + v.PersistentVolume + "/mount is taking longer than expected, consider using OnRootMismatch",
				Takes:   firstReport,
				Once:    true,
			})
			s.podWith(ctx, "web-0", "a", "data", func(pod *corev1.Pod) {
				group := int64(1000)
				pod.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: &group}
			})
			s.waits(ctx, "web-0")
		},
	},
	{
		name: "device-gone", check: "attached-true-but-not", also: []string{"mount-refused"}, idles: true,
		story:   "A volume is detached from its node by hand at the storage system, and NodeStageVolume does not find its device.",
		provoke: unmountableBy(ebs, stageFails, internal(`failed to find device path: no device path for device "/dev/xvdba" volume "vol-1" found`)),
	},
	{
		name: "never-staged", check: "mount-refused",
		story:   "NodeStageVolume does not answer: the kubelet reports each call after two minutes.",
		provoke: hangs,
	},
	{
		name: "unpublish-fails", check: "inuse-stuck-unmount-failed", announced: true,
		story: "NodeUnpublishVolume fails on a Ready node: a pod that was deleted has ended and stays Terminating.",
		provoke: func(ctx context.Context, s *stage) {
			s.nodes(ctx, "a")
			v := s.running(ctx, "web-0")
			s.do(func() error { s.kubelets["a"].FailUnmount(v.PersistentVolume); return nil })
			s.do(func() error { return fixture.DeletePod(ctx, s.client, s.name, "web-0") })
			s.evicted(ctx, "web-0")
		},
	},
	{
		name: "unstage-fails", check: "inuse-stuck-unmount-failed", announced: true,
		story: "NodeUnstageVolume fails on a Ready node, and the pod moves to another one.",
		provoke: func(ctx context.Context, s *stage) {
			s.nodes(ctx, "a", "b")
			v := s.running(ctx, "web-0")
			s.do(func() error { s.kubelets["a"].FailUnstage(v.PersistentVolume); return nil })
			s.deletePod(ctx, "web-0")
			s.pod(ctx, "web-1", "b")
			s.waits(ctx, "web-1")
		},
	},
}

// firstReport is when the kubelet first reports a change of ownership that is still going on.
const firstReport = 30 * time.Second

// hangs is the story of a driver that never answers: the call ends after two
// minutes, and the kubelet makes the next.
func hangs(ctx context.Context, s *stage) {
	s.nodes(ctx, "a")
	v := s.volume(ctx, "data", nil)
	fault := kubelet.MountFailed(stageFails, v.PersistentVolume, "rpc error: code = DeadlineExceeded desc = context deadline exceeded")
	fault.Takes = reconcile.CSITimeout
	s.failMount("a", v.PersistentVolume, fault)
	s.pod(ctx, "web-0", "a")
	s.waits(ctx, "web-0")
}
