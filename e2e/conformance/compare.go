package conformance

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// Difference is a row in which the model and the controller do not agree.
type Difference struct {
	Row           string
	Model, Oracle string
	// Read is the upstream function that decides the row.
	Read string
}

func (d Difference) String() string {
	return fmt.Sprintf("%s\n    model:      %s\n    controller: %s\n    read:       %s", d.Row, d.Model, d.Oracle, d.Read)
}

// Tolerance is why a row may differ.
type Tolerance string

// All that upstream leaves to chance. The last two exist in Mode.Free only.
const (
	MapOrder    Tolerance = "which contender was served"
	SpecOrder   Tolerance = "which of a volume's specs was kept"
	PathOrder   Tolerance = "which device path was kept"
	EventOrder  Tolerance = "node event before or after population"
	NoOperation Tolerance = "operation ended within the pass"
)

// Result counts rows.
type Result struct {
	Rows        int
	Tolerated   map[Tolerance]int
	Differences []Difference
}

// comparison holds the two answers side by side.
type comparison struct {
	Result
	mode          Mode
	model, oracle *Answer
	specs         specs
}

// Compare lists the rows in which the two answers differ.
func Compare(c *Cluster, mode Mode, world *reconcile.World, model, oracle *Answer) Result {
	r := &comparison{Result: Result{Tolerated: map[Tolerance]int{}}, mode: mode, model: model, oracle: oracle, specs: specsOf(c, world)}
	if mode.TimedOut {
		r.compareTimedOut(c.DisableForceDetachOnTimeout && world.Behaviours.Has(reconcile.ForceDetachSwitch))
		return r.Result
	}
	r.row("managed nodes", join(sets.List(model.Managed)), join(sets.List(oracle.Managed)), "addNodeToDswp")
	if !mode.Free { // pods may then be looked at before their claims are known
		for _, key := range keys(model.Skipped, oracle.Skipped) {
			r.row("skipped "+key, model.Skipped[key], oracle.Skipped[key], "ProcessPodVolumes, processVolumeAttachments")
		}
	}
	for _, pair := range keys(model.Actual, oracle.Actual) {
		r.compareActual(pair)
	}
	for _, pair := range keys(model.Desired, oracle.Desired) {
		r.compareDesired(pair)
	}
	for _, pair := range keys(model.Decisions, oracle.Decisions) {
		r.compareDecision(pair)
	}
	for _, node := range keys(model.Status, oracle.Status) {
		r.compareStatus(node)
	}
	return r.Result
}

// keys are those of either map, in a fixed order.
func keys[K comparable, V any](a, b map[K]V) []K {
	all := sets.KeySet(a).Union(sets.KeySet(b)).UnsortedList()
	slices.SortFunc(all, func(x, y K) int {
		if fmt.Sprint(x) < fmt.Sprint(y) {
			return -1
		}
		return 1
	})
	return all
}

// row compares one row. It counts as tolerated where it differs and chance
// explains that.
func (r *comparison) row(name string, model, oracle any, read string, chance ...Tolerance) {
	r.Rows++
	m, o := fmt.Sprintf("%+v", model), fmt.Sprintf("%+v", oracle)
	switch {
	case m == o:
	case len(chance) > 0:
		r.Tolerated[chance[0]]++
	default:
		r.Differences = append(r.Differences, Difference{name, m, o, read})
	}
}

func pairName(kind string, pair Pair) string {
	return fmt.Sprintf("%s %s on %s", kind, pair.Volume, pair.Node)
}

// chanceOf returns those of the tolerances that apply to the pair.
func (r *comparison) chanceOf(pair Pair, of ...Tolerance) []Tolerance {
	var applies []Tolerance
	for _, t := range of {
		ok := false
		switch t {
		case SpecOrder:
			ok = r.specs[pair.Volume].specs.Len() > 1
		case PathOrder:
			ok = r.specs[pair.Volume].paths.Len() > 1
		case MapOrder:
			ok = r.lost(pair)
		case EventOrder:
			ok = r.mode.Free && r.anyOn(pair.Volume, func(p Pair) bool { row := r.model.Actual[p]; return row.Mounted != row.MountedLater })
		case NoOperation:
			ok = r.mode.Free && !isCSI(pair.Volume) && r.anyOn(pair.Volume, func(p Pair) bool { return r.model.Decisions[p].VolumeAttachment == "" && starts(r.model.Decisions[p]) })
		}
		if ok {
			applies = append(applies, t)
		}
	}
	return applies
}

// anyOn says whether f holds for a pair of the volume.
func (r *comparison) anyOn(volume corev1.UniqueVolumeName, f func(Pair) bool) bool {
	for pair := range r.model.Decisions {
		if pair.Volume == volume && f(pair) {
			return true
		}
	}
	return false
}

// lost says whether the controller passed the pair over because an operation
// that excludes the pair's own was under way: one of a contender or, for a Wait,
// the detach from another node, in the shadow of which nothing is waited for.
func (r *comparison) lost(pair Pair) bool {
	o := r.oracle.Decisions[pair]
	if o.Verb != Held && o.Reason != reconcile.OperationPending {
		return false
	}
	rivals := r.model.Decisions[pair].Contenders
	if r.model.Decisions[pair].Verb == reconcile.Wait {
		rivals = r.nodesOf(pair.Volume)
	}
	return slices.ContainsFunc(rivals, func(node types.NodeName) bool {
		return starts(r.oracle.Decisions[Pair{Volume: pair.Volume, Node: node}])
	})
}

func (r *comparison) nodesOf(volume corev1.UniqueVolumeName) []types.NodeName {
	var nodes []types.NodeName
	for pair := range r.model.Decisions {
		if pair.Volume == volume {
			nodes = append(nodes, pair.Node)
		}
	}
	return nodes
}

// starts says whether the decision starts an operation.
func starts(d Decision) bool {
	return d.Verb == reconcile.Attach || d.Verb == reconcile.Detach || d.Verb == reconcile.ForceDetach
}

func (r *comparison) compareActual(pair Pair) {
	m, o := r.model.Actual[pair], r.oracle.Actual[pair]
	name := pairName("actual", pair)
	const read = "populateActualStateOfWorld, processVolumeAttachments, populateDesiredStateOfWorld"
	r.row(name+": state", m.State, o.State, read, r.chanceOf(pair, NoOperation)...)
	r.row(name+": spec", m.Spec, o.Spec, read, r.chanceOf(pair, SpecOrder, NoOperation)...)
	r.row(name+": devicePath", m.DevicePath, o.DevicePath, read, r.chanceOf(pair, PathOrder, NoOperation)...)
	r.row(name+": mounted", m.Mounted, o.Mounted, read+", SetVolumesMountedByNode", r.chanceOf(pair, EventOrder, NoOperation)...)
	r.row(name+": mounted once the node is updated", m.MountedLater, o.MountedLater, "nodeUpdate", r.chanceOf(pair, EventOrder, NoOperation)...)
}

func (r *comparison) compareDesired(pair Pair) {
	m, o := r.model.Desired[pair], r.oracle.Desired[pair]
	name := pairName("desired", pair)
	r.row(name+": pods", m.Pods, o.Pods, "ProcessPodVolumes, AddPod")
	r.row(name+": spec", m.Spec, o.Spec, "CreateVolumeSpecWithNodeMigration", r.chanceOf(pair, SpecOrder)...)
}

func (r *comparison) compareDecision(pair Pair) {
	m, o := r.model.Decisions[pair], r.oracle.Decisions[pair]
	chance := r.chanceOf(pair, MapOrder, EventOrder, NoOperation)
	if r.specs[pair.Volume].multiAttach.Len() > 1 {
		chance = append(chance, SpecOrder)
	}
	// Of contenders that exclude each other exactly one is served.
	if len(m.Contenders) > 1 && r.specs[pair.Volume].multiAttach.Len() == 1 {
		served := slices.DeleteFunc(slices.Clone(m.Contenders), func(node types.NodeName) bool {
			return !starts(r.oracle.Decisions[Pair{Volume: pair.Volume, Node: node}])
		})
		r.row(pairName("contenders served for", pair), 1, len(served), "nestedPendingOperations.Run",
			r.chanceOf(pair, EventOrder, NoOperation)...)
	}
	m.Contenders, m.Forced = nil, false
	if m.Reason == reconcile.AssumedMounted {
		m.Reason = reconcile.StillMounted
	}
	if r.mode.Free {
		m.VolumeAttachment = ""
	}
	r.row(pairName("decision", pair), m, o, "reconciler.reconcile, attachDesiredVolumes", chance...)
}

func (r *comparison) compareStatus(node types.NodeName) {
	m, o := r.model.Status[node], r.oracle.Status[node]
	for _, name := range keys(m, o) {
		pair := Pair{Volume: name, Node: node}
		mPath, inModel := m[name]
		oPath, inOracle := o[name]
		row := fmt.Sprintf("status.volumesAttached of %s: %s", node, name)
		chance := r.chanceOf(pair, MapOrder, EventOrder, NoOperation)
		if r.specs[name].multiAttach.Len() > 1 {
			chance = append(chance, SpecOrder)
		}
		r.row(row, inModel, inOracle, "RemoveVolumeFromReportAsAttached, UpdateNodeStatuses", chance...)
		if inModel && inOracle {
			r.row(row+": devicePath", mPath, oPath, "getAttachedVolumeFromUpdateObject", r.chanceOf(pair, PathOrder, NoOperation)...)
		}
	}
	r.Rows++
}

// compareTimedOut compares what is decided about unwanted pairs once the time
// to wait for an unmount is over: Forced says so of the model's decisions.
// disabled says that the controller is told not to care about that time.
func (r *comparison) compareTimedOut(disabled bool) {
	expired := *r.model
	expired.Decisions = maps.Clone(r.model.Decisions)
	started := map[corev1.UniqueVolumeName][]types.NodeName{}
	for pair, d := range r.model.Decisions {
		if _, wanted := r.model.Desired[pair]; wanted {
			continue
		}
		switch {
		case d.Forced, starts(d) && !disabled:
			d.Verb, d.Reason = reconcile.ForceDetach, timedOut
		}
		if starts(d) {
			started[pair.Volume] = append(started[pair.Volume], pair.Node)
		}
		expired.Decisions[pair] = d
	}
	r.model = &expired
	for _, pair := range keys(r.model.Decisions, r.oracle.Decisions) {
		if _, wanted := r.model.Desired[pair]; wanted {
			continue
		}
		m, o := r.model.Decisions[pair], r.oracle.Decisions[pair]
		if row := r.model.Actual[pair]; !row.Spec.MultiAttach && row.Spec != (Spec{}) {
			m.Contenders = started[pair.Volume]
			r.model.Decisions[pair] = m
		}
		if m.Verb == reconcile.Wait && o.Verb == reconcile.Blocked {
			o.Verb, o.Reason = m.Verb, m.Reason // no force helps what cannot be detached
		}
		m.VolumeAttachment, o.VolumeAttachment = "", ""
		m.Contenders, m.Forced = nil, false
		if m.Reason == reconcile.AssumedMounted {
			m.Reason = reconcile.StillMounted
		}
		chance := r.chanceOf(pair, MapOrder)
		if r.specs[pair.Volume].multiAttach.Len() > 1 {
			chance = append(chance, SpecOrder)
		}
		r.row(pairName("decision after the time-out", pair), m, o, "reconciler.reconcile (forceDetach)", chance...)
	}
}
