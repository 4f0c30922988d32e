package trace

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// verdictDown is the verdict on a pod that ends. It waits for a volume where only a volume that
// is not unmounted keeps its object. Later stages keep other pods waiting, and are in the
// message.
func (t *tracer) verdictDown(volumes []VolumeTrace) Verdict {
	name := facts.PodName(t.pod)
	switch s := t.stopped(); {
	case s.State == StageDone:
	case s.reason == reasonSandbox, s.reason == reasonClaims:
		what := map[string]string{reasonSandbox: "its sandbox to be stopped", reasonClaims: "its resource claims"}[s.reason]
		headline := fmt.Sprintf("Pod %s has ended and waits for %s, not for a volume", name, what)
		return t.staying(s, Verdict{State: finding.NoWait, Reason: s.reason, UsualBound: s.UsualBound, Headline: headline, Message: headline + "; " + nextToAct + s.On})
	default:
		v := Verdict{State: finding.NoWait, Reason: cmp.Or(s.reason, "ContainersRunning"), UsualBound: s.UsualBound,
			Headline: fmt.Sprintf("Pod %s is Terminating and waits for its containers to end, not for a volume", name)}
		// what was not read may show another cause, or another actor
		keeps := slices.ContainsFunc(volumes, func(v VolumeTrace) bool { return v.Volume != "" })
		s.Overdue = s.Overdue && !t.partial() && t.knows(snapshot.VolumeAttachments, "") && t.knows(snapshot.Leases, corev1.NamespaceNodeLease) && (!keeps || t.Snapshot.Complete(snapshot.Pods))
		v.Message = v.Headline + "; " + s.Detail
		if s.Overdue {
			v.Message = v.Headline + "; " + nextToAct + s.On
		}
		if len(s.Said) > 0 {
			v.Said = s.Said[0].Text
		}
		return t.staying(s, v)
	}
	if t.pod.DeletionTimestamp != nil && t.node != nil && t.Lost(t.node) && !facts.GivenUp(t.pod) {
		s := Stage{State: StageBlocked, never: "force-delete the pod while the machine may run: its volumes may be in use there",
			Detail: fmt.Sprintf("only its kubelet, which is silent, can remove the pod; the node's Ready condition is %s", facts.ReadyText(t.node))}
		if s.On, s.Ends = t.endsOnLost(t.node, t.pod); s.On == PodCollector {
			s.Detail = "its kubelet is silent, and " + PodCollector + ", which removes the pods of a node with the out-of-service taint, has not removed it"
		}
		headline := fmt.Sprintf("Pod %s is Terminating and waits for node %s, not for a volume", name, t.node.Name)
		return t.staying(t.due(s, t.LostPodSince(t.pod), UnmountTakes), Verdict{State: finding.NoWait, Reason: "NodeNotReady", Headline: headline, Message: headline + "; " + s.Detail})
	}
	if s := t.undeleted(); s.State != "" {
		headline := fmt.Sprintf("Pod %s has ended and waits for its object to be deleted, not for a volume", name)
		return t.staying(s, Verdict{State: finding.NoWait, Reason: "NotDeleted", Headline: headline, Said: s.Said[0].Text,
			Message: headline + "; " + nextToAct + s.On + "; " + cmp.Or(s.Said[0].Means, "the API server's answer: "+s.Said[0].Text)})
	}
	var held []VolumeTrace
	for i := range volumes {
		v := &volumes[i]
		if s := v.stage(StageUnmounted); s.State == StageWaiting || s.State == StageBlocked {
			if t.pod.DeletionTimestamp != nil {
				v.Broken = StageUnmounted // the object waits for this, however late the detach is
			}
			held = append(held, *v)
		}
	}
	held = likely(volumes, held)
	if t.pod.DeletionTimestamp != nil && len(held) > 0 {
		certain := slices.DeleteFunc(slices.Clone(held), func(v VolumeTrace) bool { return len(v.stage(StageUnmounted).Said) == 0 })
		if len(certain) == 0 && !slices.ContainsFunc(held, func(v VolumeTrace) bool {
			s := v.stage(StageUnmounted)
			return s.State == StageBlocked && !s.doubtful
		}) {
			// Nothing excludes the volumes that the kubelet makes itself.
			held = append(held, t.notRemoved(volumes, t.canBeBusy)...)
		}
		list, _ := waits(held)
		verdict := t.waitFor(list)
		switch {
		case len(certain) > 0:
			list, _ = waits(certain)
			verdict = t.waitFor(list)
			openToBe(volumes, held)
		case len(list) > 1:
			verdict = t.waitForOne(list)
			openToBe(volumes, list)
		}
		return t.cannotGo(verdict)
	}
	if i := slices.IndexFunc(volumes, func(v VolumeTrace) bool {
		s := v.stage(StageUnmounted)
		return s.State == StageUnknown && !s.follows
	}); i >= 0 && t.pod.DeletionTimestamp != nil {
		return t.unsure(volumes[i], StageUnmounted)
	}
	if t.pod.DeletionTimestamp != nil {
		list := t.notRemoved(volumes, func(VolumeTrace) bool { return true })
		switch {
		case len(list) > 0 && !t.knows(snapshot.Events, t.pod.Namespace):
			// events may show that the kubelet has not reached them
			for _, v := range list {
				*v.stage(StageUnmounted) = unread(StageUnmounted, snapshot.Events)
			}
			return t.unsure(list[0], StageUnmounted)
		case len(list) > 1:
			verdict := t.waitForOne(list)
			openToBe(volumes, list)
			return t.cannotGo(verdict)
		case len(list) == 1:
			return t.cannotGo(t.waitFor(list))
		}
	}
	verdict := t.ended(volumes)
	if t.pod.DeletionTimestamp != nil && len(volumes) > 0 {
		return t.nodeUnread(verdict)
	}
	return verdict
}

// cannotGo is the verdict on a pod that has ended and waits for a volume to be unmounted.
func (t *tracer) cannotGo(v Verdict) Verdict {
	headline := fmt.Sprintf("Pod %s has ended but cannot go before volume %s is unmounted on %s", facts.PodName(t.pod), v.Volume, t.pod.Spec.NodeName)
	v.Headline, v.Message = headline, headline+strings.TrimPrefix(v.Message, v.Headline)
	return t.nodeUnread(v)
}

// nodeUnread makes the verdict on a pod that has ended an unsure one where its node, which was not
// read, may be why the pod object stays.
func (t *tracer) nodeUnread(v Verdict) Verdict {
	if t.node == nil && !t.knows(snapshot.Nodes, "") {
		v.State, v.Reason, v.Message = finding.Unsure, "NodeNotRead", fmt.Sprintf(
			"Whether pod %s, which has ended, waits for a volume is not known: not all nodes could be read", facts.PodName(t.pod))
	}
	return v
}

// likely leaves out the volumes that perhaps never were mounted, where another volume is enough
// to keep the pod.
func likely(volumes, held []VolumeTrace) []VolumeTrace {
	doubtful := func(v VolumeTrace) bool { return v.stage(StageUnmounted).doubtful }
	sure := slices.DeleteFunc(slices.Clone(held), doubtful)
	if len(sure) == 0 {
		return held
	}
	for i := range volumes {
		if v := &volumes[i]; doubtful(*v) {
			s := v.stage(StageUnmounted)
			s.State, s.Overdue, s.follows = StageUnknown, false, true
			s.Detail = "no object tells whether it was mounted before its driver went, or ever; volume " + sure[0].Name + " explains the wait"
			v.Broken = broken(v.Stages)
		}
	}
	return sure
}

// openToBe marks the held volumes: one of them is still mounted, and no object shows which.
func openToBe(volumes, held []VolumeTrace) {
	for i := range volumes {
		v := &volumes[i]
		if s := v.stage(StageUnmounted); (s.State == StageWaiting || s.doubtful) && slices.ContainsFunc(held, func(h VolumeTrace) bool { return h.Name == v.Name }) {
			s.State, s.Overdue = StageUnknown, false
			if !slices.Contains(nodeLocal, v.Type) {
				s.Detail = "no object tells whether it is unmounted: the pod waits for one of its volumes"
			}
		}
	}
}

// staying adds the wait to the verdict on an ended pod that waits for no volume.
func (t *tracer) staying(s Stage, v Verdict) Verdict {
	v.Actor, v.Since = s.On, s.Since
	if s.Overdue && t.pod.DeletionTimestamp != nil {
		v.stays = &s
	}
	return v
}

// objectStays is the wait of an ended pod that neither a volume nor a finalizer keeps.
// Before its volumes the kubelet takes away claimed devices (Kubelet.SyncTerminatingPod), after
// them the pod's cgroups (SyncTerminatedPod), and then it deletes the object
// (syncPod, status_manager.go). It writes no event about any of these.
func (t *tracer) objectStays() Stage {
	s := Stage{State: StageWaiting, On: kubeletOf(t.pod.Spec.NodeName), Ends: "the kubelet deletes the pod object",
		never:  "force-delete the pod before its kubelet's log shows what keeps it: a device or a cgroup may stay on the node",
		do:     "{check} look at the log of the kubelet of " + t.pod.Spec.NodeName + " for the pod's name and UID: resource claims, cgroups, or an API server that denies the deletion",
		Detail: "none of its volumes is mounted, and the kubelet has not deleted the object; it writes no event about that"}
	if t.node != nil {
		return t.due(s, readyAgain(t.node, t.endsSince()), UnmountTakes)
	}
	s.On, s.Ends = t.endsOnLost(nil, t.pod)
	s.do, s.never = "", "force-delete the pod while the machine may run: its volumes may be in use there"
	s.Detail = "node " + t.pod.Spec.NodeName + " does not exist, and no kubelet deletes the object"
	return t.due(s, t.endsSince(), UnmountTakes)
}

// ended is the verdict on a pod that nothing of its own keeps.
func (t *tracer) ended(volumes []VolumeTrace) Verdict {
	v := Verdict{State: finding.NoWait, Reason: "Ended", Message: fmt.Sprintf("Pod %s has ended and waits for no volume", facts.PodName(t.pod))}
	headline := v.Message + ", and its object stays"
	if t.pod.Status.Reason != "" && t.pod.Status.Phase == corev1.PodFailed {
		v.Reason = t.pod.Status.Reason
		v.Message += fmt.Sprintf(" (%s: %s)", t.pod.Status.Reason, t.pod.Status.Message)
	}
	switch {
	case t.pod.DeletionTimestamp != nil && len(t.pod.Finalizers) > 0:
		v.Reason = "Finalizers"
		v.Message += "; its object is kept by " + strings.Join(t.pod.Finalizers, ", ")
	case t.pod.DeletionTimestamp == nil || t.pod.Spec.NodeName == "" || t.partial() || t.node == nil && !t.knows(snapshot.Nodes, ""):
		// what was not read may show a volume, a sandbox or a node that keeps it
	default:
		if s := t.objectStays(); s.Overdue {
			v = t.staying(s, v)
			v.Reason, v.Headline = "ObjectStays", headline
			v.Message = v.Headline + "; " + nextToAct + s.On
		}
	}
	for _, volume := range volumes {
		s := volume.stage(volume.Broken)
		switch {
		case s.reason == reasonNeverMounted:
			v.Message += fmt.Sprintf("; but it keeps volume %s in use on node %s until the pod object is deleted", volume.Name, t.pod.Spec.NodeName)
			return v
		case volume.Broken == StageUnstaged || volume.Broken == StageDetached:
			v.Message += fmt.Sprintf("; volume %s is being detached from node %s", volume.Name, t.pod.Spec.NodeName)
			if s.Overdue {
				v.Message += ", for longer than is usual"
			}
			return v
		}
	}
	return v
}
