package cluster

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// sources are all kinds: those that are read side by side, and the pods.
func (r *reading) sources() (first, last []source) {
	c, o := r.Cluster, &r.objects
	core, storage := c.client.CoreV1(), c.client.StorageV1()
	first = []source{
		from(c, snapshot.VolumeAttachments, everywhere(storage.VolumeAttachments().List),
			func(l *storagev1.VolumeAttachmentList) []storagev1.VolumeAttachment { return l.Items },
			&o.VolumeAttachments, choice[*storagev1.VolumeAttachment]{}),
		from(c, snapshot.Nodes, everywhere(core.Nodes().List),
			func(l *corev1.NodeList) []corev1.Node { return l.Items }, &o.Nodes, choice[*corev1.Node]{}),
		from(c, snapshot.CSINodes, everywhere(storage.CSINodes().List),
			func(l *storagev1.CSINodeList) []storagev1.CSINode { return l.Items }, &o.CSINodes, choice[*storagev1.CSINode]{}),
		from(c, snapshot.CSIDrivers, everywhere(storage.CSIDrivers().List),
			func(l *storagev1.CSIDriverList) []storagev1.CSIDriver { return l.Items }, &o.CSIDrivers, choice[*storagev1.CSIDriver]{}),
		from(c, snapshot.StorageClasses, everywhere(storage.StorageClasses().List),
			func(l *storagev1.StorageClassList) []storagev1.StorageClass { return l.Items },
			&o.StorageClasses, choice[*storagev1.StorageClass]{}),
		from(c, snapshot.Volumes, everywhere(core.PersistentVolumes().List),
			func(l *corev1.PersistentVolumeList) []corev1.PersistentVolume { return l.Items },
			&o.Volumes, choice[*corev1.PersistentVolume]{}),
		from(c, snapshot.Claims, func(ns string) lister[*corev1.PersistentVolumeClaimList] { return core.PersistentVolumeClaims(ns).List },
			func(l *corev1.PersistentVolumeClaimList) []corev1.PersistentVolumeClaim { return l.Items },
			&o.Claims, choice[*corev1.PersistentVolumeClaim]{}).orIn(c.options.Namespace),
		from(c, snapshot.Leases, func(ns string) lister[*coordinationv1.LeaseList] { return c.client.CoordinationV1().Leases(ns).List },
			func(l *coordinationv1.LeaseList) []coordinationv1.Lease { return l.Items },
			// The one lease that keeps checks from crying wolf is there.
			&o.Leases, choice[*coordinationv1.Lease]{keep: keepLease}).orIn(metav1.NamespaceSystem),
		from(c, snapshot.Events, func(ns string) lister[*corev1.EventList] { return core.Events(ns).List },
			func(l *corev1.EventList) []corev1.Event { return l.Items },
			&o.Events, choice[*corev1.Event]{fields: notFrequent(), keep: keepEvent}).orIn(c.options.Namespace),
		from(c, snapshot.Deployments, func(ns string) lister[*appsv1.DeploymentList] { return c.client.AppsV1().Deployments(ns).List },
			func(l *appsv1.DeploymentList) []appsv1.Deployment { return l.Items },
			&o.Deployments, choice[*appsv1.Deployment]{}).orIn(c.options.Namespace).onlyIfReadable(),
	}
	last = []source{
		from(c, snapshot.Pods, func(ns string) lister[*corev1.PodList] { return core.Pods(ns).List },
			func(l *corev1.PodList) []corev1.Pod { return l.Items }, &o.Pods, choice[*corev1.Pod]{}).orIn(c.options.Namespace),
	}
	return first, last
}

// keepLease keeps those of the controllers that attach, and of the nodes.
func keepLease(l *coordinationv1.Lease) bool {
	return l.Namespace == corev1.NamespaceNodeLease ||
		l.Namespace == metav1.NamespaceSystem && l.Name == "kube-controller-manager" ||
		strings.HasPrefix(l.Name, "external-attacher-leader-")
}

// keptReasons are those of the events about volumes, and about why a pod or a
// claim does not come to its volume.
var keptReasons = []string{
	// attach/detach controller and kubelet
	"FailedAttachVolume", "SuccessfulAttachVolume", "FailedMount", "FailedMapVolume", "FailedUnMount", "FailedUnmapDevice",
	"SuccessfulMountVolume", "AlreadyMountedVolume", "VolumePermissionChangeInProgress", "VolumeConditionAbnormal",
	"VolumeAttachmentLimitExceeded", "VolumeResizeFailed", "FileSystemResizeFailed",
	// scheduler and node lifecycle
	"FailedScheduling", "NodeNotReady", "TaintManagerEviction", "Evicted", "RemovingNode", "DeletingNode",
	// what keeps a pod after its volumes, or its volumes after it
	"FailedCreatePodSandBox", "FailedCreatePodContainer", "NetworkNotReady", "FailedPrepareDynamicResources", "FailedKillPod",
	// volume binding and provisioning
	"FailedBinding", "WaitForFirstConsumer", "WaitForPodScheduled", "ExternalProvisioning", "ProvisioningFailed",
	"ClaimLost", "ClaimMisbound", "VolumeMismatch", "VolumeFailedDelete", "VolumeFailedRecycle", "VolumeDelete",
}

func keepEvent(e *corev1.Event) bool { return slices.Contains(keptReasons, e.Reason) }

// notFrequent leaves out, on the server, the events that make up most of them.
// A field selector can say "not this and not that" but not "this or that".
func notFrequent() string {
	var terms []string
	for _, reason := range []string{"Scheduled", "Pulling", "Pulled", "Created", "Started", "Killing", "BackOff", "Unhealthy", "SuccessfulCreate", "SuccessfulDelete"} {
		terms = append(terms, "reason!="+reason)
	}
	return strings.Join(terms, ",")
}
