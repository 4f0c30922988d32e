package diagnose

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var stsTerminatingOnDeadNode = Check{
	Code:     "VD403",
	Name:     "sts-terminating-on-dead-node",
	Title:    "A StatefulSet's pod is Terminating on a node that is silent, and gets no replacement",
	Severity: Error,
	Needs: []snapshot.Kind{
		snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSIDrivers,
	},
	Run: runSTSTerminatingOnDeadNode,
}

// rebootTakes is how long after the end of its grace a pod may stay on a silent
// node: a machine that restarts is back by then, and its kubelet ends the pod.
const rebootTakes = 5 * time.Minute

func runSTSTerminatingOnDeadNode(p *Pass) {
	waiting := p.waiting()
	for _, pod := range p.Snapshot.Pods {
		if pod.DeletionTimestamp == nil || reconcile.PodTerminated(pod) {
			continue
		}
		owner := metav1.GetControllerOf(pod)
		if owner == nil || owner.Kind != "StatefulSet" {
			continue
		}
		// The timestamp is the end of the grace period.
		if p.Age(*pod.DeletionTimestamp) < rebootTakes || !p.silent(pod.Spec.NodeName) {
			continue
		}
		held := p.heldFor(pod)
		for _, va := range held {
			if p.recreated(va) || p.oneNode(va.Volume) && len(elsewhere(waiting[va.Volume], va.Node)) > 0 {
				held = nil // va-recreated-on-dead-node, or node-lost-6min, says more
				break
			}
		}
		if len(held) > 0 {
			p.terminatingOnDeadNode(pod, owner.Name, held)
		}
	}
}

// silent says that nothing has been heard of the node's kubelet. One that says
// itself that it is not Ready lives. With the out-of-service taint the pod goes
// by itself, and from a node without a Node object too.
func (p *Pass) silent(name string) bool {
	node := p.Snapshot.Node(types.NodeName(name))
	if node == nil || reconcile.OutOfService(node) {
		return false
	}
	c := readyCondition(node)
	return c != nil && c.Status == corev1.ConditionUnknown && p.Age(c.LastTransitionTime) >= rebootTakes
}

// heldFor are the attachments on the pod's node of the volumes that it uses.
func (p *Pass) heldFor(pod *corev1.Pod) []attachment {
	var held []attachment
	for i := range pod.Spec.Volumes {
		volume, _, err := p.World.PodVolume(pod, &pod.Spec.Volumes[i])
		if err != nil {
			continue
		}
		pair := reconcile.VolumeNode{Volume: volume, Node: nodeNameOf(pod)}
		for _, va := range p.World.Attachments(pair) {
			if holds(va) {
				held = append(held, attachment{VolumeAttachment: va, VolumeNode: pair})
			}
		}
	}
	return held
}

func (p *Pass) terminatingOnDeadNode(pod *corev1.Pod, statefulSet string, held []attachment) {
	va := held[0]
	node := p.Snapshot.Node(va.Node)
	f := Finding{
		Subject:          podObject(pod),
		Volume:           va.Volume,
		Node:             va.Node,
		PersistentVolume: p.shortVolume(va.Volume),
		VolumeAttachment: va.Name,
		Pods:             podNames([]*corev1.Pod{pod}),
		Since:            pod.DeletionTimestamp,
		Message: fmt.Sprintf("Pod %s of StatefulSet %s has been Terminating for %s on node %s, which is silent: it keeps volume %s, and the StatefulSet "+
			"makes no other pod of its name", podName(pod), statefulSet, rounded(p.Age(*pod.DeletionTimestamp)), node.Name, p.shortVolume(va.Volume)),
		Cause: "the node was lost, and its kubelet is the only one that may say that the containers have ended",
		Evidence: append([]Evidence{
			{"pod/" + podName(pod), "metadata.deletionTimestamp", stamp(*pod.DeletionTimestamp)},
			{"pod/" + podName(pod), "status.containerStatuses", "a container counts as running"},
			{"node/" + node.Name, "status.conditions[Ready]", readyText(node)},
		}, p.renewedLease(va.Node)...),
		SelfHeals: SelfHeals{Because: "the pod stays until the kubelet returns, the Node is deleted or the pod object is removed, and only then does the controller " +
			"begin to count its 6 min"},
		Advice: fmt.Sprintf("power the machine behind %s off, or see it off at the provider; then tell the cluster so: "+
			"kubectl taint nodes %s node.kubernetes.io/out-of-service=nodeshutdown:NoExecute. A node that is silent may still write: "+
			"do not force-delete the pod before that, or two pods of one name may run", node.Name, node.Name),
	}
	for _, va := range held {
		f.Evidence = append(f.Evidence, Evidence{va.object(), "status.attached", fmt.Sprintf("true for volume %s, not being deleted", p.shortVolume(va.Volume))})
	}
	if len(pod.Finalizers) > 0 {
		f.Evidence = append(f.Evidence, Evidence{"pod/" + podName(pod), "metadata.finalizers", fmt.Sprint(pod.Finalizers)})
	}
	p.Report(f)
}
