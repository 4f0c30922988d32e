package repair

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// Undo takes back what a journal says was written, newest first, and journals
// that in turn. Each write is taken back on its own, on objects just read, and
// only where it still is what was written: whatever the controller has written
// since is the controller's.
//
// a.MaxRepairs does not bound it, and a.Settle does not matter: that an entry is
// gone is seen at once.
func (a *Applier) Undo(ctx context.Context, entries []Entry) ([]Result, error) {
	var needs []Permission
	var tasks []task
	for _, w := range slices.Backward(standing(entries)) {
		if w.intent.Repair != PatchNodeStatus {
			return nil, fmt.Errorf("write %d of the journal is a %q, which this release cannot take back", w.intent.Write, w.intent.Repair)
		}
		u := &nodeStatusUndo{written: w}
		if err := u.parse(); err != nil {
			return nil, fmt.Errorf("write %d of the journal: %w", w.intent.Write, err)
		}
		needs = append(needs, patchNodeStatusOf(w.intent.Finding.Node))
		tasks = append(tasks, task{
			result:  Result{Summary: u.summary(), Finding: *w.intent.Finding},
			prepare: u.prepare,
			confirm: func(ctx context.Context) (Outcome, string) { return a.confirmUndone(ctx, u) },
		})
	}
	if err := a.permitted(ctx, needs); err != nil {
		return nil, err
	}
	return a.run(ctx, tasks, len(tasks))
}

// written is one write of a journal that may still stand.
type written struct {
	intent Entry
	// ended is its outcome; nil where the process ended before it was known.
	ended *Entry
}

// standing are the writes that were or may have been made and that no later
// entry takes back, oldest first.
func standing(entries []Entry) []written {
	outcomes := map[int]*Entry{}
	undone := map[int]bool{}
	for i, e := range entries {
		if e.Type == Ended {
			outcomes[e.Write] = &entries[i]
		}
	}
	for _, e := range entries {
		if end := outcomes[e.Write]; e.Type == Intent && e.Undoes != 0 && end != nil && end.Outcome == Undone {
			undone[e.Undoes] = true
		}
	}
	var writes []written
	for _, e := range entries {
		end := outcomes[e.Write]
		if e.Type != Intent || e.Undoes != 0 || undone[e.Write] || (end != nil && end.Outcome == NotWritten) {
			continue
		}
		writes = append(writes, written{e, end})
	}
	return writes
}

// nodeStatusUndo takes one entry off a node's volumesAttached again.
type nodeStatusUndo struct {
	written
	volume corev1.UniqueVolumeName
	node   types.NodeName
	before []corev1.AttachedVolume
}

func (u *nodeStatusUndo) parse() error {
	var image nodeStatusFields
	if err := json.Unmarshal(u.intent.PreImage, &image); err != nil {
		return fmt.Errorf("read what was there before: %w", err)
	}
	f := u.intent.Finding
	u.volume, u.node, u.before = corev1.UniqueVolumeName(f.Volume), types.NodeName(f.Node), image.Status.VolumesAttached
	if u.volume == "" || u.node == "" || u.intent.Operation.Target.UID == "" {
		return fmt.Errorf("it does not say which volume was written to which node")
	}
	return nil
}

func (u *nodeStatusUndo) summary() string {
	return fmt.Sprintf("take volume %s off volumesAttached of node %s", u.volume, u.node)
}

// prepare works the removal out on the list as it is now, or refuses.
func (u *nodeStatusUndo) prepare(v *View) (*write, error) {
	if no := u.refusal(v); no != nil {
		return nil, no
	}
	node := v.Snapshot.Node(u.node)
	op := removeEntry(node, entryIndex(node, u.volume))
	return &write{
		op: op,
		intent: Entry{
			Server: v.Snapshot.Source.Server, Finding: u.intent.Finding, Repair: u.intent.Repair,
			Operation: &op, PreImage: nodeStatusImage(node), Undoes: u.intent.Write,
		},
		check:   func(after json.RawMessage) error { return checkVolumesAttached(after, u.before) },
		stands:  u.gone,
		version: func(v *View) string { return nodeVersion(v, u.node) },
	}, nil
}

func (u *nodeStatusUndo) gone(v *View) bool {
	node := v.Snapshot.Node(u.node)
	return node != nil && node.UID == u.intent.Operation.Target.UID && entryIndex(node, u.volume) < 0
}

// undoReads are the kinds that tell whether the volume is in use.
var undoReads = []snapshot.Kind{snapshot.Nodes, snapshot.Pods, snapshot.Claims, snapshot.Volumes}

// guardEntry is refused where there is nothing to take back.
const guardEntry = "entry"

func (u *nodeStatusUndo) refusal(v *View) *Refusal {
	if err := complete(v.Snapshot, undoReads); err != nil {
		return &Refusal{guardComplete, err.Error()}
	}
	node := v.Snapshot.Node(u.node)
	if node == nil || node.UID != u.intent.Operation.Target.UID {
		return &Refusal{guardEntry, fmt.Sprintf("node %s, as it was written to, is gone, and the entry with it", u.node)}
	}
	if entryIndex(node, u.volume) < 0 {
		if u.ended == nil {
			return &Refusal{guardEntry, "the entry is not there: the write was announced but cut short, or the controller has taken it off since"}
		}
		return &Refusal{guardEntry, "the entry is gone already"}
	}
	if after := append(slices.Clone(u.before), corev1.AttachedVolume{Name: u.volume}); !slices.Equal(node.Status.VolumesAttached, after) {
		return &Refusal{"own-list", fmt.Sprintf("volumesAttached is not the list that was written, %v, but %v", after, node.Status.VolumesAttached)}
	}
	if manager := lastWriter(node); manager != "" && manager != FieldManager {
		return &Refusal{"own-list", fmt.Sprintf("%s has written volumesAttached since: the entry is its own now", manager)}
	}
	if slices.Contains(node.Status.VolumesInUse, u.volume) {
		return &Refusal{"not-in-use", u.inUse(v)}
	}
	return nil
}

// inUse says why an entry must stay while the kubelet reports the volume in
// use. A kubelet that starts without the entry takes the volume for one that
// the controller does not guard, stops reporting it before it is unmounted, and
// the controller detaches it under the mount. That holds with a pod on it or
// without.
func (u *nodeStatusUndo) inUse(v *View) string {
	reason := fmt.Sprintf("the kubelet of node %s reports the volume in use, and the entry protects the mount if it restarts", u.node)
	var pods []string
	for _, pod := range v.World.LivePods(reconcile.VolumeNode{Volume: u.volume, Node: u.node}) {
		pods = append(pods, pod.Namespace+"/"+pod.Name)
	}
	if len(pods) == 0 {
		return reason
	}
	return reason + "; used by " + strings.Join(pods, ", ")
}

// lastWriter is who last wrote volumesAttached, as far as the managed fields say.
func lastWriter(node *corev1.Node) (manager string) {
	var at int64
	for _, m := range node.ManagedFields {
		if m.FieldsV1 != nil && m.Time != nil && strings.Contains(m.FieldsV1.GetRawString(), `"f:volumesAttached"`) && m.Time.Unix() >= at {
			manager, at = m.Manager, m.Time.Unix()
		}
	}
	return manager
}

// confirmUndone looks once: nobody but the controller writes the list, and it
// writes what it knows.
func (a *Applier) confirmUndone(ctx context.Context, u *nodeStatusUndo) (Outcome, string) {
	v, err := a.lookOnce(ctx)
	switch {
	case err != nil:
		return Unverified, err.Error()
	case !u.gone(v):
		return Unverified, "the entry is there again"
	}
	return Undone, ""
}

// moot says that a refusal leaves nothing undone.
func (r *Refusal) moot() bool { return r.Guard == guardFinding || r.Guard == guardEntry }
