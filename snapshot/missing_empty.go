package snapshot

import (
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// notEmpty returns the gap of a list without objects, or of a list of leases without those of nodes,
// if another object shows that it is not complete; nil if none does.
func (c *collector) notEmpty(kind Kind, now time.Time) *Gap {
	if why := c.objects.emptyAgainst(kind, c.counts[kind]); why != "" {
		gap := notAll(kind, nil, why)
		return &gap
	}
	why := ""
	if c.counts[kind] == 0 || kind == Leases {
		why = c.objects.doubt(kind, now)
	}
	if why == "" {
		return nil
	}
	if kind != Leases {
		why = "there is none, and " + why
	}
	gap := notAll(kind, nil, why)
	if c.objects.against(kind, c.counts[kind]) == "" { // else the word would not be taken
		gap.Detail += " (if the cluster has none: --whole " + string(kind) + ")"
	}
	return &gap
}

// emptyAgainst returns the same for an empty list, if no failure of a cluster can explain that it
// is empty. This needs no word of the user. Leases count as empty if none of them is of a node,
// because the nodes' leases have a namespace of their own.
func (o *Objects) emptyAgainst(kind Kind, count int) string {
	if kind != Leases && count > 0 {
		return ""
	}
	switch kind {
	case Nodes:
		for _, pod := range o.Pods {
			if pod.Spec.NodeName != "" && pod.Status.Phase == corev1.PodRunning {
				return fmt.Sprintf("there is none, and pod %s of namespace %s runs on node %s", plain(pod.Name), plain(pod.Namespace), plain(pod.Spec.NodeName))
			}
		}
		for _, va := range o.VolumeAttachments {
			return fmt.Sprintf("there is none, and volumeattachment %s is for node %s", plain(va.Name), plain(va.Spec.NodeName))
		}
	case Pods:
		for _, node := range o.Nodes {
			if len(node.Status.VolumesInUse) > 0 {
				return fmt.Sprintf("there is none, and node %s has %s in its volumesInUse", plain(node.Name), plain(string(node.Status.VolumesInUse[0])))
			}
		}
	case Claims:
		for _, pod := range o.Pods {
			for _, v := range pod.Spec.Volumes {
				if v.PersistentVolumeClaim != nil && pod.Status.Phase == corev1.PodRunning {
					return fmt.Sprintf("there is none, and pod %s of namespace %s runs with claim %s", plain(pod.Name), plain(pod.Namespace), plain(v.PersistentVolumeClaim.ClaimName))
				}
			}
		}
	case Leases:
		if slices.ContainsFunc(o.Leases, func(l *coordinationv1.Lease) bool { return l.Namespace == corev1.NamespaceNodeLease }) {
			return ""
		}
		for _, node := range o.Nodes {
			if everReported(node) {
				return fmt.Sprintf("none is of a node, and each node has one, as node %s does", plain(node.Name))
			}
		}
	default: // there may be none
	}
	return ""
}

func ready(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// everReported reports whether the node's kubelet has ever written its status: it made the node's lease
// and CSINode then, which stay as long as the node does, and pods that it ran stay Terminating while it is lost.
func everReported(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Reason != "NodeStatusNeverUpdated"
	})
}

// doubt returns an object that makes an empty list unlikely, although a failure of the cluster
// might explain it; "" if there is none. An API server shows an empty list also to somebody who
// asked about one namespace, or for a label that nothing has. The user may say that the list is
// complete nevertheless.
func (o *Objects) doubt(kind Kind, now time.Time) string {
	switch kind {
	case Nodes:
		for _, pod := range o.Pods {
			if pod.Spec.NodeName != "" && !ended(pod) {
				return fmt.Sprintf("pod %s of namespace %s is on node %s", plain(pod.Name), plain(pod.Namespace), plain(pod.Spec.NodeName))
			}
		}
		for _, n := range o.CSINodes {
			return fmt.Sprintf("csinode %s is there", plain(n.Name))
		}
	case Pods:
		return o.reportedNode("a node has some")
	case CSINodes:
		return o.reportedNode("each kubelet makes one")
	case VolumeAttachments:
		return o.attached()
	case CSIDrivers:
		return o.driver()
	case StorageClasses:
		return o.classAskedFor()
	case Volumes:
		return o.volumeNamed()
	case Claims:
		if pod, claim := o.claimNamed(nil); pod != nil {
			return fmt.Sprintf("pod %s of namespace %s names claim %s", plain(pod.Name), plain(pod.Namespace), plain(claim))
		}
	case Events:
		return o.eventDue(now, nil)
	case Leases:
		return o.controllersLeases()
	default:
	}
	return ""
}

// controllersLeases returns a reason if nodes have leases and the controllers have none, although those of the
// control plane stand in a namespace of their own. A control plane of one server may run without them.
func (o *Objects) controllersLeases() string {
	if len(o.Leases) == 0 || slices.ContainsFunc(o.Leases, func(l *coordinationv1.Lease) bool { return l.Namespace != corev1.NamespaceNodeLease }) {
		return ""
	}
	return "all are of nodes, and none is of a controller in namespace " + metav1.NamespaceSystem
}

// ended reports whether the pod's containers have ended for good.
func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

func (o *Objects) reportedNode(why string) string {
	for _, node := range o.Nodes {
		if everReported(node) {
			return fmt.Sprintf("the kubelet of node %s has reported: %s", plain(node.Name), why)
		}
	}
	return ""
}

// attached returns a node that lists a CSI volume as attached, or a pod that runs with a volume of a
// driver that attaches. Somebody may have deleted the only VolumeAttachment.
func (o *Objects) attached() string {
	for _, node := range o.Nodes {
		for _, v := range node.Status.VolumesAttached {
			if o.hadAttachment(string(v.Name)) {
				return fmt.Sprintf("node %s has %s in its volumesAttached", plain(node.Name), plain(string(v.Name)))
			}
		}
	}
	attaches := sets.New[string]()
	for _, d := range o.CSIDrivers {
		if d.Spec.AttachRequired == nil || *d.Spec.AttachRequired {
			attaches.Insert(d.Name)
		}
	}
	return o.runsWith(func(pv *corev1.PersistentVolume) bool { return attaches.Has(pv.Spec.CSI.Driver) })
}

// hadAttachment reports whether the entry of a node's volumesAttached must have a
// VolumeAttachment: it is of a CSI volume, and no kubelet has said that the object is gone.
func (o *Objects) hadAttachment(entry string) bool {
	_, handle, ok := strings.Cut(entry, "^") // driver and handle; other plugins have no VolumeAttachments
	return ok && !slices.ContainsFunc(o.Events, func(e *corev1.Event) bool {
		return strings.Contains(e.Message, "volume "+handle+" has GET error for volume attachment") && strings.HasSuffix(e.Message, "not found")
	})
}

// runsWith returns a pod that runs with one of the CSI volumes.
func (o *Objects) runsWith(of func(*corev1.PersistentVolume) bool) string {
	claims := map[string]string{}
	for _, pv := range o.Volumes {
		if ref := pv.Spec.ClaimRef; ref != nil && pv.Status.Phase == corev1.VolumeBound && pv.Spec.CSI != nil && of(pv) {
			claims[ref.Namespace+"/"+ref.Name] = pv.Name
		}
	}
	for _, pod := range o.Pods {
		for _, v := range pod.Spec.Volumes {
			if c := v.PersistentVolumeClaim; c != nil && runs(pod) && claims[pod.Namespace+"/"+c.ClaimName] != "" {
				return fmt.Sprintf("pod %s of namespace %s runs with volume %s", plain(pod.Name), plain(pod.Namespace), plain(claims[pod.Namespace+"/"+c.ClaimName]))
			}
		}
	}
	return ""
}

// runs reports whether a container of the pod runs, as far as a pod that is being deleted says; any
// other is taken at its word.
func runs(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodRunning && (pod.DeletionTimestamp == nil ||
		slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.State.Running != nil }))
}

func (o *Objects) driver() string {
	for _, n := range o.CSINodes {
		for _, d := range n.Spec.Drivers {
			return fmt.Sprintf("node %s has driver %s: nearly every driver has one", plain(n.Name), plain(d.Name))
		}
	}
	for _, pv := range o.Volumes {
		if pv.Spec.CSI != nil {
			return fmt.Sprintf("volume %s is of driver %s: nearly every driver has one", plain(pv.Name), plain(pv.Spec.CSI.Driver))
		}
	}
	return ""
}

// classAskedFor returns a claim that waits for a volume of a class, unless an event says that the
// class does not exist.
func (o *Objects) classAskedFor() string {
	for _, claim := range o.Claims {
		class := claim.Spec.StorageClassName
		if class == nil || *class == "" || claim.Spec.VolumeName != "" || o.says(fmt.Sprintf("%q not found", *class)) {
			continue
		}
		return fmt.Sprintf("claim %s of namespace %s names class %s", plain(claim.Name), plain(claim.Namespace), plain(*class))
	}
	return ""
}

// volumeNamed returns a claim that is Bound, or an attachment. If the volume really were gone, the
// claim would be Lost.
func (o *Objects) volumeNamed() string {
	for _, claim := range o.Claims {
		if claim.Status.Phase == corev1.ClaimBound && claim.Spec.VolumeName != "" {
			return fmt.Sprintf("claim %s of namespace %s is Bound to volume %s", plain(claim.Name), plain(claim.Namespace), plain(claim.Spec.VolumeName))
		}
	}
	for _, va := range o.VolumeAttachments {
		if name := va.Spec.Source.PersistentVolumeName; name != nil {
			return fmt.Sprintf("volumeattachment %s is of volume %s", plain(va.Name), plain(*name))
		}
	}
	return ""
}

// claimNamed returns a pod outside the namespaces of read that names a claim, and the claim, unless the
// scheduler says that the claim does not exist; nil if there is none. A pod that runs has its claim.
func (o *Objects) claimNamed(read sets.Set[string]) (*corev1.Pod, string) {
	for _, pod := range o.Pods {
		for _, v := range pod.Spec.Volumes {
			if v.PersistentVolumeClaim == nil || ended(pod) || read.Has(pod.Namespace) {
				continue
			}
			missing := fmt.Sprintf("%q not found", v.PersistentVolumeClaim.ClaimName)
			if pod.Status.Phase != corev1.PodRunning && (o.says(missing) || slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return strings.Contains(c.Message, missing) })) {
				continue
			}
			return pod, v.PersistentVolumeClaim.ClaimName
		}
	}
	return nil, ""
}

// says reports whether an event has the words.
func (o *Objects) says(words string) bool {
	return slices.ContainsFunc(o.Events, func(e *corev1.Event) bool { return strings.Contains(e.Message, words) })
}

// eventsLast is how long events certainly last: API servers keep them for an hour by default, and
// half of that leaves room for those that keep them for less.
const eventsLast = 30 * time.Minute

// eventDue returns a pod outside the namespaces whose events were read, about which there must have
// been an event lately: the scheduler writes one when it places a pod or cannot place it, and so does
// the kubelet, again and again, for a pod that does not start.
func (o *Objects) eventDue(now time.Time, read sets.Set[string]) string {
	isReady := sets.New[string]()
	for _, node := range o.Nodes {
		if ready(node) {
			isReady.Insert(node.Name)
		}
	}
	for _, pod := range o.Pods {
		if read.Has(pod.Namespace) {
			continue
		}
		if created := pod.CreationTimestamp.Time; !created.IsZero() && now.Sub(created) < eventsLast {
			return fmt.Sprintf("pod %s of namespace %s was made at %s", plain(pod.Name), plain(pod.Namespace), created.UTC().Format(time.RFC3339))
		}
		if pod.Status.Phase == corev1.PodPending && pod.DeletionTimestamp == nil && isReady.Has(pod.Spec.NodeName) {
			return fmt.Sprintf("pod %s of namespace %s is Pending on node %s, which is Ready", plain(pod.Name), plain(pod.Namespace), plain(pod.Spec.NodeName))
		}
	}
	return ""
}
