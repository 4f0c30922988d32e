package blocked

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var PodDoesNotEnd = check.Check{
	Code:        "VD417",
	Name:        "pod-does-not-end",
	Title:       "A pod does not end: its containers run past its grace period, or its sandbox stays, and it keeps its volume",
	Severity:    finding.Warning,
	Needs:       check.AttachmentKinds(snapshot.Leases),
	OfNamespace: true,
	OfDriver:    true,
	Never:       "force-delete the pod: its container goes on writing to the volume, which the controller may then attach elsewhere",
	Run:         runPodDoesNotEnd,
}

// endOfGrace follows the deletionTimestamp of a pod, which is later than facts.EndAsked.
const endOfGrace = ", the end of its grace period"

func runPodDoesNotEnd(p *check.Run) {
	for _, pod := range p.Snapshot.Pods {
		if said := p.NotStopped(pod); said != nil {
			podNotStopped(p, pod, said)
			continue
		}
		if pod.DeletionTimestamp == nil || !p.Lasted(*pod.DeletionTimestamp, facts.KillTakes) {
			continue // the timestamp is the end of the grace period
		}
		node := p.Snapshot.Node(facts.NodeOf(pod))
		if node == nil {
			continue
		}
		running := facts.RunningContainers(pod)
		held := heldFor(p.View, pod)
		switch {
		case reconcile.PodTerminated(pod):
			if lostForLong(p.View, node) && staysAfterAll(p.View, pod, node, held) {
				leftOnLostNode(p, pod, node, held)
			}
		case len(running) == 0:
		case lostForLong(p.View, node):
			leftOnLostNode(p, pod, node, held)
		case reconcile.OutOfService(node):
		case reconcile.NodeReady(node) && p.LeaseStale(facts.NodeName(node)):
			// A silent kubelet kills nothing, and nobody has noticed yet.
		case p.Age(p.GraceEnds(pod)) < 0: // its containers may run until then
		case hadTime(p.View, node) && p.Lasted(p.GraceEnds(pod), facts.KillTakes):
			podDoesNotEnd(p, pod, running[0], held)
		}
	}
}

// hadTime reports whether the node's kubelet lives and has had the time to kill a container. A
// kubelet that comes back renews its lease some seconds before it reports the node's status.
func hadTime(p *facts.View, node *corev1.Node) bool {
	ready := facts.ReadyCondition(node)
	return (reconcile.NodeReady(node) || p.KubeletLives(node) && ready != nil && ready.Status == corev1.ConditionFalse) &&
		(ready.LastTransitionTime.IsZero() || p.Lasted(ready.LastTransitionTime, facts.KillTakes))
}

// staysAfterAll reports whether an ended pod of a lost node keeps a volume for which no timer
// runs. Either a forced detach is overdue, or the volume is not attached and no other node may
// use it.
func staysAfterAll(p *facts.View, pod *corev1.Pod, node *corev1.Node, held []facts.Attachment) bool {
	if facts.GivenUp(pod) {
		return false
	}
	if len(held) > 0 {
		wait, ends := p.World.WaitsForUnmount(node)
		return !ends || p.Lasted(p.LostPodSince(pod), wait+facts.DetachTakes)
	}
	pv := lastingVolume(p, pod)
	return pv != nil && onlyOn(p, pv, node)
}

// leftOnLostNode is about a pod that stays Terminating on a lost node and keeps a volume,
// attached or not.
func leftOnLostNode(p *check.Run, pod *corev1.Pod, node *corev1.Node, held []facts.Attachment) {
	f := finding.Finding{
		Subject: facts.PodObject(pod), Pods: []string{facts.PodName(pod)}, Since: new(facts.EndAsked(pod)), Node: facts.NodeName(node),
		Never: "force-delete the pod while the machine may run: its containers may go on writing to the volume",
		Evidence: append([]finding.Evidence{
			{Object: "pod/" + facts.PodName(pod), Field: "metadata.deletionTimestamp", Value: facts.Stamp(*pod.DeletionTimestamp) + endOfGrace},
			{Object: "node/" + node.Name, Field: "status.conditions[Ready]", Value: facts.ReadyText(node)},
		}, p.RenewedLease(facts.NodeName(node))...),
	}
	f, volume := keeps(p.View, f, pod, held)
	switch {
	case volume == "" || len(held) == 0 && sharedByMany(p.View, f.PersistentVolume) && !waitedFor(p.View, pod, held):
	case reconcile.OutOfService(node):
		outOfServiceInVain(p, f, pod, node, volume)
	case len(held) == 0 || !waitedFor(p.View, pod, held):
		leftOnSilentNode(p, f, pod, node, volume)
	}
}

// keeps completes a finding about a pod that does not end with the volume that it keeps, and
// returns the volume's name. An attachment that somebody waits for comes first, then any
// attachment, then a volume whose data outlives the pod. The name is "" where the pod has no such
// volume.
func keeps(p *facts.View, f finding.Finding, pod *corev1.Pod, held []facts.Attachment) (finding.Finding, string) {
	if len(held) > 0 {
		va := held[max(0, slices.IndexFunc(held, func(va facts.Attachment) bool { return len(p.KeptFrom(va.VolumeNode)) > 0 }))]
		f = p.About(va, f)
		f.Evidence = append(f.Evidence, finding.Evidence{Object: va.Object(), Field: "status.attached", Value: "true, not being deleted"})
		return f, f.PersistentVolume
	}
	if pv := lastingVolume(p, pod); pv != nil {
		f.PersistentVolume = pv.Name
		f.Volume, _ = p.World.VolumeName(pv)
		return f, pv.Name
	}
	return f, lastingInline(pod)
}

// lastingVolume is the first volume of the pod with a bound claim; nil where there is none.
func lastingVolume(p *facts.View, pod *corev1.Pod) *corev1.PersistentVolume {
	for i := range pod.Spec.Volumes {
		if pv := p.BoundVolume(pod, &pod.Spec.Volumes[i]); pv != nil {
			return pv
		}
	}
	return nil
}

// lastingInline is the first volume in the pod's own spec whose data outlives the pod; "" where
// there is none.
func lastingInline(pod *corev1.Pod) string {
	i := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return reconcile.CanBeAttached(&v) && v.PersistentVolumeClaim == nil && v.Ephemeral == nil && v.CSI == nil
	})
	if i < 0 {
		return ""
	}
	return pod.Spec.Volumes[i].Name
}

// sharedByMany reports whether several nodes may have the volume: a pod that stays keeps it from
// nobody.
func sharedByMany(p *facts.View, name string) bool {
	pv := p.Snapshot.Volume(name)
	return pv != nil && (&reconcile.VolumeSpec{PV: pv}).MultiAttach()
}

// outOfServiceInVain is about a pod that the out-of-service taint should have ended.
func outOfServiceInVain(p *check.Run, f finding.Finding, pod *corev1.Pod, node *corev1.Node, volume string) {
	set := p.OutOfServiceSince(node)
	if !set.IsZero() && !p.Lasted(set, facts.TaintTakes) {
		return
	}
	f.Message = fmt.Sprintf("Pod %s stays Terminating on out-of-service node %s and keeps volume %s", facts.PodName(pod), node.Name, volume)
	f.Detail = fmt.Sprintf("it has been Terminating for %s", facts.Rounded(p.Age(*f.Since)))
	f.Cause, f.Advice, f.AdviceCommands = p.TaintInVain(pod)
	keepDisksFirst(p.View, &f, pod)
	if set.IsZero() {
		f.SelfHeals = finding.SelfHeals{Unknown: true, Because: fmt.Sprintf("no object shows when the taint was set; the pod goes within %s of the taint", facts.Rounded(facts.TaintTakes))}
		p.Report(f.UntilAgain(p.Snapshot.TakenAt, facts.TaintTakes, "the taint was set just now"))
		return
	}
	f.Severity = finding.Error
	facts.Also(&f, "the taint was set %s ago", facts.Rounded(p.Age(set)))
	f.SelfHeals.Because = "the taint should have ended it within a minute"
	p.Report(f)
}

// waitedFor reports whether somebody waits for a volume of the pod, or for the pod's name:
// node-lost-6min or sts-terminating-on-dead-node.
func waitedFor(p *facts.View, pod *corev1.Pod, held []facts.Attachment) bool {
	return facts.ControlledBy(pod, "StatefulSet") ||
		slices.ContainsFunc(held, func(va facts.Attachment) bool { return p.RecreatedOnLost(va) || len(p.KeptFrom(va.VolumeNode)) > 0 })
}

// leftOnSilentNode is about a pod for whose attachment nobody waits yet.
func leftOnSilentNode(p *check.Run, f finding.Finding, pod *corev1.Pod, node *corev1.Node, volume string) {
	f.Message = fmt.Sprintf("Pod %s stays Terminating on silent node %s and keeps volume %s", facts.PodName(pod), node.Name, volume)
	f.Detail = fmt.Sprintf("it has been Terminating for %s", facts.Rounded(p.Age(*f.Since)))
	switch waiting := p.KeptFrom(f.Pair()); {
	case len(waiting) > 0: // its wait may end with a detach that is under way: f.Pods lacks it
		facts.Also(&f, "pod %s waits for it on node %s", facts.PodName(waiting[0]), waiting[0].Spec.NodeName)
	case !mayBeWaitedFor(p.View, f.PersistentVolume):
		facts.Also(&f, "no other pod waits for the volume")
	}
	f.Cause = "the node was lost, and its kubelet is the only one that may say that the containers have ended"
	f.SelfHeals.Because = "the pod ends once the kubelet returns; else the pod stays until the Node is deleted or the pod object is removed"
	f.Advice = fmt.Sprintf("{check} look at the conditions and events of silent node %s; {do} {fix} bring it back, and its kubelet ends the pod; or, where its machine is off for good, {taint-node %s}", node.Name, node.Name)
	if pv := p.Snapshot.Volume(f.PersistentVolume); pv != nil && onlyOn(p.View, pv, node) {
		f.Advice = fmt.Sprintf("{check} look at the conditions and events of silent node %s; {do} {fix} bring it back, and its kubelet ends the pod: no other node may use volume %s, so that its next pod can run nowhere else", node.Name, volume)
	}
	f.AdviceCommands = []string{safetext.Kubectl("describe", "node/"+node.Name)}
	keepDisksFirst(p.View, &f, pod)
	p.Report(f)
}

// mayBeWaitedFor reports whether a pod that has not started uses the volume's claim.
func mayBeWaitedFor(p *facts.View, name string) bool {
	pv := p.Snapshot.Volume(name)
	if pv == nil || pv.Spec.ClaimRef == nil {
		return false
	}
	claim := p.Snapshot.Claim(types.NamespacedName{Namespace: pv.Spec.ClaimRef.Namespace, Name: pv.Spec.ClaimRef.Name})
	return claim != nil && len(facts.Pending(p.ClaimUsers(claim))) > 0
}

// keepDisksFirst adds, before the advice that ends the pod, how to keep a disk that would go with
// it.
func keepDisksFirst(p *facts.View, f *finding.Finding, pod *corev1.Pod) {
	first, commands := p.KeepDisks(pod)
	f.Advice = first + f.Advice
	f.AdviceCommands = append(commands, f.AdviceCommands...)
}

// onlyOn reports whether the volume's node affinity leaves only this node.
func onlyOn(p *facts.View, pv *corev1.PersistentVolume, node *corev1.Node) bool {
	return facts.UnmetAffinity(pv, node) == "" && p.Snapshot.Complete(snapshot.Nodes) && !slices.ContainsFunc(p.Snapshot.Nodes, func(other *corev1.Node) bool {
		return other.Name != node.Name && facts.UnmetAffinity(pv, other) == ""
	})
}

func podDoesNotEnd(p *check.Run, pod *corev1.Pod, container string, held []facts.Attachment) {
	node := p.Snapshot.Node(facts.NodeOf(pod))
	ended, lives := p.GraceEnds(pod), "the node is Ready"
	cause := "a process in the container hangs in the kernel, often on its volume, or the container runtime does not answer"
	switch {
	case !reconcile.NodeReady(node):
		lives = "its kubelet lives and says that the node is not Ready"
		cause = "what keeps the node from being Ready keeps the container runtime from ending the container, or its kubelet from asking for it"
	case !ended.Equal(pod.DeletionTimestamp): // until then there was no kubelet to kill it
		lives = fmt.Sprintf("the node has been Ready again for %s, and its kubelet grants the whole grace period from then on",
			facts.Rounded(p.Age(facts.ReadyCondition(node).LastTransitionTime)))
	}
	f, volume := keeps(p.View, finding.Finding{
		Subject: facts.PodObject(pod), Pods: []string{facts.PodName(pod)}, Since: &ended, Node: facts.NodeName(node),
		Detail: fmt.Sprintf("it should have ended %s ago, and container %s still runs there; %s",
			facts.Rounded(p.Age(ended)), container, lives),
		Cause: cause,
		Evidence: []finding.Evidence{
			{Object: "pod/" + facts.PodName(pod), Field: "metadata.deletionTimestamp", Value: facts.Stamp(*pod.DeletionTimestamp) + endOfGrace},
			{Object: "pod/" + facts.PodName(pod), Field: "status", Value: "container " + container + " runs"},
		},
		SelfHeals: finding.SelfHeals{Because: "what keeps the container has to be fixed first; the kubelet goes on trying, and the volume stays on the node until the container has ended"},
		Advice: fmt.Sprintf("{check} read what the events of pod %s say of its end; {do} {note} on node %s find what keeps container %s: a process in state D (ps), "+
			"and the logs of the kubelet and the container runtime for the pod; if nothing ends it, {drain-node} and {reboot-node}", facts.PodName(pod), node.Name, container),
		AdviceCommands: []string{safetext.Kubectl("describe", "pod/"+pod.Name, "-n", pod.Namespace)},
	}, pod, held)
	if volume == "" {
		return // no data outlives the pod
	}
	if !reconcile.NodeReady(node) {
		f.Evidence = append(append(f.Evidence, finding.Evidence{Object: "node/" + node.Name, Field: "status.conditions[Ready]", Value: facts.ReadyText(node)}), p.RenewedLease(f.Node)...)
		f.Said = quoteReady(node)
		if f.Said != nil {
			f.Evidence = append(f.Evidence, finding.Evidence{Object: "node/" + node.Name, Field: "status.conditions[Ready].message", Value: f.Said.Text})
		}
		f.Advice = fmt.Sprintf("{fix} on node %s see to what its Ready condition names; where the container runtime or the kubelet does not answer, {final} start it again: "+
			"containers go on running meanwhile; if nothing ends the pod, {drain-node} and {reboot-node}", node.Name)
		f.AdviceCommands = []string{safetext.Kubectl("describe", "node/"+node.Name)}
	}
	reportWithWaiting(p, f, pod, volume, p.LastEvent(pod, func(e *corev1.Event) bool {
		return e.Reason == facts.FailedKillPodReason || e.Reason == "FailedPreStopHook"
	}))
}

// podNotStopped is about a pod whose containers have ended and whose sandbox the kubelet fails to
// stop. A pod that nobody has deleted counts only where the kubelet has an attached volume in use
// for it.
func podNotStopped(p *check.Run, pod *corev1.Pod, said *corev1.Event) {
	node, held := p.Snapshot.Node(facts.NodeOf(pod)), heldFor(p.View, pod)
	ended := facts.LastSign(pod)
	inUse := slices.ContainsFunc(held, func(va facts.Attachment) bool { return facts.InUse(node, va.Volume) })
	if !p.Lasted(ended, facts.KillTakes) || pod.DeletionTimestamp == nil && !inUse {
		return
	}
	stops := facts.WhoStops(pod, said)
	f, volume := keeps(p.View, finding.Finding{
		Subject: facts.PodObject(pod), Pods: []string{facts.PodName(pod)}, Since: &ended, Node: facts.NodeName(node),
		Actor:          stops.Actor,
		Never:          "force-delete the pod: its volume may still be mounted",
		Detail:         fmt.Sprintf("its containers have ended, and for %s the kubelet has failed to stop its sandbox", facts.Rounded(p.Age(ended))),
		Cause:          stops.Actor + " fails; until the sandbox is stopped, the kubelet does not begin to unmount the pod's volumes",
		SelfHeals:      finding.SelfHeals{Because: "the sandbox has to be stopped first; the kubelet goes on trying, and unmounts the volumes after that"},
		Advice:         stops.Do,
		AdviceCommands: []string{safetext.Kubectl("describe", "pod/"+pod.Name, "-n", pod.Namespace)},
	}, pod, held)
	if volume == "" {
		return // pod-stuck reports it: no data outlives the pod
	}
	if stops.Network {
		f.AdviceCommands = []string{safetext.Kubectl("get", "pods", "-A", "--field-selector=spec.nodeName="+node.Name)}
	}
	reportWithWaiting(p, f, pod, volume, said)
}

// reportWithWaiting reports a pod that does not end and keeps the volume, with the pods that wait
// for it. said is the kubelet's event about the pod's end; nil where there is none.
func reportWithWaiting(p *check.Run, f finding.Finding, pod *corev1.Pod, volume string, said *corev1.Event) {
	f.Message = fmt.Sprintf("Pod %s does not end on node %s and keeps volume %s", facts.PodName(pod), pod.Spec.NodeName, volume)
	keepDisksFirst(p.View, &f, pod)
	if said != nil {
		f.Said = facts.QuoteEvent(said)
		f.Evidence = append(f.Evidence, finding.Evidence{Object: "event/" + said.Namespace + "/" + said.Name, Field: "message", Value: said.Message})
	}
	waiting := p.KeptFrom(f.Pair())
	if waitsForName := facts.ControlledBy(pod, "StatefulSet"); (len(waiting) > 0 || waitsForName) && p.Lasted(*f.Since, facts.KillFails) {
		f.Severity = finding.Error
		if waitsForName {
			facts.Also(&f, "its StatefulSet makes no other pod of its name")
		}
	}
	if len(waiting) > 0 {
		f.Pods = append(f.Pods, facts.PodNames(waiting)...)
		slices.Sort(f.Pods)
		facts.Also(&f, "pod %s waits for it on node %s", facts.PodName(waiting[0]), waiting[0].Spec.NodeName)
	}
	f.Cause = finding.Clauses(f.Cause, p.NamespaceLeaves(pod.Namespace))
	p.Report(f)
}

// quoteReady quotes the kubelet's reason why its node is not Ready; nil where there is none.
func quoteReady(node *corev1.Node) *finding.Quote {
	c := facts.ReadyCondition(node)
	if c == nil || c.Message == "" {
		return nil
	}
	q := &finding.Quote{Text: c.Message, By: "kubelet on " + node.Name}
	if !c.LastHeartbeatTime.IsZero() {
		q.At = &c.LastHeartbeatTime
	}
	return q
}
