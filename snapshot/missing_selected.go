package snapshot

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// ofOneNode returns a reason if all pods are of one node while another node has volumes in use.
// Nearly every node has pods, at least those of DaemonSets.
func (o *Objects) ofOneNode() string {
	on := sets.New[string]()
	for _, pod := range o.Pods {
		on.Insert(pod.Spec.NodeName)
	}
	if on.Delete(""); len(on) != 1 {
		return ""
	}
	for _, node := range o.Nodes {
		if len(node.Status.VolumesInUse) > 0 && !on.Has(node.Name) {
			return fmt.Sprintf("all pods are of node %s, and node %s has volumes in its volumesInUse", plain(sets.List(on)[0]), plain(node.Name))
		}
	}
	return ""
}

// usedWithoutPods returns a reason if two nodes each have a volume in use whose claim no pod names. A
// kubelet that is Ready and has the volume's driver unmounts it once its pod is gone: one may fail, and hardly two at once.
func (o *Objects) usedWithoutPods() string {
	if len(o.Pods) == 0 {
		return ""
	}
	named := sets.New[string]()
	for _, pod := range o.Pods {
		for _, v := range pod.Spec.Volumes {
			switch {
			case v.PersistentVolumeClaim != nil:
				named.Insert(pod.Namespace + "/" + v.PersistentVolumeClaim.ClaimName)
			case v.Ephemeral != nil:
				named.Insert(pod.Namespace + "/" + pod.Name + "-" + v.Name)
			}
		}
	}
	unnamed := map[string]string{} // the claims that no pod names, by the unique names of their volumes
	for _, pv := range o.Volumes {
		if ref, csi := pv.Spec.ClaimRef, pv.Spec.CSI; ref != nil && csi != nil && pv.Status.Phase == corev1.VolumeBound && !named.Has(ref.Namespace+"/"+ref.Name) {
			unnamed[uniqueName(csi.Driver, csi.VolumeHandle)] = ref.Namespace + "/" + ref.Name
		}
	}
	first := ""
	for _, node := range o.Nodes {
		i := slices.IndexFunc(node.Status.VolumesInUse, func(v corev1.UniqueVolumeName) bool {
			return unnamed[string(v)] != "" && o.hasDriver(node.Name, string(v))
		})
		if i < 0 || !ready(node) {
			continue
		}
		uses := fmt.Sprintf("node %s has in its volumesInUse that of claim %s", plain(node.Name), plain(unnamed[string(node.Status.VolumesInUse[i])]))
		if first != "" {
			return first + ", and " + uses + ", and no pod names these claims"
		}
		first = uses
	}
	return ""
}

// usedByMissing returns a reason if the controller has said lately that a pod uses a volume, that pod is
// not there, and a node still has the volume in use. A pod that had run leaves an event when it ends.
func (o *Objects) usedByMissing(now time.Time) string {
	there := sets.New[string]()
	for _, pod := range o.Pods {
		there.Insert(pod.Namespace + "/" + pod.Name)
	}
	for _, e := range o.Events {
		_, users, says := strings.Cut(e.Message, "Volume is already used by pod(s) ")
		if !says || len(o.Pods) == 0 || now.Sub(EventTime(e).Time) > eventsLast {
			continue
		}
		users, _, _ = strings.Cut(users, " and ") // pods in other namespaces, which are only counted
		for name := range strings.SplitSeq(users, ", ") {
			namespace := e.InvolvedObject.Namespace
			if !there.Has(namespace+"/"+name) && !o.mayHaveEnded(namespace, name) && o.stillUses(namespace, e.Message) {
				return fmt.Sprintf("an event says that pod %s of namespace %s uses a volume, which a node has in its volumesInUse, and none that the pod has ended", plain(name), plain(namespace))
			}
		}
	}
	return ""
}

// mayHaveEnded reports whether an event tells of the pod's end, or that it may never have run.
func (o *Objects) mayHaveEnded(namespace, name string) bool {
	placed, ran := false, false
	for _, e := range o.Events {
		switch of := e.InvolvedObject; {
		case of.Kind != "Pod" || of.Namespace != namespace || of.Name != name:
		case slices.Contains([]string{"Killing", "TaintManagerEviction", "Preempted", "Evicted"}, e.Reason):
			return true
		default:
			placed, ran = placed || e.Reason == "Scheduled", ran || e.Reason == "Started"
		}
	}
	return placed && !ran
}

// stillUses reports whether a Ready node has a volume in use that the message names, of a claim of the
// namespace.
func (o *Objects) stillUses(namespace, message string) bool {
	for _, pv := range o.Volumes {
		ref, csi := pv.Spec.ClaimRef, pv.Spec.CSI
		if csi != nil && ref != nil && ref.Namespace == namespace && strings.Contains(message, `"`+pv.Name+`"`) {
			return slices.ContainsFunc(o.Nodes, func(node *corev1.Node) bool {
				return ready(node) && slices.Contains(node.Status.VolumesInUse, corev1.UniqueVolumeName(uniqueName(csi.Driver, csi.VolumeHandle)))
			})
		}
	}
	return false
}

// hasDriver reports whether the node's kubelet has the driver of the volume with the unique name.
func (o *Objects) hasDriver(node, volume string) bool {
	return slices.ContainsFunc(o.CSINodes, func(n *storagev1.CSINode) bool {
		return n.Name == node && slices.ContainsFunc(n.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return strings.HasPrefix(volume, uniqueName(d.Name, "")) })
	})
}

// nodeWithoutPods returns a reason if a Ready node has a volume in use and no pod at all, not even that
// of a DaemonSet, while each of several other Ready nodes has one.
func (o *Objects) nodeWithoutPods() string {
	on := map[string]bool{}
	for _, pod := range o.Pods {
		on[pod.Spec.NodeName] = true
	}
	without, others := "", 0
	for _, node := range o.Nodes {
		switch {
		case !ready(node):
		case on[node.Name]:
			others++
		case without == "" && len(node.Status.VolumesInUse) > 0 && o.hasDriver(node.Name, string(node.Status.VolumesInUse[0])):
			without = plain(node.Name)
		default:
			return ""
		}
	}
	if without == "" || others < 2 {
		return ""
	}
	return fmt.Sprintf("node %s is Ready and has volumes in its volumesInUse, and no pod of it is there, not even that of a DaemonSet", without)
}

// waitTold is how old the last event of a pod that waits is at most, as long as the pod is there: a
// kubelet that cannot mount a volume repeats it within 2m2s, and the scheduler looks at a pod again
// after 5 minutes at the latest.
const waitTold = 6 * time.Minute

// onlyRunning returns a reason if all pods run and one is missing: a Deployment counts more pods, or an
// event has just reported that a pod waits which is not there. That pod may have been deleted since; more
// often somebody asked only for the pods that run.
func (c *collector) onlyRunning(now time.Time) string {
	o := &c.objects
	if len(o.Pods) == 0 || slices.ContainsFunc(o.Pods, func(pod *corev1.Pod) bool { return pod.Status.Phase != corev1.PodRunning }) {
		return ""
	}
	of := maps.Clone(c.left.replicas)
	for _, pod := range o.Pods {
		of.add(pod)
	}
	for _, d := range o.Deployments {
		if key := (types.NamespacedName{Namespace: d.Namespace, Name: d.Name}); d.Status.Replicas > of[key] {
			return fmt.Sprintf("all pods run, and deployment %s has %d, of which %d are there", plain(key.String()), d.Status.Replicas, of[key])
		}
	}
	there := sets.New[identity]()
	for key := range c.all(Pods) {
		there.Insert(key)
	}
	for _, e := range o.Events {
		key := identity{Pods, e.InvolvedObject.Namespace, e.InvolvedObject.Name}
		if e.InvolvedObject.Kind == "Pod" && slices.Contains([]string{"FailedMount", "FailedMapVolume", "FailedAttachVolume", "FailedScheduling"}, e.Reason) &&
			!there.Has(key) && now.Sub(EventTime(e).Time) < waitTold {
			return fmt.Sprintf("all pods run, and an event (%s) is about pod %s, which is not there", plain(e.Reason), key)
		}
	}
	return ""
}

// replicas counts the pods of each Deployment.
type replicas map[types.NamespacedName]int32

// add counts the pod. A tool may have taken off its labels; what comes before the last hyphen of its
// ReplicaSet's name is then the Deployment's.
func (r replicas) add(pod *corev1.Pod) {
	name := DeploymentOf(pod)
	if owner := metav1.GetControllerOfNoCopy(pod); name == "" && owner != nil && owner.Kind == "ReplicaSet" {
		name = owner.Name[:max(0, strings.LastIndex(owner.Name, "-"))]
	}
	if name != "" {
		r[types.NamespacedName{Namespace: pod.Namespace, Name: name}]++
	}
}
