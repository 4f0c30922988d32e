package conformance

import (
	"maps"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// perturbation changes one row of the model's answer. It returns false where the answer has
// no such row.
type perturbation struct {
	name  string
	mode  Mode
	spoil func(*Answer) bool
}

var stranger = Pair{Volume: "kubernetes.io/csi/absent.csi^stranger", Node: "n1"}

// perturbations has one for each field that a comparison reads.
var perturbations = []perturbation{
	{"managed node missing", Mode{}, func(a *Answer) bool {
		node, ok := a.Managed.PopAny()
		a.Managed.Delete(node)
		return ok
	}},
	{"managed node invented", Mode{}, func(a *Answer) bool { a.Managed.Insert("stranger"); return true }},

	{"actual row missing", Mode{}, drop(actualOf)},
	{"actual row invented", Mode{}, func(a *Answer) bool { a.Actual[stranger] = ActualRow{State: reconcile.Attached}; return true }},
	{"state", Mode{}, change(actualOf, func(r *ActualRow) bool {
		r.State = map[reconcile.AttachState]reconcile.AttachState{reconcile.Attached: reconcile.Uncertain, reconcile.Uncertain: reconcile.Attached}[r.State]
		return true
	})},
	{"mounted", Mode{}, change(actualOf, func(r *ActualRow) bool { r.Mounted = !r.Mounted; return true })},
	{"mounted later", Mode{}, change(actualOf, func(r *ActualRow) bool { r.MountedLater = !r.MountedLater; return true })},
	{"spec", Mode{}, change(actualOf, func(r *ActualRow) bool { r.Spec.Source += "x"; return true })},
	{"multi-attach", Mode{}, change(actualOf, func(r *ActualRow) bool { r.Spec.MultiAttach = !r.Spec.MultiAttach; return true })},
	{"device path", Mode{}, change(actualOf, func(r *ActualRow) bool { r.DevicePath += "x"; return true })},

	{"desired row missing", Mode{}, drop(desiredOf)},
	{"desired row invented", Mode{}, func(a *Answer) bool { a.Desired[stranger] = DesiredRow{Pods: "a/p1"}; return true }},
	{"desired pods", Mode{}, change(desiredOf, func(r *DesiredRow) bool { r.Pods += ",a/stranger"; return true })},
	{"desired spec", Mode{}, change(desiredOf, func(r *DesiredRow) bool { r.Spec.MultiAttach = !r.Spec.MultiAttach; return true })},

	{"decision missing", Mode{}, drop(decisionsOf)},
	{"decision invented", Mode{}, func(a *Answer) bool {
		a.Decisions[stranger] = Decision{Verb: reconcile.Keep, Reason: reconcile.WantedAndAttached}
		return true
	}},
	{"detach for wait", Mode{}, verb(reconcile.Wait, reconcile.Detach, reconcile.NotWanted)},
	{"wait for detach", Mode{}, verb(reconcile.Detach, reconcile.Wait, reconcile.StillMounted)},
	{"detach for a forced one", Mode{}, verb(reconcile.ForceDetach, reconcile.Detach, reconcile.NotWanted)},
	{"attach for keep", Mode{}, verb(reconcile.Keep, reconcile.Attach, reconcile.NotAttached)},
	{"keep for attach", Mode{}, verb(reconcile.Attach, reconcile.Keep, reconcile.WantedAndAttached)},
	{"attach for multi-attach", Mode{}, verb(reconcile.MultiAttach, reconcile.Attach, reconcile.NotAttached)},
	{"attach for blocked", Mode{}, verb(reconcile.Blocked, reconcile.Attach, reconcile.NotAttached)},
	{"reason of an attach", Mode{}, reason(reconcile.NotAttached, reconcile.AttachUncertain)},
	{"reason of a block", Mode{}, reason(reconcile.NoPlugin, reconcile.InvalidVolumeName)},
	{"name of the VolumeAttachment", Mode{}, change(decisionsOf, func(d *Decision) bool {
		if d.VolumeAttachment == "" {
			return false
		}
		d.VolumeAttachment = d.VolumeAttachment[:len(d.VolumeAttachment)-1] + "g"
		return true
	})},
	{"holders", Mode{}, change(decisionsOf, func(d *Decision) bool { d.Holders += ",stranger"; return d.Verb == reconcile.MultiAttach })},
	{"warned pods", Mode{}, change(decisionsOf, func(d *Decision) bool { d.Warned = ""; return d.Verb == reconcile.MultiAttach })},
	{"event", Mode{}, change(decisionsOf, func(d *Decision) bool { d.Event += "x"; return d.Verb == reconcile.MultiAttach })},
	{"contenders forgotten", Mode{}, func(a *Answer) bool {
		found := false
		for pair, d := range a.Decisions {
			found = found || len(d.Contenders) > 1
			d.Contenders = nil
			a.Decisions[pair] = d
		}
		return found
	}},
	{"forced after the time-out", Mode{TimedOut: true}, change(decisionsOf, func(d *Decision) bool {
		d.Forced = !d.Forced
		return d.Verb == reconcile.Wait && !d.Forced
	})},

	{"reported volume missing", Mode{}, status(func(row StatusRow, name corev1.UniqueVolumeName) { delete(row, name) })},
	{"reported volume invented", Mode{}, func(a *Answer) bool { a.Status["n1"][stranger.Volume] = ""; return true }},
	{"reported device path", Mode{}, status(func(row StatusRow, name corev1.UniqueVolumeName) { row[name] += "x" })},

	{"state after a failed detach", Mode{}, change(decisionsOf, func(d *Decision) bool {
		was := d.Left
		d.Left = reconcile.Attached
		return was == reconcile.Uncertain
	})},
	{"wait after an update", Mode{}, change(decisionsOf, func(d *Decision) bool {
		was := d.Updated
		d.Updated = reconcile.Wait
		return was == reconcile.Detach
	})},
	{"VolumeAttachment not recovered", Mode{}, func(a *Answer) bool {
		_, ok := a.Recovered.PopAny()
		return ok
	}},
	{"VolumeAttachment shown", Mode{}, change(func(a *Answer) map[Pair]string { return a.Attachment }, spoil)},
	{"PV behind a name", Mode{}, change(func(a *Answer) map[corev1.UniqueVolumeName]string { return a.Volume }, spoil)},
	{"PVs behind a name missing", Mode{}, change(func(a *Answer) map[corev1.UniqueVolumeName][]string { return a.Volumes }, func(l *[]string) bool {
		was := *l
		*l = nil
		return len(was) > 0
	})},
	{"live pods missing", Mode{}, change(func(a *Answer) map[Pair][]string { return a.LivePods }, func(l *[]string) bool {
		was := *l
		*l = nil
		return len(was) > 0
	})},

	{"skip missing", Mode{}, drop(skippedOf)},
	{"skip reason", Mode{}, change(skippedOf, func(r *reconcile.SkipReason) bool { *r += "x"; return true })},
}

// boundedOnly are the rows that the controller's answer bounds and does not always determine:
// it is enough that their change is noticed in some cluster.
var boundedOnly = []string{
	"wait after an update", "VolumeAttachment shown", "PV behind a name", "PVs behind a name missing", "live pods missing",
}

func actualOf(a *Answer) map[Pair]ActualRow               { return a.Actual }
func desiredOf(a *Answer) map[Pair]DesiredRow             { return a.Desired }
func decisionsOf(a *Answer) map[Pair]Decision             { return a.Decisions }
func skippedOf(a *Answer) map[string]reconcile.SkipReason { return a.Skipped }
func firstKey[K comparable, V any](m map[K]V) (first K, ok bool) {
	for _, key := range keys(m, nil) {
		return key, true
	}
	return first, false
}

func spoil(s *string) bool {
	*s += "x"
	return *s != "x"
}

// drop removes the first row.
func drop[K comparable, V any](of func(*Answer) map[K]V) func(*Answer) bool {
	return func(a *Answer) bool {
		key, ok := firstKey(of(a))
		delete(of(a), key)
		return ok
	}
}

// change changes the first row for which f returns true.
func change[K comparable, V any](of func(*Answer) map[K]V, f func(*V) bool) func(*Answer) bool {
	return func(a *Answer) bool {
		for _, key := range keys(of(a), nil) {
			row := of(a)[key]
			if f(&row) {
				of(a)[key] = row
				return true
			}
		}
		return false
	}
}

func verb(from, to reconcile.Verb, why reconcile.Reason) func(*Answer) bool {
	return change(decisionsOf, func(d *Decision) bool {
		if d.Verb != from {
			return false
		}
		d.Verb, d.Reason = to, why
		return true
	})
}

func reason(from, to reconcile.Reason) func(*Answer) bool {
	return change(decisionsOf, func(d *Decision) bool {
		if d.Reason != from {
			return false
		}
		d.Reason = to
		return true
	})
}

func status(f func(StatusRow, corev1.UniqueVolumeName)) func(*Answer) bool {
	return func(a *Answer) bool {
		for _, node := range keys(a.Status, nil) {
			if name, ok := firstKey(a.Status[node]); ok {
				f(a.Status[node], name)
				return true
			}
		}
		return false
	}
}

func (a *Answer) clone() *Answer {
	b := *a
	b.Managed, b.Actual, b.Desired = a.Managed.Clone(), maps.Clone(a.Actual), maps.Clone(a.Desired)
	b.Recovered, b.Attachment, b.LivePods = a.Recovered.Clone(), maps.Clone(a.Attachment), maps.Clone(a.LivePods)
	b.Volume, b.Volumes = maps.Clone(a.Volume), maps.Clone(a.Volumes)
	b.Decisions, b.Skipped, b.Status = maps.Clone(a.Decisions), maps.Clone(a.Skipped), map[types.NodeName]StatusRow{}
	for node, row := range a.Status {
		b.Status[node] = maps.Clone(row)
	}
	return &b
}

// TestComparisonCanFail changes right answers. A changed row must be reported in each cluster
// in which upstream leaves nothing to chance, and each kind of row must be reported
// somewhere.
func TestComparisonCanFail(t *testing.T) {
	reported := map[string]int{}
	var mu sync.Mutex
	each(t, Newest, 0, 60, func(t *testing.T, o *Oracle, s uint64) {
		c := Random(s)
		for _, mode := range []Mode{{}, {TimedOut: true}} {
			oracle, err := o.Ask(c, mode)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			for _, missed := range spoilEach(c, mode, oracle, reported) {
				t.Errorf("seed %d: nobody noticed: %s", s, missed)
			}
			mu.Unlock()
		}
	})
	for _, p := range perturbations {
		if reported[p.name] == 0 {
			t.Errorf("never reported: %s", p.name)
		}
	}
	t.Logf("reported: %v", reported)
}

// spoilEach changes the right answer in one way after the other, counts the changes that the
// comparison reports, and returns those that it misses and must report.
func spoilEach(c *Cluster, mode Mode, oracle *Answer, reported map[string]int) (missed []string) {
	right := Model(c, mode, Newest, oracle)
	before := Compare(c, mode, right, oracle)
	for _, p := range perturbations {
		wrong := right.clone()
		if p.mode != mode || !p.spoil(wrong) {
			continue
		}
		after := Compare(c, mode, wrong, oracle)
		switch {
		case len(after.Differences) > len(before.Differences):
			reported[p.name]++
		case !slices.Contains(boundedOnly, p.name) && len(before.Tolerated) == 0 && len(after.Tolerated) == 0:
			missed = append(missed, p.name)
		}
	}
	return missed
}

// TestShrink: Shrink keeps only what the failure needs.
func TestShrink(t *testing.T) {
	c := Random(1)
	hasOdd := func(c *Cluster) bool {
		return slices.ContainsFunc(c.Nodes, func(n *corev1.Node) bool { return n.Name == "n1" })
	}
	small := Shrink(c, hasOdd)
	if got := len(small.All()); got != 1 || !hasOdd(small) || len(small.Nodes[0].Status.VolumesAttached) > 0 {
		t.Errorf("%d objects are left:\n%s", got, small.YAML(Newest))
	}
	if len(c.All()) == 1 {
		t.Error("the cluster itself was shrunk")
	}
}
