package trace

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// holders are the other nodes that have a single-node volume, or have not finished its detach.
func (t *tracer) holders(v *tracedVolume) []types.NodeName {
	if !t.OneNode(v.Volume) || !t.knows(snapshot.Volumes, "") { // another PersistentVolume may have the same disk
		return nil
	}
	return t.otherNodes(v)
}

// mayBeHeld reports whether other nodes have the volume and too little was read to know whether
// they keep it from the pod's node.
func (t *tracer) mayBeHeld(v *tracedVolume) bool {
	return len(t.otherNodes(v)) > 0 && !t.knows(snapshot.Volumes, "")
}

// unknownElsewhere reports whether the driver has a VolumeAttachment on another node for a
// PersistentVolume that was not read: it may be the same disk.
func (t *tracer) unknownElsewhere(v *tracedVolume) bool {
	return v.Driver != "" && !t.knows(snapshot.Volumes, "") && slices.ContainsFunc(t.Snapshot.VolumeAttachments, func(va *storagev1.VolumeAttachment) bool {
		pv := va.Spec.Source.PersistentVolumeName
		return va.Spec.Attacher == v.Driver && va.Spec.NodeName != string(v.pair.Node) && pv != nil && t.Snapshot.Volume(*pv) == nil
	})
}

// otherNodes are the other nodes that have the volume; sorted.
func (t *tracer) otherNodes(v *tracedVolume) []types.NodeName {
	return slices.DeleteFunc(slices.Clone(nodesWith(t.View, v.Volume)), func(node types.NodeName) bool { return node == v.pair.Node })
}

// spared reports whether the controller detaches from the node without waiting for its
// kubelet.
func (t *tracer) spared(node *corev1.Node) bool {
	wait, ends := t.World.WaitsForUnmount(node)
	return ends && wait == 0
}

// nodesWith are the nodes that have the volume, or have not finished its detach; sorted.
func nodesWith(view *facts.View, volume corev1.UniqueVolumeName) []types.NodeName {
	return keptNodesWith.Of(view, volume, findNodesWith)
}

// keptNodesWith: thousands of pods may wait for one volume.
var keptNodesWith facts.KeptBy[corev1.UniqueVolumeName, []types.NodeName]

func findNodesWith(view *facts.View, volume corev1.UniqueVolumeName) []types.NodeName {
	var nodes []types.NodeName
	for _, a := range view.AttachmentsOf(volume) {
		if a.Status.Attached || facts.Deleting(a.VolumeAttachment) {
			nodes = append(nodes, a.Node)
		}
	}
	for _, listed := range view.ListedOn(volume) {
		nodes = append(nodes, listed.Node)
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// lostNodeTakes is how long a volume may stay on a lost node: the node becomes NotReady, its
// pods are evicted, and the volume is detached by force.
const lostNodeTakes = facts.NodeMonitorGrace + facts.DefaultToleration + facts.EvictionGrace

// held turns the stage into the wait for another node to release the volume. It reports whether
// one has it. Of several the pod waits for all, and is stuck with the first whose time is over.
func (t *tracer) held(v *tracedVolume, s Stage) (Stage, bool) {
	holders := t.holders(v)
	if len(holders) == 0 {
		return s, false
	}
	s.Said = slices.Clip(s.Said)
	held := t.heldBy(v, s, holders[0], len(holders))
	for _, holder := range holders[1:] {
		other := t.heldBy(v, s, holder, len(holders))
		unread, untimed := cmp.Or(held.unread, other.unread), cmp.Or(held.untimed, other.untimed)
		if other.Overdue && !held.Overdue || other.Overdue == held.Overdue && dueBefore(other, held) {
			held = other
		}
		held.unread, held.untimed = unread, untimed
	}
	return held, true
}

// dueBefore reports whether the time of the first wait ends before that of the second one.
func dueBefore(a, b Stage) bool { return a.dueAt != nil && b.dueAt != nil && a.dueAt.Before(b.dueAt) }

// heldBy is held for one of so many nodes that have the volume.
func (t *tracer) heldBy(v *tracedVolume, s Stage, holder types.NodeName, holders int) Stage {
	pair := reconcile.VolumeNode{Volume: v.Volume, Node: holder}
	s.State, s.reason = StageBlocked, "MultiAttach"
	s.Detail = fmt.Sprintf("one node at a time may have it, and node %s has it still", holder)
	switch {
	case holders == 2:
		s.Detail += "; another node has it, too"
	case holders > 2:
		s.Detail += fmt.Sprintf("; %d other nodes have it, too", holders-1)
	}
	s.never = fmt.Sprintf("detach it by force: node %s may still write to it", holder)
	since, bound := waitsSince(t.pod), facts.HandOverTakes
	node := t.Snapshot.Node(pair.Node)
	live := t.World.LivePods(pair)
	va, decision := t.Snapshot.VolumeAttachment(facts.AttachmentName(pair)), t.Plan.Decision(pair)
	users := t.usersUnread(v)
	s.unread = cmp.Or(users, s.unread)
	stays := false
	switch {
	case len(live) > 0 && facts.AllDeleting(live):
		s.On, s.Ends = kubeletOf(string(pair.Node)), "its containers end, it is unmounted and unstaged there; then the controller detaches it"
		s.Detail += fmt.Sprintf(": pod %s is Terminating there", facts.PodName(live[0]))
		bound = max(bound, t.GraceEnds(live[0]).Add(facts.KillTakes).Sub(since.Time))
		t.doubtAlive(&s, node)
		if on, ends := t.endsOnLost(node, live[0]); on != "" {
			s.On, s.Ends = on, ends+"; then the controller detaches it"
			if node != nil {
				s.Detail += "; the node's Ready condition is " + facts.ReadyText(node)
			}
			if on != PodCollector { // no timer ends it: the node comes back, or somebody takes the finalizers off
				if !facts.WaitedInVain(t.pod, live[0]) {
					since = facts.Latest(since, t.LostPodSince(live[0]))
				}
				bound, stays = facts.LostPodWarns, true
			}
		}
	case len(live) > 0:
		s.On, s.Ends = "pod "+facts.PodName(live[0]), "that pod ends, which may never happen"
		s.Detail += fmt.Sprintf(": pod %s uses it there%s", facts.PodName(live[0]), alikeThere(len(live)))
		if slices.ContainsFunc(live, facts.RunsOn) && facts.StaysOn(node) {
			bound, stays = facts.ConflictGrace, true
		}
	case users != "":
		s.Ends = fmt.Sprintf("the volume is detached from node %s", holder)
		s.Detail += "; which pod uses it there is not known: not all " + string(users) + " could be read"
	case va != nil && facts.Deleting(va): // whatever the kubelet does
		detach := t.detaching(va)
		s.On, s.Ends, s.unread, s.untimed = detach.On, detach.Ends, cmp.Or(s.unread, detach.unread), detach.untimed
		s.Detail += ": it has been detaching since " + facts.Stamp(*va.DeletionTimestamp)
		if takes := detach.dueAt.Sub(since.Time); detach.State == StageBlocked {
			bound = takes
		} else {
			bound = max(bound, takes)
		}
	case node == nil && !t.knows(snapshot.Nodes, ""):
		s.Ends = fmt.Sprintf("the volume is detached from node %s", holder)
		s.Detail += "; whether it is mounted there is not known: not all nodes could be read"
		t.doubt(&s, snapshot.Nodes)
	case node != nil && facts.InUse(node, v.Volume) && t.spared(node):
		s.On, s.Ends = Controller, t.UntilUnmounted(node)
	case node != nil && facts.InUse(node, v.Volume) && reconcile.NodeReady(node):
		s.On, since = kubeletOf(string(pair.Node)), readyAgain(node, since)
		s.Detail += ": no pod there uses it any more, but the kubelet has not unmounted and unstaged it (volumesInUse)"
		s.Ends = "the kubelet unstages it: " + t.UntilUnmounted(node)
		ended := t.EndedPods(pair)
		for _, pod := range ended { // until it had ended, there was nothing to unmount
			if pod.DeletionTimestamp != nil {
				since = facts.Latest(since, facts.LastSign(pod))
			}
		}
		t.notStopped(&s, ended)
	case decision != nil && decision.Verb == reconcile.Wait && decision.After > 0:
		s.On = Controller
		notBefore, _ := t.DetachWanted(pair)
		told, _ := t.Outstayed(v.Volume, t.KeptFrom(pair))
		bound = facts.Latest(since, notBefore, told).Add(decision.After + facts.DetachTakes).Sub(since.Time)
		t.doubtTime(&s, snapshot.Events, snapshot.Leases, snapshot.Pods)
		s.Detail += ", which " + t.willNotUnmount(node)
		s.Ends = t.UntilUnmounted(node)
		if t.Age(since) > bound {
			s.Ends += "; that is overdue"
		}
	case decision != nil && decision.Verb == reconcile.Wait && !reconcile.NodeReady(node):
		s.On, bound = "node "+string(holder), 0
		s.Detail += ", which " + t.willNotUnmount(node)
		s.Ends = "the node returns, or gets the out-of-service taint because its machine is known to be off: " + t.UntilUnmounted(node)
		if t.KubeletLives(node) {
			s.Ends = "the node is Ready again, and its kubelet unmounts it: " + t.UntilUnmounted(node)
		}
	default:
		s.On, s.Ends = Controller, fmt.Sprintf("the detach from node %s ends", holder)
		since = readyAgain(node, since)
	}
	t.doubt(&s, snapshot.Nodes) // another node may have it too
	if len(live) > 0 && !stays && !reconcile.NodeReady(node) && t.knows(snapshot.Nodes, "") {
		bound = max(bound, lostNodeTakes)
	}
	var heldSince metav1.Time // until then, another node may have had it
	if va != nil {
		heldSince = va.CreationTimestamp
		t.heldWords(va, &s)
	}
	t.attachWords(v, &s, heldSince)
	return t.due(s, since, bound)
}

// readyAgain is since when the node that the volume leaves could act, at most: while it was not
// Ready, its kubelet unmounted nothing.
func readyAgain(node *corev1.Node, since metav1.Time) metav1.Time {
	if !reconcile.NodeReady(node) {
		return since
	}
	return facts.Latest(since, facts.ReadyCondition(node).LastTransitionTime)
}

// notStopped adds that the kubelet has not come to the unmount, where it fails to stop one of the pods.
func (t *tracer) notStopped(s *Stage, pods []*corev1.Pod) {
	for _, pod := range pods {
		if e := t.NotStopped(pod); e != nil {
			s.On = facts.WhoStops(pod, e).Actor
			s.Detail += fmt.Sprintf(": it fails to stop the sandbox of pod %s, which has ended", facts.PodName(pod))
			return
		}
		if t.ClaimsKept(pod) {
			s.On = facts.WhoReleases(pod).Actor
			s.Detail += fmt.Sprintf(": the resource claims of pod %s, which has ended, are not released", facts.PodName(pod))
			return
		}
	}
	if len(pods) > 0 {
		t.doubt(s, snapshot.Events)
	}
}

// willNotUnmount is the clause that the node is gone or not Ready, and whether its kubelet can unmount.
func (t *tracer) willNotUnmount(node *corev1.Node) string {
	if node == nil {
		return "is gone"
	}
	if t.KubeletLives(node) {
		return "is not Ready, though its kubelet lives"
	}
	return "is not Ready: its kubelet will not unmount it"
}

// endsOnLost is who ends a Terminating pod of a node that is gone or lost, and how; "" where
// its kubelet can.
func (t *tracer) endsOnLost(node *corev1.Node, pod *corev1.Pod) (on, ends string) {
	switch {
	case node == nil && !t.knows(snapshot.Nodes, ""):
		return "", ""
	case len(pod.Finalizers) > 0 && (node == nil || reconcile.OutOfService(node)):
		return "whoever set the finalizers of pod " + facts.PodName(pod), "the finalizers of the pod are taken off"
	case node == nil:
		return PodCollector, "the pod object is removed, because its node does not exist"
	case !t.Lost(node):
		return "", ""
	case reconcile.OutOfService(node):
		return PodCollector, "the pod object is removed, because the node has the out-of-service taint"
	default:
		return "node " + node.Name, "the node returns, or gets the out-of-service taint because its machine is known to be off"
	}
}

// doubtAlive notes in the stage that an unread lease may show whether the kubelet of a node that is not Ready lives.
func (t *tracer) doubtAlive(s *Stage, node *corev1.Node) {
	if node != nil && !reconcile.NodeReady(node) && !t.knows(snapshot.Leases, corev1.NamespaceNodeLease) {
		s.unread = cmp.Or(s.unread, snapshot.Leases)
	}
}

// usersUnread is the kind of unread objects that may use the volume; "" where there are none. The
// users are in the namespaces of the claims of all PersistentVolumes with the same disk.
func (t *tracer) usersUnread(v *tracedVolume) snapshot.Kind {
	if t.Snapshot.Complete(snapshot.Pods) && t.Snapshot.Complete(snapshot.Claims) {
		return ""
	}
	namespaces := []string{t.pod.Namespace}
	if v.Claim == "" {
		namespaces = []string{""}
	}
	for _, pv := range t.World.Volumes(v.Volume) {
		if pv.Spec.ClaimRef != nil {
			namespaces = append(namespaces, pv.Spec.ClaimRef.Namespace)
		}
	}
	for _, namespace := range namespaces {
		for _, kind := range []snapshot.Kind{snapshot.Pods, snapshot.Claims} {
			if !t.knows(kind, namespace) {
				return kind
			}
		}
	}
	return ""
}

func alikeThere(n int) string {
	if n < 2 {
		return ""
	}
	return fmt.Sprintf(", and %d more", n-1)
}

// heldWords adds to the stage what keeps the volume on the other node.
func (t *tracer) heldWords(va *storagev1.VolumeAttachment, s *Stage) {
	e, lease := t.DetachError(va), t.staleLease(s, va.Spec.Attacher)
	if e != nil {
		s.On = cmp.Or(facts.WhoDetaches(va.Spec.Attacher, e.Message), s.On)
		s.Said = append(s.Said, driverSaid(va, "detachError", e))
		t.doubtAttacher(s, va.Spec.Attacher, e)
	}
	if lease == nil {
		return
	}
	if e != nil {
		s.On = facts.AttacherOf(va.Spec.Attacher) // nobody asks the driver again
	}
	s.Detail += t.leaseWords(lease)
	if s.Ends != "" {
		s.Ends = "the driver's attacher runs again, and " + s.Ends
	}
}

// staleLease is the expired lease of the driver's attacher; nil where there is none. It notes in the stage that an
// unread VolumeAttachment may show an attacher that does without it.
func (t *tracer) staleLease(s *Stage, driver string) *coordinationv1.Lease {
	lease := t.StaleAttacherLease(driver)
	if lease != nil {
		t.doubt(s, snapshot.VolumeAttachments)
	}
	return lease
}

// leaseWords continue a sentence about an attacher whose lease is not renewed.
func (t *tracer) leaseWords(lease *coordinationv1.Lease) string {
	text := fmt.Sprintf("; the attacher's lease %s was last renewed at %s", lease.Name, facts.Stamp(facts.Renewed(lease)))
	return finding.Clauses(text, t.StuckAttacherClause(lease))
}

// attacherReturns is the time granted to an attacher with an expired lease: none, unless it has
// answered since, without a lease.
func (t *tracer) attacherReturns(s *Stage, lease *coordinationv1.Lease, driver string) time.Duration {
	if !t.LastAnswer(driver).After(facts.Renewed(lease).Add(facts.AttacherLeaseGrace)) {
		return 0
	}
	t.doubt(s, snapshot.CSINodes)
	return facts.RefusalGrace
}

// detaching is the stage of the detach that the VolumeAttachment shows.
func (t *tracer) detaching(va *storagev1.VolumeAttachment) Stage {
	s := Stage{Stage: StageDetached, State: StageWaiting, On: facts.AttacherOf(va.Spec.Attacher),
		Detail: "the attacher works on its VolumeAttachment", Ends: "the driver answers that it is detached, and the attacher takes its finalizer off"}
	bound := facts.NoAnswerGrace
	t.doubtTime(&s, snapshot.Leases) // that of the attacher
	t.doubtState(&s, snapshot.Leases)
	if e := t.DetachError(va); e != nil {
		s.State, s.On, s.Detail = StageBlocked, "CSI driver "+va.Spec.Attacher, "the driver fails to detach it"
		s.On = cmp.Or(facts.WhoDetaches(va.Spec.Attacher, e.Message), s.On)
		s.Said = append(s.Said, driverSaid(va, "detachError", e))
		s.Ends = "the attacher asks again, at most 5 min apart, until the driver succeeds"
		bound = facts.CallGrace(va.Spec.Attacher, e.Message)
		t.doubtAttacher(&s, va.Spec.Attacher, e)
	}
	if lease := t.staleLease(&s, va.Spec.Attacher); lease != nil {
		s.State, s.On, bound = StageBlocked, facts.AttacherOf(va.Spec.Attacher), t.attacherReturns(&s, lease, va.Spec.Attacher) // nobody asks the driver
		s.Detail += t.leaseWords(lease)
	}
	if i := slices.IndexFunc(va.Finalizers, func(f string) bool { return !strings.HasPrefix(f, reconcile.AttacherFinalizerPrefix) }); i >= 0 {
		s.Detail += "; the finalizer " + va.Finalizers[i] + " is not the attacher's"
	}
	return t.due(s, *va.DeletionTimestamp, bound)
}
