package conformance

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// Difference is a row in which the model and the controller disagree.
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

// All results that upstream leaves to chance. The controller's choice in SpecOrder and
// PathOrder is given to the model, and everything else is compared: see chances. The last two
// exist in Mode.Free only.
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
	cluster       *Cluster
	mode          Mode
	model, oracle *Answer
}

// Compare lists the rows in which the two answers differ.
func Compare(c *Cluster, mode Mode, model, oracle *Answer) Result {
	r := &comparison{Result: Result{Tolerated: map[Tolerance]int{}}, cluster: c, mode: mode, model: model, oracle: oracle}
	maps.Copy(r.Tolerated, model.Adopted)
	if mode.TimedOut {
		r.compareTimedOut(model.forceDetachSwitch)
		return r.Result
	}
	r.row("managed nodes", join(sets.List(model.Managed)), join(sets.List(oracle.Managed)), "addNodeToDswp")
	if !mode.Free { // pods may then be handled before their claims are known
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
	if !mode.Free {
		r.compareLookups()
	}
	return r.Result
}

// keys are the keys of either map, in a fixed order.
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

// row compares one row. A row that differs counts as tolerated where chance explains it.
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

// chanceOf returns the given tolerances that apply to the pair.
func (r *comparison) chanceOf(pair Pair, of ...Tolerance) []Tolerance {
	var applies []Tolerance
	for _, t := range of {
		ok := false
		switch t {
		case MapOrder:
			ok = r.lost(pair)
		case EventOrder:
			ok = r.mode.Free && r.anyOn(pair.Volume, func(p Pair) bool { row := r.model.Actual[p]; return row.Mounted != row.MountedLater })
		case NoOperation:
			ok = r.mode.Free && r.mayEnd(pair)
		default: // the model is given the result
		}
		if ok {
			applies = append(applies, t)
		}
	}
	return applies
}

// mayEnd reports whether an operation that calls no server is started for the volume or, for
// the nameless entries of a status that is not written, on the node. A detach may also start
// because the node's event came before the pass.
func (r *comparison) mayEnd(pair Pair) bool {
	for p, d := range r.model.Decisions {
		row := r.model.Actual[p]
		if (starts(d) || d.Verb == reconcile.Wait && row.Mounted != row.MountedLater) && !isCSI(p.Volume) &&
			(p.Volume == pair.Volume || pair.Volume == "" && p.Node == pair.Node) {
			return true
		}
	}
	return false
}

// anyOn reports whether f holds for a pair of the volume.
func (r *comparison) anyOn(volume corev1.UniqueVolumeName, f func(Pair) bool) bool {
	for pair := range r.model.Decisions {
		if pair.Volume == volume && f(pair) {
			return true
		}
	}
	return false
}

// lost reports whether the controller passed over the pair because an operation that excludes
// the pair's own was under way: that of a contender; for a Wait, the detach from another
// node, during which nothing is waited for; and for a MultiAttach, an attach to a node that
// wants the volume by a spec for many nodes, which the pair's spec for one node takes for its
// own operation (IsOperationPending).
func (r *comparison) lost(pair Pair) bool {
	o := r.oracle.Decisions[pair]
	if o.Verb != Held && o.Reason != reconcile.OperationPending {
		return false
	}
	rivals := r.model.Decisions[pair].Contenders
	switch r.model.Decisions[pair].Verb {
	case reconcile.Wait:
		rivals = r.nodesOf(pair.Volume)
	case reconcile.MultiAttach:
		rivals = slices.DeleteFunc(r.nodesOf(pair.Volume), func(node types.NodeName) bool {
			wanted := r.oracle.Desired[Pair{Volume: pair.Volume, Node: node}]
			return !wanted.Spec.MultiAttach
		})
	default: // an operation, which has Contenders of its own
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

// starts reports whether the decision starts an operation.
func starts(d Decision) bool {
	return d.Verb == reconcile.Attach || d.Verb == reconcile.Detach || d.Verb == reconcile.ForceDetach
}

func (r *comparison) compareActual(pair Pair) {
	m, o := r.model.Actual[pair], r.oracle.Actual[pair]
	name := pairName("actual", pair)
	const read = "populateActualStateOfWorld, processVolumeAttachments, populateDesiredStateOfWorld"
	r.row(name+": state", m.State, o.State, read, r.chanceOf(pair, NoOperation)...)
	r.row(name+": spec", m.Spec, o.Spec, read, r.chanceOf(pair, NoOperation)...)
	r.row(name+": devicePath", m.DevicePath, o.DevicePath, read, r.chanceOf(pair, NoOperation)...)
	r.row(name+": mounted", m.Mounted, o.Mounted, read+", SetVolumesMountedByNode", r.chanceOf(pair, EventOrder, NoOperation)...)
	r.row(name+": mounted once the node is updated", m.MountedLater, o.MountedLater, "nodeUpdate", r.chanceOf(pair, EventOrder, NoOperation)...)
}

func (r *comparison) compareDesired(pair Pair) {
	m, o := r.model.Desired[pair], r.oracle.Desired[pair]
	name := pairName("desired", pair)
	r.row(name+": pods", m.Pods, o.Pods, "ProcessPodVolumes, AddPod")
	r.row(name+": spec", m.Spec, o.Spec, "CreateVolumeSpecWithNodeMigration")
}

func (r *comparison) compareDecision(pair Pair) {
	m, o := r.model.Decisions[pair], r.oracle.Decisions[pair]
	// Of contenders that exclude each other one is served, and no other beside it.
	if len(m.Contenders) > 1 && starts(o) {
		beside := slices.DeleteFunc(slices.Clone(m.Contenders), func(node types.NodeName) bool {
			return node == pair.Node || !starts(r.oracle.Decisions[Pair{Volume: pair.Volume, Node: node}])
		})
		r.row(pairName("contenders served beside", pair), "", join(beside), "nestedPendingOperations.Run", r.chanceOf(pair, EventOrder, NoOperation)...)
	}
	m.Contenders, m.Forced, m.Bounded, m.Forgotten = nil, false, false, false
	if m.Reason == reconcile.AssumedMounted {
		m.Reason = reconcile.StillMounted
	}
	if r.mode.Free {
		m.VolumeAttachment, m.Left = "", ""
	}
	r.alignUpdated(pair, &m, &o)
	r.row(pairName("decision", pair), m, o, "reconciler.reconcile, attachDesiredVolumes, GenerateDetachVolumeFunc",
		r.chanceOf(pair, MapOrder, EventOrder, NoOperation)...)
}

// alignUpdated compares the verb of a Wait in the next pass only where it is determined:
// where the volume had no operation, which would now be in its backoff, and the next pass has
// not begun another node's.
func (r *comparison) alignUpdated(pair Pair, m, o *Decision) {
	began := func(p Pair) bool { return r.oracle.Decisions[p].Updated == reconcile.Detach }
	operated := func(p Pair) bool { return starts(r.oracle.Decisions[p]) }
	switch {
	case r.mode.Free, m.Verb != reconcile.Wait, r.anyOn(pair.Volume, operated):
		m.Updated, o.Updated = "", ""
	case o.Updated == Held && r.anyOn(pair.Volume, began):
		o.Updated = m.Updated
		r.Tolerated[MapOrder]++
	}
}

func (r *comparison) compareStatus(node types.NodeName) {
	m, o := r.model.Status[node], r.oracle.Status[node]
	for _, name := range keys(m, o) {
		pair := Pair{Volume: name, Node: node}
		mPath, inModel := m[name]
		oPath, inOracle := o[name]
		row := fmt.Sprintf("status.volumesAttached of %s: %s", node, name)
		r.row(row, inModel, inOracle, "RemoveVolumeFromReportAsAttached, UpdateNodeStatuses",
			r.chanceOf(pair, MapOrder, EventOrder, NoOperation)...)
		if inModel && inOracle {
			r.row(row+": devicePath", mPath, oPath, "getAttachedVolumeFromUpdateObject", r.chanceOf(pair, NoOperation)...)
		}
	}
	r.Rows++
}

// compareBounded checks that no holder is confirmed any more once its detach, which the
// time-out has begun, has failed.
func (r *comparison) compareBounded(pair Pair, d Decision) {
	for _, holder := range strings.Split(d.Holders, ",") {
		held := Pair{Volume: pair.Volume, Node: types.NodeName(holder)}
		if o := r.oracle.Decisions[held]; starts(o) && !r.model.Decisions[held].Forgotten {
			r.row(pairName("bounded wait for "+holder+":", pair), reconcile.Attached == o.Left, false, "DetachVolume: a detach that fails")
		}
	}
}

// compareTimedOut compares the decisions about unwanted pairs once the time to wait for an
// unmount is over; in the model's decisions these have Forced. disabled reports whether the
// controller is told to ignore that time.
func (r *comparison) compareTimedOut(disabled bool) {
	expired := *r.model
	expired.Decisions = maps.Clone(r.model.Decisions)
	started := map[corev1.UniqueVolumeName][]types.NodeName{}
	for pair, d := range r.model.Decisions {
		if d.Bounded {
			r.compareBounded(pair, d)
		}
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
			o.Verb, o.Reason = m.Verb, m.Reason // no force helps where the volume cannot be detached
		}
		m.VolumeAttachment, o.VolumeAttachment = "", ""
		m.Left, o.Left, m.Updated, o.Updated = "", "", "", ""
		m.Contenders, m.Forced, m.Forgotten = nil, false, false
		if m.Reason == reconcile.AssumedMounted {
			m.Reason = reconcile.StillMounted
		}
		r.row(pairName("decision after the time-out", pair), m, o, "reconciler.reconcile (forceDetach)", r.chanceOf(pair, MapOrder)...)
	}
}
