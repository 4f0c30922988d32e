package cluster

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// first are the sources that are read side by side, before the pods.
func (r *reading) first() []source {
	c, o := r.Cluster, &r.objects
	core, storage := c.lists.core, c.lists.storage
	return []source{
		from(c, snapshot.VolumeAttachments, storage, &o.VolumeAttachments, choice[*storagev1.VolumeAttachment]{}),
		from(c, snapshot.Nodes, core, &o.Nodes, read[*corev1.Node](c, snapshot.Nodes)),
		from(c, snapshot.CSINodes, storage, &o.CSINodes, choice[*storagev1.CSINode]{}),
		from(c, snapshot.CSIDrivers, storage, &o.CSIDrivers, choice[*storagev1.CSIDriver]{}),
		from(c, snapshot.Volumes, core, &o.Volumes, read[*corev1.PersistentVolume](c, snapshot.Volumes)),
		from(c, snapshot.Claims, core, &o.Claims, read[*corev1.PersistentVolumeClaim](c, snapshot.Claims)).orIn(c.options.Namespace),
		// The one lease that keeps checks from crying wolf is in kube-system.
		from(c, snapshot.Leases, c.lists.coordination, &o.Leases, choice[*coordinationv1.Lease]{keep: keepLease}).orIn(metav1.NamespaceSystem),
		from(c, snapshot.Events, core, &o.Events, choice[*corev1.Event]{fields: notFrequent(), keep: keepEvent}).orIn(c.options.Namespace),
	}
}

// read is the choice of what is read of each object, unless all is to be kept.
func read[P any](c *Cluster, kind snapshot.Kind) choice[P] {
	if c.options.All {
		return choice[P]{}
	}
	return choice[P]{part: func(P) *part { return readOf[kind] }}
}

// pods are read once the others are: which of them are of use hangs on those.
func (r *reading) pods() []source {
	c, o := r.Cluster, &r.objects
	ofUse := diagnose.PodsOfUse(o)
	asked := func(pod *corev1.Pod) bool { return c.options.Asked != nil && c.options.Asked(pod) }
	var pods peeker
	chosen := choice[*corev1.Pod]{}
	if !c.options.All {
		chosen = choice[*corev1.Pod]{
			peek: pods.peek,
			keep: func(pod *corev1.Pod) bool { return ofUse(pod) || asked(pod) },
			part: func(pod *corev1.Pod) *part {
				if pod == nil || asked(pod) {
					return trimmed[snapshot.Pods]
				}
				return readOf[snapshot.Pods]
			},
		}
	}
	return []source{from(c, snapshot.Pods, c.lists.core, &o.Pods, chosen).orIn(c.options.Namespace)}
}

// rest are the sources that most readings do without: whether they matter hangs
// on the claims and on the pods. Where those could not all be read, it is not
// known.
func (r *reading) rest() []source {
	c, o := r.Cluster, &r.objects
	var sources []source
	if c.options.All || len(r.gaps) > 0 || diagnose.AsksForStorageClasses(o) {
		sources = append(sources, from(c, snapshot.StorageClasses, c.lists.storage, &o.StorageClasses, choice[*storagev1.StorageClass]{}))
	}
	if c.options.All || len(r.gaps) > 0 || diagnose.AsksForDeployments(o) {
		sources = append(sources, from(c, snapshot.Deployments, c.lists.apps, &o.Deployments, choice[*appsv1.Deployment]{}).
			orIn(c.options.Namespace).onlyIfReadable())
	}
	return sources
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
