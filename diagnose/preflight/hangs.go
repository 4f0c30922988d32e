package preflight

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// detachHangs is what would hold up the detach, whatever happens to the node.
func (f *flight) detachHangs(pair reconcile.VolumeNode) []string {
	var why []string
	if !f.World.Managed.Has(f.name) && f.World.Actual.Find(pair) == nil {
		return nil // nobody attached it, so nobody detaches it
	}
	if driver, _, ok := reconcile.ParseCSI(pair.Volume); ok && !f.Snapshot.KnowsDriver(driver) {
		return nil // it may never be attached
	}
	if strings.HasPrefix(string(pair.Volume), reconcile.CSIPlugin+"/") && facts.AttachmentName(pair) == "" {
		why = append(why, "the controller cannot read the volume's name, which has a \"^\" in its handle: it never detaches it")
	}
	if lease := f.ControllerDown(); lease != nil && len(f.missing()) == 0 {
		why = append(why, fmt.Sprintf("no kube-controller-manager leads, whose lease was last renewed at %s: nobody would begin to detach it", facts.Stamp(facts.Renewed(lease))))
	}
	va := f.Snapshot.VolumeAttachment(facts.AttachmentName(pair))
	if va == nil {
		return why
	}
	if e := f.DetachError(va); e != nil && facts.Deleting(va) && (!facts.Unanswered(va.Spec.Attacher, e.Message) && f.Age(*va.DeletionTimestamp) > facts.RefusalGrace ||
		f.Age(*va.DeletionTimestamp) > facts.NoAnswerGrace) {
		said := e.Message
		if _, desc, found := strings.Cut(said, " desc = "); found && facts.FromDriver(said) {
			said = desc
		}
		why = append(why, fmt.Sprintf("its detach fails already: %q", said))
	} else if facts.Deleting(va) && f.Age(*va.DeletionTimestamp) > facts.NoAnswerGrace {
		why = append(why, fmt.Sprintf("its detach has been under way since %s without an answer", facts.Stamp(*va.DeletionTimestamp)))
	}
	if lease := f.StaleAttacherLease(va.Spec.Attacher); lease != nil && len(f.missing()) == 0 {
		why = append(why, finding.Clauses(fmt.Sprintf("the external-attacher of %s has not renewed its lease since %s: nobody would ask the driver to detach it",
			va.Spec.Attacher, facts.Stamp(metav1.NewTime(lease.Spec.RenewTime.Time))), f.StuckAttacherClause(lease)))
	}
	if left := f.leftAlone(va.Spec.Attacher); left != nil && len(why) == 0 && len(f.missing()) == 0 {
		why = append(why, fmt.Sprintf("no attacher of %s has touched VolumeAttachment %s, made at %s: nobody would ask the driver to detach it", va.Spec.Attacher, left.Name, facts.Stamp(left.CreationTimestamp)))
	}
	if name := va.Spec.Source.PersistentVolumeName; name != nil && f.Snapshot.Volume(*name) == nil && f.Snapshot.Complete(snapshot.Volumes) {
		why = append(why, fmt.Sprintf("its PV %s does not exist, and without it the attacher does not detach", *name))
	}
	if i := slices.IndexFunc(va.Finalizers, func(s string) bool { return !strings.HasPrefix(s, reconcile.AttacherFinalizerPrefix) }); i >= 0 {
		why = append(why, fmt.Sprintf("its VolumeAttachment has the finalizer %s, which the attacher does not take off", va.Finalizers[i]))
	}
	return why
}

// leftAlone is an attachment that no attacher of the driver takes up; nil where there is none.
func (f *flight) leftAlone(driver string) *facts.Attachment {
	for _, va := range f.Attachments() {
		if va.Spec.Attacher == driver && va.Ours() && f.NotTakenUp(va) && !f.AttachesByMistake(driver) {
			return &va
		}
	}
	return nil
}

// unmountHangs is what would hold up the unmount that a drain waits for.
func (f *flight) unmountHangs(pair reconcile.VolumeNode) []string {
	if f.node == nil || !facts.InUse(f.node, pair.Volume) {
		return nil
	}
	users := f.World.LivePods(pair)
	if !reconcile.NodeReady(f.node) {
		return []string{"the node is not Ready: its kubelet " + f.kubeletCan() + " unmount it"}
	}
	var why []string
	driver, _, ok := reconcile.ParseCSI(pair.Volume)
	if ok && f.Snapshot.Complete(snapshot.CSINodes) && !facts.Registers(f.Snapshot.CSINode(f.name), driver) {
		why = append(why, driver+" is not registered on the node: the kubelet has nobody to unmount it with")
	}
	if len(users) == 0 && !f.lately(pair) && f.readUsers() {
		why = append(why, "no pod on the node uses it any more, and yet it is in volumesInUse: unless the last one has only just gone, the kubelet does not "+
			"get it unstaged; "+f.UntilUnmounted(f.node))
	}
	for _, pod := range users {
		if pod.DeletionTimestamp != nil && f.Age(*pod.DeletionTimestamp) > trace.UnmountTakes && !runs(pod) {
			return append(why, fmt.Sprintf("pod %s has ended and does not go since %s: its volumes are not unmounted", facts.PodName(pod), facts.Stamp(*pod.DeletionTimestamp)))
		}
	}
	return why
}

// readUsers reports whether everything was read through which a pod can use a volume.
func (f *flight) readUsers() bool {
	return !slices.ContainsFunc([]snapshot.Kind{snapshot.Pods, snapshot.Claims, snapshot.Volumes, snapshot.CSIDrivers}, func(k snapshot.Kind) bool { return !f.Snapshot.Complete(k) })
}

// lately reports whether a pod used the volume on the node so short a time ago that
// its unmount may still be under way.
func (f *flight) lately(pair reconcile.VolumeNode) bool {
	return slices.ContainsFunc(f.Snapshot.PodsOnNode(f.name), func(pod *corev1.Pod) bool {
		return f.Mounts(pod, pair.Volume) && pod.DeletionTimestamp != nil && f.Age(*pod.DeletionTimestamp) < trace.UnstageTakes
	})
}

// Room is how many volumes of a driver the other nodes can take.
type Room struct {
	Driver string `json:"driver"`
	// Moving is how many volumes would have to be attached elsewhere.
	Moving int `json:"moving"`
	// Free is how many more the nodes with a limit can take; Unlimited reports
	// whether there are other nodes, which name no limit.
	Free      int  `json:"free"`
	Unlimited bool `json:"unlimited"`
	// Lacking is how many would not find a place; Pods are those that use them.
	Lacking int      `json:"lacking"`
	Pods    []string `json:"pods"`
}

// slot is a node that may take volumes of a driver.
type slot struct {
	node *corev1.Node
	free int // -1 where the driver names no limit
}

// room places the volumes that would move, those with the fewest nodes to go to
// first. Volumes of one zone have the same nodes, so that this loses none.
func (f *flight) room(moving []*corev1.Pod) []Room {
	byDriver := map[string][]flightVolume{}
	users := map[string][]string{}
	for _, pod := range moving {
		if facts.Bare(pod) {
			continue
		}
		for _, v := range f.volumesOf(pod) {
			driver, _, ok := reconcile.ParseCSI(v.name)
			if !ok {
				continue
			}
			if users[v.pv.Name] == nil {
				byDriver[driver] = append(byDriver[driver], v)
			}
			users[v.pv.Name] = append(users[v.pv.Name], facts.PodName(pod))
		}
	}
	rooms := make([]Room, 0, len(byDriver))
	for _, driver := range slices.Sorted(maps.Keys(byDriver)) {
		rooms = append(rooms, f.place(driver, byDriver[driver], users))
	}
	return rooms
}

func (f *flight) place(driver string, volumes []flightVolume, users map[string][]string) Room {
	r := Room{Driver: driver, Moving: len(volumes), Pods: []string{}}
	var slots []*slot
	for _, node := range f.Snapshot.Nodes {
		if !f.takes(node) || !facts.Registers(f.Snapshot.CSINode(facts.NodeName(node)), driver) {
			continue
		}
		s := &slot{node, -1}
		if limit, limited := facts.AttachLimit(f.Snapshot.CSINode(facts.NodeName(node)), driver); limited {
			s.free = max(0, limit-f.used(facts.NodeName(node), driver))
			r.Free += s.free
		} else {
			r.Unlimited = true
		}
		slots = append(slots, s)
	}
	candidates := map[string][]*slot{}
	for _, v := range volumes {
		candidates[v.pv.Name] = slices.DeleteFunc(slices.Clone(slots), func(s *slot) bool { return !reaches(v.pv, s.node) })
	}
	slices.SortStableFunc(volumes, func(a, b flightVolume) int { return len(candidates[a.pv.Name]) - len(candidates[b.pv.Name]) })
	for _, v := range volumes {
		if !f.reachable(v) {
			continue // it hangs for that reason already
		}
		if !takeSlot(candidates[v.pv.Name]) {
			r.Lacking++
			r.Pods = append(r.Pods, users[v.pv.Name]...)
		}
	}
	slices.Sort(r.Pods)
	r.Pods = slices.Compact(r.Pods)
	return r
}

// takeSlot takes a place where there is most room.
func takeSlot(slots []*slot) bool {
	var best *slot
	for _, s := range slots {
		if s.free < 0 {
			return true
		}
		if s.free > 0 && (best == nil || s.free > best.free) {
			best = s
		}
	}
	if best == nil {
		return false
	}
	best.free--
	return true
}
