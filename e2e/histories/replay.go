package histories

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/conformance"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/oracle/wire"
	"github.com/volume-doctor/kubectl-volume-doctor/evidence/controllerlog"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// flagLine is the line that kube-controller-manager logs at --v=1 and higher before it starts
// any controller.
const flagLine = "I%s       1 flags.go:64] FLAG: --v=\"2\"\n"

// Replays is a function that reads the log of a story up to a moment.
type Replays func(release conformance.Release, story *wire.Story, at time.Duration) (*snapshot.Controller, error)

// Replay reads it with package controllerlog.
func Replay(release conformance.Release, story *wire.Story, at time.Duration) (*snapshot.Controller, error) {
	text := fmt.Sprintf(flagLine, story.Began.UTC().Format("0102 15:04:05.000000")) + story.Log
	return controllerlog.Read(strings.NewReader(text), controllerlog.Options{Now: story.Began.Add(at), Release: string(release)})
}

// CompareLog compares what each moment's log proves with the controller's memory at that
// moment.
func CompareLog(release conformance.Release, request *wire.Request, story *wire.Story, replay Replays) *Result {
	all := &Result{Counts: map[string]int{}}
	for _, m := range story.Moments {
		at := func(at time.Duration) *Result {
			c := &comparison{Result: &Result{Counts: map[string]int{}}, request: request, story: story}
			c.compareMemory(release, &moment{Moment: m}, replay, at)
			return c.Result
		}
		result := at(m.At)
		if len(result.Differences) > 0 && slices.ContainsFunc(m.Operations, func(op wire.Operation) bool { return op.Pending }) {
			// An operation may end within the moment's microsecond and yet after it. The log
			// has no finer times.
			if earlier := at(m.At - time.Microsecond); len(earlier.Differences) == 0 {
				result = earlier
				result.Counts["memory: moments within the microsecond of an end"]++
			}
		}
		for what, n := range result.Counts {
			all.Counts[what] += n
		}
		all.Differences = append(all.Differences, result.Differences...)
	}
	return all
}

// compareMemory compares the replay of the log up to the time with the controller's caches
// and its list of operations at the moment.
func (c *comparison) compareMemory(release conformance.Release, m *moment, replay Replays, at time.Duration) {
	if m.justStarted() {
		return // the caches are still empty
	}
	log, err := replay(release, c.story, at)
	if err != nil {
		c.differ(m.At, reconcile.VolumeNode{}, "the log cannot be read: %v", err)
		return
	}
	memory := reconcile.MemoryOf(asked(release, c.request, c.story.Began, m.Moment, log))
	if memory == nil || !memory.Leads {
		c.differ(m.At, reconcile.VolumeNode{}, "the log is not taken for the leader's")
		return
	}
	for _, volume := range volumes {
		name := wire.UniqueName(volume)
		for _, node := range nodes {
			c.compareState(m, memory, reconcile.VolumeNode{Volume: name, Node: types.NodeName(node)})
		}
		c.compareBackOffs(m, memory, name)
	}
	for _, va := range m.VolumeAttachments {
		pair := reconcile.VolumeNode{Volume: wire.UniqueName(*va.Spec.Source.PersistentVolumeName), Node: types.NodeName(va.Spec.NodeName)}
		if row := m.actual(pair); memory.Unheard(pair, va) && !m.lists(pair) {
			c.Counts["memory: attachments that it has not heard of"]++
			if row != nil {
				c.differ(m.At, pair, "the log is silent on the VolumeAttachment, and the controller has %s", row.State)
			}
		}
	}
}

// compareState checks that the controller's state is one that the log leaves possible.
func (c *comparison) compareState(m *moment, memory *reconcile.Memory, pair reconcile.VolumeNode) {
	state := snapshot.RememberedAbsent
	if row := m.actual(pair); row != nil {
		state = snapshot.Remembered(row.State)
	}
	c.Counts["memory pairs"]++
	known := memory.Pair(pair)
	switch {
	case known == nil && state == snapshot.RememberedAbsent:
		c.Counts["memory: not mentioned, and absent"]++
		return
	case known == nil || len(known.States) == 0:
		c.Counts["memory: the log does not tell"]++
	case !slices.Contains(known.States, state):
		c.differ(m.At, pair, "the controller has %s, and the log says %s", state, known.States)
	case len(known.States) == 1:
		c.Counts["memory: the log tells"]++
	default:
		c.Counts["memory: the log narrows it down"]++
	}
	if known == nil {
		return
	}
	running := slices.ContainsFunc(m.Operations, func(op wire.Operation) bool {
		return op.Pending && op.Volume == string(pair.Volume) && (op.Node == "" || op.Node == string(pair.Node))
	})
	if known.Running != "" && !running {
		c.differ(m.At, pair, "nothing runs, and the log says %s since %s", known.Running, known.RunningSince)
	}
	if known.Running != "" {
		c.Counts["memory: operations that run"]++
	}
}

// operationNames are the operations by their names in the controller's list.
var operationNames = map[string]snapshot.Operation{"volume_attach": snapshot.AttachOperation, "volume_detach": snapshot.DetachOperation}

// compareBackOffs checks that the same operations are held back until the same moment, to a
// second, and that each running operation is known to run.
func (c *comparison) compareBackOffs(m *moment, memory *reconcile.Memory, volume corev1.UniqueVolumeName) {
	type key struct {
		node      string
		operation snapshot.Operation
	}
	has, says, doubtful := map[key]time.Time{}, map[key]time.Time{}, map[key]bool{}
	now := c.story.Began.Add(m.At)
	for _, op := range m.Operations {
		switch until := c.story.Began.Add(op.Until); {
		case op.Volume != string(volume):
		case op.Pending:
			if !slices.ContainsFunc(memory.Pairs, func(p snapshot.RememberedPair) bool {
				return p.Volume == volume && (op.Node == "" || op.Node == string(p.Node)) && p.Running != ""
			}) {
				c.differ(m.At, reconcile.VolumeNode{Volume: volume, Node: types.NodeName(op.Node)}, "%s runs, and the log does not say so", op.Name)
			}
		case until.After(now):
			has[key{op.Node, operationNames[op.Name]}] = until
		}
	}
	for _, b := range memory.BackOffs {
		if b.Volume == volume && b.Until.After(now) {
			says[key{string(b.Node), b.Operation}], doubtful[key{string(b.Node), b.Operation}] = b.Until, b.Doubtful
		}
	}
	for k, until := range has {
		c.Counts["memory: next attempts"]++
		if said, ok := says[k]; !ok || said.Sub(until).Abs() > time.Second {
			c.differ(m.At, reconcile.VolumeNode{Volume: volume, Node: types.NodeName(k.node)}, "%s is held back until %s, and the log says %s", k.operation, until, said)
		}
	}
	for k, said := range says {
		if _, ok := has[k]; doubtful[k] {
			c.Counts["memory: next attempts that the log leaves open"]++
		} else if !ok {
			c.differ(m.At, reconcile.VolumeNode{Volume: volume, Node: types.NodeName(k.node)}, "%s is not held back, and the log says until %s", k.operation, said)
		}
	}
}

func (m *moment) actual(pair reconcile.VolumeNode) *wire.Actual {
	for i := range m.Actual {
		if pairOf(m.Actual[i].Pair) == pair {
			return &m.Actual[i]
		}
	}
	return nil
}

// lists reports whether the node's status has the volume as attached.
func (m *moment) lists(pair reconcile.VolumeNode) bool {
	return slices.ContainsFunc(m.Nodes, func(n *corev1.Node) bool {
		return n.Name == string(pair.Node) && slices.ContainsFunc(n.Status.VolumesAttached, func(v corev1.AttachedVolume) bool { return v.Name == pair.Volume })
	})
}
