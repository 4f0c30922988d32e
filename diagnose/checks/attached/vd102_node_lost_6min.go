package attached

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var NodeLost6Min = check.Check{
	Code:        "VD102",
	Name:        "node-lost-6min",
	Title:       "A pod waits for a volume that is still attached to a node that is lost",
	Severity:    finding.Error,
	Needs:       check.AttachmentKinds(snapshot.Leases),
	OfNamespace: true,
	OfDriver:    true,
	Yields: []check.Yield{
		{To: "VD111", Key: check.OfAttachment},
		{To: "VD114", Key: check.OfAttachment},
		{To: "VD117", Key: check.OfAttachment},
		{To: "VD118", Key: check.OfDriverOnGoneNode},
	},
	Follows: []check.Relation{
		{From: []finding.Code{"VD622"}, Match: check.Always},
		{From: []finding.Code{"VD417"}, Share: check.OnNode, Match: leftByCollector},
	},
	Never: "delete the VolumeAttachment or force-delete the pod: data loss if the node still writes",
	Run:   runNodeLost6Min,
}

// leftByCollector reports whether a pod holds the volume that the node's out-of-service taint
// should have ended: VD417.
func leftByCollector(p *facts.View, _, effect finding.Finding) bool {
	node := p.Snapshot.Node(effect.Node)
	return node != nil && reconcile.OutOfService(node) && len(p.World.LivePods(effect.Pair())) > 0
}

func runNodeLost6Min(p *check.Run) {
	for _, w := range p.LostWaits() {
		p.Report(lostNode(p.View, w))
	}
}

func lostNode(p *facts.View, w facts.LostWait) finding.Finding {
	if len(w.Holders) > 0 {
		return withoutAttacher(p, w.Attachment, heldByLostPod(p, w.Attachment, w.Waiters, w.Holders))
	}
	return withoutAttacher(p, w.Attachment, heldByLostNode(p, w.Attachment, w.Waiters, w.Wait))
}

// withoutAttacher takes back that the wait ends by itself, where the driver's attacher does not
// run. A forced detach, too, only deletes the VolumeAttachment: the attacher has the driver
// detach the volume, and attach it elsewhere (CSIHandler.syncDetach, syncAttach).
func withoutAttacher(p *facts.View, va facts.Attachment, f finding.Finding) finding.Finding {
	lease := p.StaleAttacherLease(va.Spec.Attacher)
	if lease == nil {
		return f
	}
	if !f.SelfHeals.Will {
		facts.Also(&f, "the attacher of %s does not run, and nothing is detached without it", va.Spec.Attacher)
		first := fmt.Sprintf("{fix} bring the driver's controller pods in namespace %s back", lease.Namespace)
		if f.ByHand != "" {
			f.ByHand = finding.Clauses(first, f.ByHand)
		} else {
			f.Advice = finding.Clauses(first, f.Advice)
		}
		return f
	}
	f.Severity, f.Actor, f.ByHand, f.AdviceCommands = finding.Warning, facts.AttacherOf(va.Spec.Attacher), "", nil
	f.Detail = fmt.Sprintf("the attacher of %s, which last renewed its lease %s ago, does not run", va.Spec.Attacher, facts.Rounded(p.Age(facts.Renewed(lease))))
	f.SelfHeals = finding.SelfHeals{Unknown: true, Because: "nothing is detached or attached before the attacher runs again; the controller asks for the detach when it is due"}
	f.Advice = p.BringBack(lease) + "; the volume then follows by itself"
	f.Evidence = append(f.Evidence, facts.LeaseEvidence(lease))
	facts.Also(&f, "%s", p.StuckAttacherClause(lease))
	return f
}

// heldByLostNode is the count-down: no pod wants the volume there, and the controller waits for
// an unmount that will not come. The start of its wait is not visible; the objects prove no
// earlier moment than these.
func heldByLostNode(p *facts.View, va facts.Attachment, waiters []*corev1.Pod, wait time.Duration) finding.Finding {
	notBefore, _ := p.DetachWanted(va.VolumeNode)
	told, outstayed := p.Outstayed(va.Volume, waiters)
	unsure, other := "no object shows when the last pod there went", detachingElsewhere(p, va)
	if other != "" {
		unsure, outstayed = fmt.Sprintf("it counts only while no detach from node %s fails", other), true
	}
	unsure += fmt.Sprintf("; the controller detaches by force %s after the last pod on the node is gone", facts.Rounded(wait))
	began := facts.Latest(facts.BoundAt(waiters[0]), notBefore, told)
	f := lostNodeFinding(p, va, waiters, began)
	if f.Never == "" { // no pod is left there
		f.Never = "delete the VolumeAttachment: data loss if the node still writes"
	}
	due := facts.Latest(metav1.NewTime(began.Add(wait)), facts.NotReadySince(p.Snapshot.Node(va.Node)))
	left := -p.Age(due)
	switch {
	case wait == 0:
		f.SelfHeals.Because = "the controller is told not to detach by force; it has --disable-force-detach-on-timeout"
		facts.Also(&f, "the controller never detaches it by force")
	case left > 0 && outstayed:
		f.Severity = finding.Info
		f.SelfHeals = finding.SelfHeals{Will: true, Because: unsure + ", unless the node returns"}
		facts.Also(&f, "the controller detaches it by force, in %s at the earliest", facts.Rounded(left))
	case left > 0:
		f.Severity = finding.Info
		f.SelfHeals = finding.SelfHeals{Will: true, After: facts.Rounded(left + facts.DetachTakes), Because: fmt.Sprintf(
			"the forced detach is due in %s, %s after the last pod on the node is gone, unless the node returns", facts.Rounded(left), facts.Rounded(wait))}
	case -left < facts.DetachTakes && other == "":
		f.Severity = finding.Info
		f.SelfHeals = finding.SelfHeals{Will: true, After: facts.Rounded(facts.DetachTakes + left), Because: "the forced detach is due, and has ended by then"}
		facts.Also(&f, "the controller detaches it by force about now")
	case outstayed:
		f.SelfHeals = finding.SelfHeals{Unknown: true, Because: unsure + "; if that was long ago, " + neverForced(p)}
	default:
		f.SelfHeals.Because = fmt.Sprintf("the forced detach is overdue by %s; %s, or the old pod left the node much later than the new one came",
			facts.Rounded(-left), neverForced(p))
	}
	return f
}

// detachingElsewhere is another node from which a volume of one node is being detached; "" where
// there is none. The controller begins to count on no node while that detach is under way or pauses
// after a failure (reconciler.reconcile, IsOperationSafeToRetry).
func detachingElsewhere(p *facts.View, va facts.Attachment) types.NodeName {
	if !p.OneNode(va.Volume) {
		return ""
	}
	for _, other := range p.AttachmentsOf(va.Volume) {
		if other.Node != va.Node && facts.Deleting(other.VolumeAttachment) {
			return other.Node
		}
	}
	return ""
}

// neverForced is why a controller has not detached by force.
func neverForced(p *facts.View) string {
	if p.ControllerRuns() {
		return "the controller has --disable-force-detach-on-timeout set"
	}
	return "the controller does not run or has --disable-force-detach-on-timeout set"
}

// heldByLostPod is the case without a count-down: the kubelet that would report the end of the
// containers is gone, so the pod still counts as a user of the volume.
func heldByLostPod(p *facts.View, va facts.Attachment, waiters, holders []*corev1.Pod) finding.Finding {
	holder := holders[0]
	f := lostNodeFinding(p, va, waiters, facts.Latest(facts.BoundAt(waiters[0]), lastKept(p, va.VolumeNode)))
	facts.Also(&f, "pod %s is Terminating there and keeps it", facts.PodName(holder))
	f.Evidence = append(f.Evidence, finding.Evidence{Object: "pod/" + facts.PodName(holder), Field: "metadata.deletionTimestamp", Value: facts.Stamp(*holder.DeletionTimestamp)})
	f.SelfHeals = lostPodHeals(p, *f.Since, "the node may come back; its kubelet then ends the pod",
		fmt.Sprintf("only its kubelet may say that the pod has ended; until it does, or pod %s is removed, that pod counts as a user of the volume", facts.PodName(holder)))
	f.Severity = p.LostPodSeverity(*f.Since)
	if facts.WaitedInVain(waiters[0], holder) {
		f.Severity = p.ConflictSeverity(facts.BoundAt(waiters[0]))
	}
	node := p.Snapshot.Node(va.Node)
	if node == nil {
		collected(p, &f, holders)
		return f
	}
	if !reconcile.OutOfService(node) {
		return f
	}
	switch set := p.OutOfServiceSince(node); {
	case set.IsZero():
		f.SelfHeals = finding.SelfHeals{Unknown: true, Because: fmt.Sprintf("the node has the out-of-service taint; kube-controller-manager deletes the pod and detaches "+
			"the volume within %s of it, and no object shows when it was set", facts.Rounded(facts.TaintTakes))}
		f.Cause, f.ByHand, f.AdviceCommands = p.TaintInVain(holder)
		f.Cause = finding.Clauses("the node was lost before its kubelet could unmount the volume; if the taint was not set just now", f.Cause)
	case p.Lasted(set, facts.TaintTakes):
		f.SelfHeals = finding.SelfHeals{Because: fmt.Sprintf("the out-of-service taint should have ended it within a minute; the node has had the taint for %s", facts.Rounded(p.Age(set)))}
		f.Cause, f.ByHand, f.AdviceCommands = p.TaintInVain(holder)
	default:
		f.Severity = finding.Info // it ends by itself
		f.SelfHeals = finding.SelfHeals{Will: true, After: facts.Rounded(facts.TaintTakes - p.Age(set)), Because: "the node has the out-of-service taint: kube-controller-manager " +
			"deletes the pod, and detaches the volume without waiting for the kubelet"}
		f.ByHand, f.AdviceCommands = "{wait} for it; {check} where the pod stays, look at the log of kube-controller-manager", nil
	}
	return f
}

// collected completes the finding for a node that does not exist: the pod garbage collector
// removes its pods, and then the count-down begins.
func collected(p *facts.View, f *finding.Finding, holders []*corev1.Pod) {
	if i := slices.IndexFunc(holders, func(pod *corev1.Pod) bool { return len(pod.Finalizers) > 0 }); i >= 0 {
		f.SelfHeals = lostPodHeals(p, *f.Since, "whoever set the finalizers may take them off", fmt.Sprintf("finalizers keep pod %s; it counts as a user of the volume until it is removed: %s",
			facts.PodName(holders[i]), strings.Join(holders[i].Finalizers, ", ")))
		return
	}
	wait, ends := p.World.WaitsForUnmount(nil)
	if !ends {
		f.SelfHeals = finding.SelfHeals{Because: "the controller is told not to detach by force; it has --disable-force-detach-on-timeout"}
		return
	}
	left := facts.CollectorTakes - p.Age(facts.Latest(*f.Since, p.ControllerStart()))
	because := fmt.Sprintf("kube-controller-manager removes the pods of a node that does not exist within %s, and %s later detaches the volume by force", facts.Rounded(facts.CollectorTakes), facts.Rounded(wait))
	if left <= 0 || p.ControllerDown() != nil {
		f.SelfHeals = finding.SelfHeals{Unknown: true, Because: "no object shows since when the node is gone; " + because}
		return
	}
	f.Severity = finding.Info
	f.SelfHeals = finding.SelfHeals{Will: true, After: facts.Rounded(left + wait + facts.DetachTakes), Because: because}
	f.ByHand, f.AdviceCommands = "{wait} for it; {check} where the pod stays, look at the log of kube-controller-manager", nil
}

func lostNodeFinding(p *facts.View, va facts.Attachment, waiters []*corev1.Pod, since metav1.Time) finding.Finding {
	pod, node := waiters[0], p.Snapshot.Node(va.Node)
	lost, evidence := "gone", finding.Evidence{Object: "node/" + string(va.Node), Field: "metadata.name", Value: "there is no such node"}
	if node != nil {
		lost, evidence = "lost", finding.Evidence{Object: "node/" + node.Name, Field: "status.conditions[Ready]", Value: facts.ReadyText(node)}
	}
	f := p.About(va, finding.Finding{
		Subject:        facts.PodObject(pod),
		Pods:           facts.PodNames(waiters),
		Since:          &since,
		Message:        fmt.Sprintf("Pod %s waits on node %s: %s node %s has volume %s", facts.PodName(pod), pod.Spec.NodeName, lost, va.Node, p.ShortVolumeOf(va)),
		Cause:          finding.Clauses("the node was lost before its kubelet could unmount the volume", facts.ShutDownClause(node)),
		Evidence:       []finding.Evidence{evidence, {Object: va.Object(), Field: "status.attached", Value: "true, not being deleted"}},
		ByHand:         fmt.Sprintf("once the machine behind %s is known to be off, {taint-node}", va.Node),
		AdviceCommands: []string{facts.TaintOutOfService(string(va.Node))},
	})
	if node == nil { // without a Node nobody can taint it
		f.ByHand, f.AdviceCommands = fmt.Sprintf("{check} check at the provider that the machine behind %s is gone, then {final} delete the VolumeAttachment", va.Node), nil
		f.Never = "delete the VolumeAttachment before the machine is known to be off: data loss if it still writes"
	}
	return f
}

// lastKept is since when the last pod there that uses the volume, or has ended, keeps it for
// nothing; zero where no such pod is left.
func lastKept(p *facts.View, pair reconcile.VolumeNode) metav1.Time {
	var last metav1.Time
	for _, pod := range p.Snapshot.PodsOnNode(pair.Node) {
		if pod.DeletionTimestamp != nil && p.Mounts(pod, pair.Volume) {
			last = facts.Latest(last, p.LostPodSince(pod))
		}
	}
	return last
}

// lostPodHeals is whether the wait for such a pod ends by itself: for a short time something
// under way may still end it.
func lostPodHeals(p *facts.View, since metav1.Time, may, because string) finding.SelfHeals {
	if p.Lasted(since, facts.LostPodWarns) {
		return finding.SelfHeals{Because: because}
	}
	return finding.SelfHeals{Unknown: true, Because: finding.Clauses(may, because)}
}
