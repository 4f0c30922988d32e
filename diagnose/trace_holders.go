package diagnose

import (
	"fmt"
	"slices"
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// holders are the other nodes that have a volume for one node at a time, or of
// which its detach has not ended.
func (t *tracer) holders(v *tracedVolume) []types.NodeName {
	if !t.oneNode(v.Volume) {
		return nil
	}
	var nodes []types.NodeName
	for _, a := range t.attachments() {
		if a.Volume == v.Volume && (a.Status.Attached || deleting(a.VolumeAttachment)) {
			nodes = append(nodes, a.Node)
		}
	}
	for _, node := range t.Snapshot.Nodes {
		if lists(node, v.Volume) {
			nodes = append(nodes, nodeName(node))
		}
	}
	nodes = slices.DeleteFunc(nodes, func(n types.NodeName) bool { return n == v.pair.Node })
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// held turns the stage into the wait for another node to let go of the volume.
func (t *tracer) held(v *tracedVolume, s Stage) (Stage, bool) {
	nodes := t.holders(v)
	if len(nodes) == 0 {
		return s, false
	}
	pair := reconcile.VolumeNode{Volume: v.Volume, Node: nodes[0]}
	s.State, s.reason = StageBlocked, "MultiAttach"
	s.Detail = fmt.Sprintf("one node at a time may have it, and node %s has it still", nodes[0])
	if len(nodes) > 1 {
		s.Detail += fmt.Sprintf("; so have %d others", len(nodes)-1)
	}
	since, bound := boundAt(t.pod), conflictSettles
	node := t.Snapshot.Node(pair.Node)
	live := t.World.LivePods(pair)
	decision := t.Plan.Decision(pair)
	switch {
	case len(live) > 0 && allDeleting(live):
		s.On, s.Ends = kubeletOf(string(pair.Node)), "its containers end, it is unmounted and unstaged there; then the controller detaches it"
		s.Detail += fmt.Sprintf(": pod %s is Terminating there", podName(live[0]))
	case len(live) > 0:
		s.On, s.Ends = "pod "+podName(live[0]), "that pod ends; it may stay, and then this one waits for ever"
		s.Detail += fmt.Sprintf(": pod %s uses it there%s", podName(live[0]), alikeThere(len(live)))
	case !t.knows(snapshot.Pods, ""):
		s.On, s.Ends = "node "+string(pair.Node), "the volume is detached there"
		s.Detail += "; which pod uses it there is not known, for want of pods"
	case node != nil && inUse(node, v.Volume) && reconcile.NodeReady(node):
		s.On = kubeletOf(string(pair.Node))
		s.Detail += ": no pod there uses it any more, but the kubelet has not unmounted and unstaged it (volumesInUse)"
		s.Ends = "the kubelet unstages it: on a Ready node the controller waits for that without a limit"
	case decision != nil && decision.Verb == reconcile.Wait && decision.After > 0:
		s.On, bound = theController, decision.After+detachTakes
		s.Detail += ", which is not Ready: its kubelet will not unmount it"
		s.Ends = fmt.Sprintf("the controller detaches it by force %s after the last pod there is gone, unless the node returns", rounded(decision.After))
	default:
		s.On, s.Ends = t.detachOn(pair), "the detach from there ends"
	}
	t.heldWords(pair, &s)
	t.attachWords(v, &s)
	return t.due(s, since, bound), true
}

func alikeThere(n int) string {
	if n < 2 {
		return ""
	}
	return fmt.Sprintf(", and %d more", n-1)
}

// detachOn is who has to act so that the volume leaves the node.
func (t *tracer) detachOn(pair reconcile.VolumeNode) string {
	if va := t.Snapshot.VolumeAttachment(attachmentName(pair)); va != nil && deleting(va) {
		return attacherOf(va.Spec.Attacher)
	}
	return theController
}

func (t *tracer) heldWords(pair reconcile.VolumeNode, s *Stage) {
	va := t.Snapshot.VolumeAttachment(attachmentName(pair))
	if va == nil {
		return
	}
	if e := va.Status.DetachError; e != nil {
		s.Said = append(s.Said, driverSaid(va, "detachError", e))
	}
	if lease := t.staleAttacherLease(va.Spec.Attacher); lease != nil {
		s.Detail += fmt.Sprintf("; the attacher's lease %s was last renewed at %s", lease.Name, stamp(metav1.NewTime(lease.Spec.RenewTime.Time)))
	}
}

// detaching says how far a detach is that the VolumeAttachment shows.
func (t *tracer) detaching(va *storagev1.VolumeAttachment) Stage {
	s := Stage{Stage: StageDetached, State: StageWaiting, On: attacherOf(va.Spec.Attacher),
		Detail: "the attacher works on its VolumeAttachment", Ends: "the driver answers that it is detached, and the attacher takes its finalizer off"}
	bound := slowDetachSettles
	if e := va.Status.DetachError; e != nil {
		s.State, s.On, s.Detail = StageBlocked, "CSI driver "+va.Spec.Attacher, "the driver fails to detach it"
		s.Said = append(s.Said, driverSaid(va, "detachError", e))
		s.Ends = "the attacher asks again, at most 5 min apart, until the driver succeeds"
		if !unanswered(e.Message) {
			bound = refusalSettles
		}
	}
	if lease := t.staleAttacherLease(va.Spec.Attacher); lease != nil {
		s.State = StageBlocked
		s.Detail += fmt.Sprintf("; the attacher's lease %s was last renewed at %s", lease.Name, stamp(metav1.NewTime(lease.Spec.RenewTime.Time)))
	}
	if i := slices.IndexFunc(va.Finalizers, func(f string) bool { return !strings.HasPrefix(f, "external-attacher/") }); i >= 0 {
		s.Detail += "; the finalizer " + va.Finalizers[i] + " is not the attacher's"
	}
	return t.due(s, *va.DeletionTimestamp, bound)
}
