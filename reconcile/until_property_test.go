package reconcile

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// crowded is a cluster in which several nodes and pods want one volume.
type crowded struct {
	objects snapshot.Objects
	options Options
}

var crowds = rapid.Custom(func(t *rapid.T) crowded {
	c := crowded{drawObjects(t), drawOptions(t)}
	crowd(t, &c.objects)
	return c
})

// TestUntilIsWhatFollows makes each event happen in the worlds and lets the model decide
// again. It uses a fixed set of clusters, in which each kind of row occurs, and random ones.
func TestUntilIsWhatFollows(t *testing.T) {
	seen := map[string]int{}
	follows := func(t rapid.TB, c crowded) {
		o, options := c.objects, c.options
		plan := NewWorld(snapshotOf(cloneObjects(o)), options).Reconcile()
		for _, d := range plan.Decisions {
			for _, row := range d.Until {
				seen[fmt.Sprintf("%s %s: %s", d.Verb, row.Event, row.Then)]++
				if row.Event == MaxWaitForUnmount || row.Event == Backoff {
					continue // a controller that has just started knows neither
				}
				w := NewWorld(snapshotOf(cloneObjects(o)), options)
				happen(w, plan, d, row)
				var got Verb
				if next := w.Reconcile().Decision(d.VolumeNode); next != nil {
					got = next.Verb
				}
				if got != row.Then {
					t.Errorf("%+v\nafter %s: %q", d, row.Event, got)
				}
			}
		}
	}
	for seed := range 1000 { // some rows take several things to meet
		follows(t, crowds.Example(seed))
	}
	t.Logf("%d kinds of rows: %v", len(seen), seen)
	for _, row := range []string{
		"Wait NodeUpdate: Detach", "Wait Unmount: Detach", "Wait Unmount: Blocked", "Wait VerifySync: ", "Wait MaxWaitForUnmount: ForceDetach",
		"Keep VerifySync: Attach", "Keep VerifySync: MultiAttach", "MultiAttach HolderLeaves: Attach",
		"Blocked OperationEnds: Attach", "Attach OperationEnds: MultiAttach", "Detach OperationEnds: Detach",
	} {
		if seen[row] == 0 {
			t.Errorf("never met: %s", row)
		}
	}
	rapid.Check(t, func(t *rapid.T) { follows(t, crowds.Draw(t, "cluster")) })
}

// crowd brings several nodes and pods to the first volume.
func crowd(t *rapid.T, o *snapshot.Objects) {
	v := o.Volumes[0]
	w := NewWorld(snapshotOf(cloneObjects(*o)), Options{})
	name, _ := w.VolumeName(v)
	for _, n := range o.Nodes {
		if rapid.Bool().Draw(t, "listed") {
			unlist(n, name)
			lists(name)(n)
		}
		if rapid.Bool().Draw(t, "pod") {
			o.Pods = append(o.Pods, newPod("crowd-"+n.Name, n.Name, []string{v.Name}))
		}
		o.VolumeAttachments = slices.DeleteFunc(o.VolumeAttachments, func(va *storagev1.VolumeAttachment) bool {
			return va.Spec.NodeName == n.Name && *va.Spec.Source.PersistentVolumeName == v.Name
		})
		if rapid.Bool().Draw(t, "attachment") {
			va := newAttachment(v.Name, n.Name)
			va.Status.Attached = rapid.Bool().Draw(t, "attached")
			o.VolumeAttachments = append(o.VolumeAttachments, va)
		}
	}
}

// happen changes the worlds as the event does, and as the operations do that the plan has
// started by then.
func happen(w *World, plan *Plan, d Decision, row Until) {
	each := func(nodes []types.NodeName, f func(VolumeNode)) {
		for _, node := range nodes {
			if node != d.Node {
				f(VolumeNode{d.Volume, node})
			}
		}
	}
	detach := func(pair VolumeNode) {
		w.Actual.Delete(pair)
		if node := w.snapshot.Node(pair.Node); node != nil {
			unlist(node, pair.Volume)
		}
	}
	switch row.Event {
	case NodeUpdate, Unmount:
		w.Actual.Find(d.VolumeNode).MountedByNode, w.Actual.Find(d.VolumeNode).AssumedMounted = false, false
	case VerifySync:
		for _, other := range plan.Decisions {
			started := other.Verb == Detach || other.Verb == ForceDetach
			forgotten := slices.ContainsFunc(other.Until, func(u Until) bool { return u.Event == VerifySync })
			if started || forgotten {
				detach(other.VolumeNode)
			}
		}
	case HolderLeaves:
		each(d.Holders, func(pair VolumeNode) {
			detach(pair)
			w.Desired.Delete(pair)
		})
	case OperationEnds:
		each(d.Holders, detach)
		each(d.Contenders, func(pair VolumeNode) {
			if va := w.snapshot.VolumeAttachment(attachmentName(pair)); d.Verb == Attach && va != nil && va.DeletionTimestamp != nil {
				w.Actual.Put(&AttachedVolume{VolumeNode: pair, State: Uncertain, Spec: w.Desired.Find(pair).Spec, Attachment: va, computedName: true})
			} else if d.Verb == Attach {
				w.Actual.Put(&AttachedVolume{VolumeNode: pair, State: Attached, Spec: w.Desired.Find(pair).Spec})
			} else {
				detach(pair)
			}
		})
	}
}

func unlist(n *corev1.Node, volume corev1.UniqueVolumeName) {
	n.Status.VolumesAttached = slices.DeleteFunc(n.Status.VolumesAttached, func(v corev1.AttachedVolume) bool { return v.Name == volume })
}

// TestTimeRunsOut executes plan after plan and, where nothing is left to do, lets everything
// happen that has a latest moment. In the end only somebody else can act, and each pod that
// still waits does so for a lasting reason.
func TestTimeRunsOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o, options := drawObjects(t), drawOptions(t)
		crowd(t, &o)
		for _, va := range o.VolumeAttachments {
			va.Status.Attached = true // or it never is: here nobody attaches
		}
		var plan *Plan
		for range 12 {
			w := NewWorld(snapshotOf(cloneObjects(o)), options)
			plan = w.Reconcile()
			forceIsJustified(t, w, plan, options)
			if slices.ContainsFunc(plan.Decisions, func(d Decision) bool { return !atRest(d) }) {
				execute(&o, w, plan)
			} else if !wait(&o, w, plan) {
				staysForAReason(t, plan)
				return
			}
		}
		t.Errorf("still to do: %+v", plan.Decisions)
	})
}

// forceIsJustified checks that each detach by force has its reason: the taint now, or a lost
// node later.
func forceIsJustified(t *rapid.T, w *World, plan *Plan, options Options) {
	for _, d := range plan.Decisions {
		node := w.snapshot.Node(d.Node)
		if d.Verb == ForceDetach && !OutOfService(node) {
			t.Errorf("no taint: %+v", d)
		}
		for _, row := range d.Until {
			// A detach that goes on failing is in the end forced from a Ready node too.
			if row.Event == MaxWaitForUnmount && (NodeReady(node) && d.Verb != Detach || options.DisableForceDetachOnTimeout || row.After < w.options.MaxWaitForUnmount) {
				t.Errorf("no force may follow: %+v", d)
			}
			if row.Then == ForceDetach && row.Event != MaxWaitForUnmount && d.Verb != ForceDetach {
				t.Errorf("force for no reason: %+v", d)
			}
		}
	}
}

// wait makes the events happen that end a Wait or a Keep at the latest, and reports whether
// there are any.
func wait(o *snapshot.Objects, w *World, plan *Plan) bool {
	later := &Plan{}
	happened := false
	for _, d := range plan.Decisions {
		if d.Verb != Wait && d.Verb != Keep {
			continue
		}
		for _, row := range d.Until {
			if row.Bound == 0 || row.Then == Blocked {
				continue
			}
			happened = true
			if row.Event == VerifySync {
				for _, n := range o.Nodes {
					if n.Name == string(d.Node) {
						unlist(n, d.Volume)
					}
				}
				continue
			}
			d.Verb = row.Then
			later.Decisions = append(later.Decisions, d)
			break
		}
	}
	execute(o, w, later)
	return happened
}

func staysForAReason(t *rapid.T, plan *Plan) {
	for _, d := range plan.Decisions {
		switch d.Verb {
		case MultiAttach:
			if !slices.ContainsFunc(d.Holders, func(node types.NodeName) bool {
				verb := plan.Decision(VolumeNode{d.Volume, node}).Verb
				return verb == Keep || verb == Wait || verb == Blocked
			}) || d.Until[0].Bound != 0 {
				t.Errorf("nobody holds it for good: %+v", d)
			}
		case Keep, Wait, Blocked:
		default:
			t.Errorf("not at rest: %+v", d)
		}
	}
}
