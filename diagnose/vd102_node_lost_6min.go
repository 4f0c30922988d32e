package diagnose

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var nodeLost6Min = Check{
	Code:     "VD102",
	Name:     "node-lost-6min",
	Title:    "A pod waits for a volume that is still attached to a node that is lost",
	Severity: Error,
	Needs: []snapshot.Kind{
		snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSIDrivers, snapshot.Leases,
	},
	Run: runNodeLost6Min,
}

const (
	// detachTakes is what is granted on top of the controller's own time-out:
	// one detach, for which it waits up to 2 min.
	detachTakes = 2 * time.Minute
	// evictionSettles is how long a pod on a lost node may stay Terminating
	// before it counts as stuck: as long as a forced detach takes altogether.
	evictionSettles = reconcile.DefaultMaxWaitForUnmount + detachTakes
)

func runNodeLost6Min(p *Pass) {
	for _, w := range p.lostWaits() {
		p.Report(p.lostNode(w))
	}
}

func (p *Pass) lostNode(w lostWait) Finding {
	if len(w.holders) > 0 {
		return p.heldByLostPod(w.attachment, w.waiters, w.holders)
	}
	return p.heldByLostNode(w.attachment, w.waiters, w.wait)
}

// heldByLostNode is the count-down: nothing wants the volume there any more,
// and the controller waits for an unmount that will not come. When it began to
// wait it keeps to itself; the objects prove no earlier moment than these.
func (p *Pass) heldByLostNode(va attachment, waiters []*corev1.Pod, wait time.Duration) Finding {
	notBefore, _ := p.detachWanted(va.VolumeNode)
	began := latest(boundAt(waiters[0]), notBefore)
	f := p.lostNodeFinding(va, waiters, began)
	due := latest(metav1.NewTime(began.Add(wait)), notReadySince(p.Snapshot.Node(va.Node)))
	left := -p.Age(due)
	switch {
	case wait == 0:
		f.SelfHeals.Because = "the controller is told not to detach by force after a time-out (--disable-force-detach-on-timeout)"
		f.Message += "; the controller never detaches it by force"
	case left > 0:
		f.Severity = Info
		f.SelfHeals = SelfHeals{Will: true, After: rounded(left), Because: fmt.Sprintf(
			"the controller detaches by force %s after the last pod on the node is gone, unless the node returns", rounded(wait))}
		f.Message += "; the controller detaches it by force in about " + rounded(left)
	case -left < detachTakes:
		f.Severity = Info
		f.SelfHeals = SelfHeals{Will: true, After: rounded(detachTakes + left), Because: "the forced detach is due and may take up to 2 min"}
		f.Message += "; the controller detaches it by force about now"
	default:
		f.SelfHeals.Because = "the forced detach is overdue: the controller does not run or has --disable-force-detach-on-timeout set, " +
			"or the old pod left the node much later than the new one came"
		f.Message += "; the forced detach is overdue by " + rounded(-left)
	}
	return f
}

// heldByLostPod is the case without a count-down: the kubelet that would say
// that the containers have ended is gone, so the pod goes on wanting the volume.
func (p *Pass) heldByLostPod(va attachment, waiters, holders []*corev1.Pod) Finding {
	deleted := p.lastDeletion(va.VolumeNode)
	f := p.lostNodeFinding(va, waiters, latest(boundAt(waiters[0]), deleted))
	holder := holders[0]
	f.Message += fmt.Sprintf("; pod %s is Terminating there and keeps it", podName(holder))
	f.Evidence = append(f.Evidence, Evidence{"pod/" + podName(holder), "metadata.deletionTimestamp", stamp(*holder.DeletionTimestamp)})
	f.SelfHeals.Because = "the Terminating pod counts as a user of the volume until its kubelet reports that it has ended, or the pod object is removed"
	if p.Age(*f.Since) < evictionSettles {
		f.Severity = Info
	}
	return f
}

func (p *Pass) lostNodeFinding(va attachment, waiters []*corev1.Pod, since metav1.Time) Finding {
	pod, pv := waiters[0], p.shortVolume(va.Volume)
	lost, evidence := "gone", Evidence{"node/" + string(va.Node), "metadata.name", "there is no such node"}
	if node := p.Snapshot.Node(va.Node); node != nil {
		lost, evidence = "not Ready", Evidence{"node/" + node.Name, "status.conditions[Ready]", readyText(node)}
	}
	return Finding{
		Subject:          podObject(pod),
		Volume:           va.Volume,
		Node:             va.Node,
		PersistentVolume: pv,
		VolumeAttachment: va.Name,
		Pods:             podNames(waiters),
		Since:            &since,
		Message: fmt.Sprintf("Pod %s waits on node %s for volume %s, still attached to node %s, which is %s",
			podName(pod), pod.Spec.NodeName, pv, va.Node, lost),
		Cause:    "the node was lost before its kubelet could unmount the volume",
		Evidence: []Evidence{evidence, {va.object(), "status.attached", "true, not being deleted"}},
		Advice: fmt.Sprintf("wait; or, once the machine behind %s is known to be off, tell the cluster so: "+
			"kubectl taint nodes %s node.kubernetes.io/out-of-service=nodeshutdown:NoExecute. A node that is not Ready may still write: "+
			"do not delete the VolumeAttachment or force-delete the pod before that", va.Node, va.Node),
	}
}

// lastDeletion is when the last of the pods that use the volume there, or that
// have ended there, was told to go; zero where none is left to say so.
func (p *Pass) lastDeletion(pair reconcile.VolumeNode) metav1.Time {
	var last metav1.Time
	for _, pod := range p.Snapshot.PodsOnNode(pair.Node) {
		if pod.DeletionTimestamp != nil && p.mounts(pod, pair.Volume) {
			last = latest(last, *pod.DeletionTimestamp)
		}
	}
	return last
}

func (p *Pass) mounts(pod *corev1.Pod, volume corev1.UniqueVolumeName) bool {
	for i := range pod.Spec.Volumes {
		if name, _, err := p.World.PodVolume(pod, &pod.Spec.Volumes[i]); err == nil && name == volume {
			return true
		}
	}
	return false
}

func allDeleting(pods []*corev1.Pod) bool {
	return !slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return pod.DeletionTimestamp == nil })
}
