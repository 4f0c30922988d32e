package preflight

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// pod adds one pod and its volumes in both cases.
func (f *flight) pod(p *Preflight, pod *corev1.Pod) {
	if facts.Bare(pod) {
		p.Stranded = append(p.Stranded, facts.PodName(pod))
	}
	for _, v := range f.volumesOf(pod) {
		w := Wait{Pod: facts.PodName(pod), Controller: controllerText(pod), PersistentVolume: v.pv.Name, Volume: v.name}
		p.Drain.Waits = append(p.Drain.Waits, f.drained(w, pod, v))
		p.Loss.Waits = append(p.Loss.Waits, f.lostWith(w, pod, v))
		if reachable := f.reachable(v); !reachable || f.NeverAttachedAgain(v.pv) {
			hang := Hang{Volume: v.name, PersistentVolume: v.pv.Name, Pods: []string{facts.PodName(pod)}, Because: f.nowhere(v), Perhaps: reachable}
			p.Drain.Hangs = append(p.Drain.Hangs, hang)
			p.Loss.Hangs = append(p.Loss.Hangs, hang)
		}
	}
}

const notHere = "it is neither attached to the node nor in use there"

// here reports whether the node may have the volume: attached or in use, or nothing shows where
// it is.
func (f *flight) here(v flightVolume) bool {
	return v.name == "" || slices.ContainsFunc(f.pairs(), func(pair reconcile.VolumeNode) bool { return pair.Volume == v.name })
}

// unread returns the kinds that would show what the volume waits for. Another node may be able to
// take it, another PV of the same volume may allow several nodes, or an unread object may show it
// on this node, or already on another one.
func (f *flight) unread(v flightVolume) []snapshot.Kind {
	var needs []snapshot.Kind
	if f.node == nil || len(f.takers(v)) == 0 {
		needs = append(needs, snapshot.Nodes)
	}
	if len(f.takers(v)) == 0 && len(f.suited(v)) > 0 {
		needs = append(needs, snapshot.CSINodes)
	}
	if v.unsure {
		needs = append(needs, snapshot.CSIDrivers)
	}
	if v.one {
		needs = append(needs, snapshot.Volumes)
	}
	if !f.here(v) || f.NeverAttachedAgain(v.pv) {
		needs = append(needs, snapshot.VolumeAttachments)
	}
	return slices.DeleteFunc(needs, f.Snapshot.Complete)
}

func notKnown(missing []snapshot.Kind) string {
	names := make([]string, 0, len(missing))
	for _, kind := range missing {
		names = append(names, string(kind))
	}
	return "not known: not all " + strings.Join(names, " and ") + " could be read"
}

// nowhere is why no other node may have the volume.
func (f *flight) nowhere(v flightVolume) string {
	switch suited := f.suited(v); {
	case f.NeverAttachedAgain(v.pv):
		return "the volume is Terminating: no attacher attaches it to a node that does not have it yet"
	case len(suited) > 0:
		return fmt.Sprintf("%s is registered on no other node that takes pods and may have it: the pod has nowhere to go", v.driver())
	case v.pv.Spec.NodeAffinity == nil:
		return "no other node is Ready and takes pods"
	default:
		return "its node affinity suits no other node that is Ready and takes pods: the pod has nowhere to go"
	}
}

// cannotMove is the wait where the pod has no successor elsewhere, or that is not known.
func (f *flight) cannotMove(w Wait, pod *corev1.Pod, v flightVolume) (Wait, bool) {
	switch missing := f.unread(v); {
	case facts.Bare(pod):
		w.For, w.Never, w.Because = WaitsForPod, true, "nobody recreates the pod"
	case v.claim.DeletionTimestamp != nil:
		w.For, w.Because = WaitsForUnknown, fmt.Sprintf("claim %s is Terminating: no successor runs with it, and only a StatefulSet makes its own claim again, for another volume", v.claim.Name)
	case len(missing) > 0:
		w.For, w.Because = WaitsForUnknown, notKnown(missing)
	case !f.reachable(v):
		w.For, w.Never, w.Because = WaitsForNode, true, f.nowhere(v)
	default:
		return w, false
	}
	return w, true
}

// drained is the wait for one volume after an eviction.
func (f *flight) drained(w Wait, pod *corev1.Pod, v flightVolume) Wait {
	if w, stays := f.cannotMove(w, pod, v); stays {
		return w
	}
	switch {
	case f.down() && (v.one && f.here(v) || facts.ControlledBy(pod, "StatefulSet")):
		w.For, w.Never, w.Because = WaitsForPod, true, "the node is not Ready: its kubelet "+f.kubeletCan()+" end the containers, and the pod stays until "+byHand
	case !f.here(v):
		w.For, w.Because = WaitsForNothing, notHere
	case !v.one:
		w.For, w.Because = WaitsForNothing, "it may be used on both nodes at the same time"
		if facts.ControlledBy(pod, "StatefulSet") {
			w.For, w.AtMost, w.Because = WaitsForPod, fmt.Sprint(grace(pod)+trace.UnmountTakes), "a StatefulSet recreates the pod once the old one has gone"
		}
	default:
		w.For, w.AtMost = WaitsForUnmount, fmt.Sprint(grace(pod)+reconcile.NodeStatusUpdate+facts.DetachTakes)
		w.Because = fmt.Sprintf("usually seconds: the containers end (up to %s), the volume is unmounted, reported and detached", facts.Rounded(grace(pod)))
		w = f.withController(w, v)
	}
	return w
}

// withController is the wait where the pod that detaches the volume leaves the node, too: nothing
// bounds the time until its successor runs.
func (f *flight) withController(w Wait, v flightVolume) Wait {
	pod, proven := f.OnlyAttacher(v.driver(), f.name)
	if pod == nil {
		return w
	}
	w.AtMost = ""
	what := "but the driver's only attacher, pod %s, leaves the node, too: nothing is detached before its successor runs"
	if !proven {
		what = "but pod %s, which may be the driver's only attacher (no lease shows it), leaves the node, too: if it is that, nothing is detached before its successor runs"
	}
	w.Because += "; " + fmt.Sprintf(what, facts.PodName(pod))
	return w
}

// lostWith is the wait for one volume after the node has gone silent. The kubelet cannot report
// that the containers have ended, so the pod's object stays, and the controller counts the volume
// as wanted.
func (f *flight) lostWith(w Wait, pod *corev1.Pod, v flightVolume) Wait {
	if w, stays := f.cannotMove(w, pod, v); stays {
		return w
	}
	moved, goes := f.evicted(pod)
	switch {
	case !goes:
		w.For, w.Never, w.Because = WaitsForPod, true, "the pod tolerates a lost node for ever: it stays until "+byHand
	case facts.ControlledBy(pod, "StatefulSet"):
		w.For, w.Never = WaitsForPod, true
		w.Because = "a StatefulSet recreates the pod only once the old one has gone, which on a lost node it does not until " + byHand
	case !f.here(v):
		w.For, w.AtMost, w.Because = WaitsForNothing, fmt.Sprint(moved), notHere
	case !v.one:
		w.For, w.AtMost, w.Because = WaitsForNothing, fmt.Sprint(moved), "it may be used on both nodes at the same time: the successor starts once the old pod is evicted"
	case f.opts.DisableForceDetachOnTimeout:
		w.For, w.Never = WaitsForForceDetach, true
		w.Because = "the controller is told not to detach by force (--disable-force-detach-on-timeout); only the out-of-service taint helps"
	case pod.DeletionTimestamp != nil:
		w.For, w.Never = WaitsForPod, true
		w.Because = fmt.Sprintf("the old pod is Terminating with its containers as last reported, and holds the volume until %s; the forced detach comes %s after that",
			byHand, facts.Rounded(f.opts.MaxWaitForUnmount))
	case runs(pod):
		w.For, w.Never = WaitsForPod, true
		w.Because = fmt.Sprintf("the successor comes after %s, but the old pod stays Terminating with its containers as last reported, and holds the volume "+
			"until %s; the forced detach comes %s after that, so that all is over after %s at the soonest",
			facts.Rounded(moved), byHand, facts.Rounded(f.opts.MaxWaitForUnmount), facts.Rounded(moved+f.opts.MaxWaitForUnmount))
	default:
		w.For, w.AtMost = WaitsForForceDetach, fmt.Sprint(moved+f.opts.MaxWaitForUnmount+facts.DetachTakes)
		w.Because = fmt.Sprintf("evicted after %s, detached by force %s after that", facts.Rounded(moved), facts.Rounded(f.opts.MaxWaitForUnmount))
		if !f.down() {
			w.Because = fmt.Sprintf("not Ready after %s, evicted %s later, detached by force %s after that", facts.Rounded(f.lost), facts.Rounded(moved-f.lost), facts.Rounded(f.opts.MaxWaitForUnmount))
		}
		w = f.withController(w, v)
	}
	return w
}

// byHand is how a volume is freed on a node whose kubelet does not come back.
const byHand = "the Node or the pod is deleted, or the out-of-service taint is set once the machine is known to be off"

// kubeletCan is what the kubelet of a node that is not Ready does. One that still reports may
// lack what it needs, such as the container runtime.
func (f *flight) kubeletCan() string {
	if f.silent() {
		return "does not"
	}
	return "may not be able to"
}

// silent reports whether nothing is heard of the node's kubelet.
func (f *flight) silent() bool {
	return f.Snapshot.Complete(snapshot.Leases) && !f.KubeletLives(f.node)
}

// down reports whether the node is not Ready.
func (f *flight) down() bool { return f.node != nil && !reconcile.NodeReady(f.node) }

// evicted is how long it takes until the pod is evicted from a lost node; ok is false where it
// never is. For a node that is already lost, the time since counts.
func (f *flight) evicted(pod *corev1.Pod) (after time.Duration, ok bool) {
	tolerated, ok := tolerates(pod)
	switch {
	case pod.DeletionTimestamp != nil:
		return 0, true
	case f.down():
		return max(0, tolerated-f.Age(facts.NotReadySince(f.node))), ok
	default:
		return f.lost + tolerated, ok
	}
}

// runs reports whether a container of the pod runs, as its kubelet last reported.
func runs(pod *corev1.Pod) bool {
	s := pod.Status
	return slices.ContainsFunc(slices.Concat(s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses),
		func(c corev1.ContainerStatus) bool { return c.State.Running != nil })
}

// takes reports whether another node may take pods.
func (f *flight) takes(node *corev1.Node) bool {
	return facts.NodeName(node) != f.name && reconcile.NodeReady(node) && !node.Spec.Unschedulable && !reconcile.OutOfService(node)
}

// reaches reports whether the volume may be used on the node.
func reaches(pv *corev1.PersistentVolume, node *corev1.Node) bool {
	if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return true
	}
	selector, err := nodeaffinity.NewNodeSelector(pv.Spec.NodeAffinity.Required)
	return err == nil && selector.Match(node)
}

// reachable reports whether another node may have the volume, or may by what was not read.
func (f *flight) reachable(v flightVolume) bool {
	return len(f.takers(v)) > 0 || !f.Snapshot.Complete(snapshot.Nodes) || len(f.suited(v)) > 0 &&
		(!f.Snapshot.Complete(snapshot.CSINodes) || f.NeverAttachedAgain(v.pv) && !f.Snapshot.Complete(snapshot.VolumeAttachments))
}

// suited are the other nodes that take pods and whose place suits the volume.
func (f *flight) suited(v flightVolume) []*corev1.Node {
	return slices.DeleteFunc(slices.Clone(f.Snapshot.Nodes), func(node *corev1.Node) bool { return !f.takes(node) || !reaches(v.pv, node) })
}

// takers are the suited nodes on which the volume's driver is registered, and which have the volume
// where nobody attaches it again.
func (f *flight) takers(v flightVolume) []*corev1.Node {
	driver, ends := v.driver(), f.NeverAttachedAgain(v.pv)
	return slices.DeleteFunc(f.suited(v), func(node *corev1.Node) bool {
		name := facts.NodeName(node)
		return driver != "" && !facts.Registers(f.Snapshot.CSINode(name), driver) || ends && !f.attached(v, name)
	})
}

// attached reports whether a VolumeAttachment has attached the volume to the node.
func (f *flight) attached(v flightVolume, node types.NodeName) bool {
	return slices.ContainsFunc(f.World.Attachments(reconcile.VolumeNode{Volume: v.name, Node: node}), facts.Holds)
}

// hangs adds the volumes that would not leave the node in their time. moving are the pods that a
// drain evicts.
func (f *flight) hangs(p *Preflight, moving []*corev1.Pod) {
	f.mayPart(p, moving)
	for _, pair := range f.pairs() {
		h := Hang{Volume: pair.Volume, PersistentVolume: f.pvName(pair), Pods: facts.PodNames(f.World.LivePods(pair))}
		if va := f.Snapshot.VolumeAttachment(facts.AttachmentName(pair)); va != nil {
			h.VolumeAttachment = va.Name
		}
		both, drain := f.detachHangs(pair), append(f.unmountHangs(pair), f.keptByStayers(pair, moving)...)
		if why := strings.Join(append(drain, both...), "; "); why != "" {
			h.Because = why
			p.Drain.Hangs = append(p.Drain.Hangs, h)
		}
		if why := strings.Join(both, "; "); why != "" {
			h.Because = why
			p.Loss.Hangs = append(p.Loss.Hangs, h)
		}
	}
}

// keptByStayers is the pod that keeps the volume on the node although a drain evicts its other
// users; none where several nodes may have the volume at the same time.
func (f *flight) keptByStayers(pair reconcile.VolumeNode, moving []*corev1.Pod) []string {
	users := f.World.LivePods(pair)
	stays := func(pod *corev1.Pod) bool { return !slices.Contains(moving, pod) }
	i := slices.IndexFunc(users, stays)
	if i < 0 || !slices.ContainsFunc(users, func(pod *corev1.Pod) bool { return !stays(pod) }) || !f.OneNode(pair.Volume) {
		return nil
	}
	return []string{fmt.Sprintf("pod %s, which a drain leaves on the node, uses it, too", facts.PodName(users[i]))}
}

// mayPart adds the ReadWriteOnce volumes of several pods: the access mode does not keep the
// scheduler from giving the pods different nodes.
func (f *flight) mayPart(p *Preflight, moving []*corev1.Pod) {
	sharers := map[*corev1.PersistentVolume][]*corev1.Pod{}
	var shared []flightVolume
	for _, pod := range moving {
		for _, v := range f.volumesOf(pod) {
			if facts.Bare(pod) || !v.one || slices.Contains(v.pv.Spec.AccessModes, corev1.ReadWriteOncePod) {
				continue
			}
			if sharers[v.pv] = append(sharers[v.pv], pod); len(sharers[v.pv]) == 2 {
				shared = append(shared, v)
			}
		}
	}
	for _, v := range shared {
		if len(f.takers(v)) < 2 {
			continue // they have one node to go to
		}
		h := Hang{Volume: v.name, PersistentVolume: v.pv.Name, Pods: facts.PodNames(sharers[v.pv]), Perhaps: true,
			Because: "one node at a time may have it: if the scheduler gives its pods different nodes, one of them waits until the other ends"}
		p.Drain.Hangs, p.Loss.Hangs = append(p.Drain.Hangs, h), append(p.Loss.Hangs, h)
	}
}

// unbound removes the bound from the waits for volumes that hang, or may hang because something
// was not read.
func (s *Scenario) unbound(missing bool) {
	for i := range s.Waits {
		if w := &s.Waits[i]; w.For != WaitsForNothing && (missing || s.HangOf(*w) != nil) {
			w.AtMost = ""
		}
	}
}

// HangOf is what keeps the volume of the wait; nil for nothing.
func (s *Scenario) HangOf(w Wait) *Hang {
	if w.For == WaitsForNothing {
		return nil
	}
	var found *Hang
	for i := range s.Hangs {
		h := &s.Hangs[i]
		if same := h.Volume != "" && h.Volume == w.Volume || h.PersistentVolume != "" && h.PersistentVolume == w.PersistentVolume; same && (found == nil || found.Perhaps) {
			found = h
		}
	}
	return found
}

// controllers are the drivers that lose their only attacher with the node.
func (f *flight) controllers() []Controller {
	var list []Controller
	for _, driver := range f.Attachers() {
		pod, proven := f.OnlyAttacher(driver, f.name)
		if pod == nil {
			continue
		}
		away := "no volume of the driver is attached or detached in the cluster until its successor runs"
		switch moved, goes := f.evicted(pod); {
		case !goes:
			away += "; on a loss nothing evicts it: it tolerates a lost node for ever"
		case facts.ControlledBy(pod, "StatefulSet"):
			away += "; on a loss that is not before " + byHand
		default:
			away += fmt.Sprintf("; on a loss that is after %s at the soonest", facts.Rounded(moved))
		}
		list = append(list, Controller{Driver: driver, Pod: facts.PodName(pod), Perhaps: !proven, Away: away})
	}
	return list
}

// pairs are all volumes that are attached to the node or in use there, sorted.
func (f *flight) pairs() []reconcile.VolumeNode {
	var list []reconcile.VolumeNode
	for _, row := range f.World.Actual.Items() {
		if row.Node == f.name {
			list = append(list, row.VolumeNode)
		}
	}
	if f.node != nil {
		for _, volume := range f.node.Status.VolumesInUse {
			list = append(list, reconcile.VolumeNode{Volume: volume, Node: f.name})
		}
	}
	slices.SortFunc(list, func(a, b reconcile.VolumeNode) int { return strings.Compare(string(a.Volume), string(b.Volume)) })
	return slices.Compact(list)
}

func (f *flight) pvName(pair reconcile.VolumeNode) string {
	if pv := f.World.Volume(pair.Volume); pv != nil {
		return pv.Name
	}
	return ""
}
