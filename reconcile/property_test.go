package reconcile

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// check runs f on the plans of random clusters.
func check(t *testing.T, f func(t *rapid.T, o snapshot.Objects, options Options, w *World, plan *Plan)) {
	rapid.Check(t, func(t *rapid.T) {
		o, options := drawObjects(t), drawOptions(t)
		w := NewWorld(snapshotOf(cloneObjects(o)), options)
		f(t, o, options, w, w.Reconcile())
	})
}

// summary is the whole plan as text.
func summary(w *World, plan *Plan) string {
	var b strings.Builder
	for _, d := range plan.Decisions {
		fmt.Fprintf(&b, "%+v\n", d)
		if a := w.Actual.Find(d.VolumeNode); a != nil {
			fmt.Fprintf(&b, "  actual %v %v %v %q\n", a.State, a.MountedByNode, a.AssumedMounted, a.DevicePath)
		}
		if row := w.Desired.Find(d.VolumeNode); row != nil {
			fmt.Fprintf(&b, "  desired by %v\n", row.Pods)
		}
	}
	fmt.Fprintf(&b, "%+v\n%+v\n", w.NodeStatus(plan), w.Skipped)
	return b.String()
}

func TestOrderOfListsDoesNotMatter(t *testing.T) {
	check(t, func(t *rapid.T, o snapshot.Objects, options Options, w *World, plan *Plan) {
		c := cloneObjects(o)
		c.Nodes = rapid.Permutation(c.Nodes).Draw(t, "nodes")
		c.Pods = rapid.Permutation(c.Pods).Draw(t, "pods")
		c.Volumes = rapid.Permutation(c.Volumes).Draw(t, "volumes")
		c.Claims = rapid.Permutation(c.Claims).Draw(t, "claims")
		c.VolumeAttachments = rapid.Permutation(c.VolumeAttachments).Draw(t, "attachments")
		for _, n := range c.Nodes {
			n.Status.VolumesAttached = rapid.Permutation(n.Status.VolumesAttached).Draw(t, "attached")
			n.Status.VolumesInUse = rapid.Permutation(n.Status.VolumesInUse).Draw(t, "in use")
		}
		for _, p := range c.Pods {
			p.Spec.Volumes = rapid.Permutation(p.Spec.Volumes).Draw(t, "pod volumes")
		}
		shuffled := NewWorld(snapshotOf(c), options)
		if a, b := summary(w, plan), summary(shuffled, shuffled.Reconcile()); a != b {
			t.Errorf("in order:\n%s\nshuffled:\n%s", a, b)
		}
	})
}

func TestSnapshotIsNotWrittenTo(t *testing.T) {
	check(t, func(t *rapid.T, o snapshot.Objects, options Options, w *World, plan *Plan) {
		before := snapshotOf(cloneObjects(o)).Objects
		for _, row := range w.Actual.Items() {
			w.LivePods(row.VolumeNode)
			w.Attachments(row.VolumeNode)
			w.Volumes(row.Volume)
		}
		if !reflect.DeepEqual(before, w.snapshot.Objects) {
			t.Error("the objects have changed")
		}
	})
}

// TestOneDecisionForEachPair also checks that decisions are sorted and can be found.
func TestOneDecisionForEachPair(t *testing.T) {
	check(t, func(t *rapid.T, _ snapshot.Objects, _ Options, w *World, plan *Plan) {
		pairs := map[VolumeNode]bool{}
		for i, d := range plan.Decisions {
			if pairs[d.VolumeNode] || w.Actual.Find(d.VolumeNode) == nil && w.Desired.Find(d.VolumeNode) == nil {
				t.Errorf("decision too many: %+v", d)
			}
			if pairs[d.VolumeNode] = true; plan.Decision(d.VolumeNode) != &plan.Decisions[i] {
				t.Errorf("not found: %+v", d)
			}
		}
		for _, row := range w.Actual.Items() {
			if !pairs[row.VolumeNode] {
				t.Errorf("no decision about %v", row.VolumeNode)
			}
		}
		for _, row := range w.Desired.Items() {
			if !pairs[row.VolumeNode] {
				t.Errorf("no decision about %v", row.VolumeNode)
			}
		}
		if !slices.IsSortedFunc(plan.Decisions, func(a, b Decision) int { return a.compare(b.VolumeNode) }) {
			t.Error("not sorted")
		}
	})
}

func TestDecisionsAreSafe(t *testing.T) {
	check(t, func(t *rapid.T, _ snapshot.Objects, options Options, w *World, plan *Plan) {
		for _, d := range plan.Decisions {
			node, actual := w.snapshot.Node(d.Node), w.Actual.Find(d.VolumeNode)
			switch d.Verb {
			case Detach, ForceDetach, Wait:
				if w.Desired.Find(d.VolumeNode) != nil {
					t.Errorf("somebody wants it: %+v", d)
				}
				if d.Verb == Detach && actual.MountedByNode {
					t.Errorf("it is mounted: %+v", d)
				}
				if (d.Verb == ForceDetach) != OutOfService(node) {
					t.Errorf("force is for nodes out of service: %+v", d)
				}
				if d.After > 0 && (d.Verb != Wait || NodeReady(node) || options.DisableForceDetachOnTimeout) {
					t.Errorf("no force may follow: %+v", d)
				}
			case Attach:
				if spec := w.Desired.Find(d.VolumeNode).Spec; !spec.MultiAttach() && len(holdersOf(w, d)) > 0 {
					t.Errorf("%v hold it: %+v", holdersOf(w, d), d)
				}
			case Keep:
				if actual == nil || actual.State != Attached || w.Desired.Find(d.VolumeNode) == nil {
					t.Errorf("nothing to keep: %+v", d)
				}
			}
		}
	})
}

// holdersOf are the other nodes to which the volume is known to be attached.
func holdersOf(w *World, d Decision) []types.NodeName {
	var nodes []types.NodeName
	for _, r := range w.Actual.Items() {
		if r.Volume == d.Volume && r.Node != d.Node && r.State == Attached {
			nodes = append(nodes, r.Node)
		}
	}
	return nodes
}

// TestDesiredPodsAreLive: each pod that wants a volume in the desired state of the world is
// among the LivePods of that volume.
func TestDesiredPodsAreLive(t *testing.T) {
	check(t, func(t *rapid.T, _ snapshot.Objects, _ Options, w *World, _ *Plan) {
		for _, r := range w.Desired.Items() {
			var live []types.NamespacedName
			for _, pod := range w.LivePods(r.VolumeNode) {
				live = append(live, namespaced(pod.Namespace, pod.Name))
			}
			for _, pod := range r.Pods {
				if !slices.Contains(live, pod) {
					t.Errorf("%v wants %v but is not live", pod, r.VolumeNode)
				}
			}
		}
	})
}

// TestNodeStatusParts: each entry that a node listed is either still listed or removed.
func TestNodeStatusParts(t *testing.T) {
	check(t, func(t *rapid.T, _ snapshot.Objects, _ Options, w *World, plan *Plan) {
		all := w.NodeStatus(plan)
		for i, n := range w.snapshot.Nodes {
			status := all[i]
			if got := len(status.VolumesAttached) + len(status.Removed); string(status.Node) != n.Name || got != len(n.Status.VolumesAttached) {
				t.Errorf("%s lists %v: %+v", n.Name, n.Status.VolumesAttached, status)
			}
			for _, name := range status.Removed {
				if d := plan.Decision(VolumeNode{name, status.Node}); d.Verb != Detach && d.Verb != ForceDetach {
					t.Errorf("removed without a detach: %+v", d)
				}
			}
		}
	})
}

func TestStrangersChangeNothing(t *testing.T) {
	check(t, func(t *rapid.T, o snapshot.Objects, options Options, w *World, plan *Plan) {
		c := cloneObjects(o)
		c.Nodes = append(c.Nodes, newNode("stranger", lists(unique("other"))))
		c.Volumes = append(c.Volumes, newPV("stranger"), newPV("other"))
		c.Claims = append(c.Claims, newClaim("stranger"))
		c.Pods = append(c.Pods, newPod("stranger", "stranger", []string{"stranger"}), newPod("idle", "n1", nil))
		c.VolumeAttachments = append(c.VolumeAttachments, newAttachment("other", "n1"))
		crowded := NewWorld(snapshotOf(c), options).Reconcile()
		for _, d := range plan.Decisions {
			got := crowded.Decision(d.VolumeNode)
			if got == nil || got.Late < d.Late {
				t.Errorf("%+v became %+v", d, got)
				continue
			}
			same := *got
			same.Late = d.Late // a controller at work may find another volume of the node first
			if !reflect.DeepEqual(same, d) {
				t.Errorf("%+v became %+v", d, got)
			}
		}
		if got := len(crowded.Decisions) - len(plan.Decisions); got != 3 {
			t.Errorf("%d decisions more", got)
		}
	})
}

// TestPlansComeToRest executes plan after plan, each by a controller that has
// just started, until nothing is left to do.
func TestPlansComeToRest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o, options := drawObjects(t), drawOptions(t)
		var restless []Decision
		for range 6 {
			w := NewWorld(snapshotOf(cloneObjects(o)), options)
			plan := w.Reconcile()
			restless = slices.DeleteFunc(slices.Clone(plan.Decisions), atRest)
			if len(restless) == 0 {
				return
			}
			execute(&o, w, plan)
		}
		t.Errorf("still to do: %+v", restless)
	})
}

// atRest reports whether the next pass makes the same decision, unless somebody else acts.
func atRest(d Decision) bool {
	switch d.Verb {
	case Keep, Wait, MultiAttach:
		return true
	case Blocked:
		return d.Reason != OperationPending
	default:
		return false
	}
}

// execute carries out the plan on the objects: of contenders the first is served.
func execute(o *snapshot.Objects, w *World, plan *Plan) {
	node := func(name types.NodeName) *corev1.Node {
		for _, n := range o.Nodes {
			if n.Name == string(name) {
				return n
			}
		}
		return &corev1.Node{}
	}
	for _, d := range plan.Decisions {
		if len(d.Contenders) > 0 && d.Contenders[0] != d.Node {
			continue
		}
		status := &node(d.Node).Status
		switch d.Verb {
		case Detach, ForceDetach:
			status.VolumesAttached = slices.DeleteFunc(status.VolumesAttached, func(v corev1.AttachedVolume) bool { return v.Name == d.Volume })
			status.VolumesInUse = slices.DeleteFunc(status.VolumesInUse, func(name corev1.UniqueVolumeName) bool { return name == d.Volume })
			o.VolumeAttachments = slices.DeleteFunc(o.VolumeAttachments, func(va *storagev1.VolumeAttachment) bool {
				// An FC volume has no VolumeAttachment upstream; those that the test drew go
				// with it.
				name, err := w.AttachmentVolume(va)
				return err == nil && name == d.Volume && va.Spec.NodeName == string(d.Node)
			})
		case Attach:
			status.VolumesAttached = append(status.VolumesAttached, corev1.AttachedVolume{Name: d.Volume})
			if pv := w.Desired.Find(d.VolumeNode).Spec.PV; d.VolumeAttachment != "" && w.snapshot.VolumeAttachment(d.VolumeAttachment) == nil {
				o.VolumeAttachments = append(o.VolumeAttachments, newAttachment(pv.Name, string(d.Node)))
			}
		}
	}
}
