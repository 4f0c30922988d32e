package repair

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// memory is a Cluster that keeps its objects in memory and writes to them as an
// API server does: with real JSON patches, resourceVersions, dry runs and
// managed fields. Faults are put in front of and behind its writes.
type memory struct {
	t       testing.TB
	objects snapshot.Objects
	gaps    []snapshot.Gap
	now     time.Time
	version int
	denied  []Permission

	// before a write, and after it was stored; an error is the answer.
	before, after func(op Operation, dryRun bool) error
	// looking runs before each Snapshot, with its number from 1.
	looking func(n int) error

	mu    sync.Mutex
	log   []string
	looks int
	// stored are the writes that were made.
	stored []Operation
}

func (m *memory) note(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.log = append(m.log, fmt.Sprintf(format, args...))
}

func (m *memory) Snapshot(ctx context.Context) (*snapshot.Snapshot, error) {
	m.looks++
	m.note("look")
	if m.looking != nil {
		if err := m.looking(m.looks); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	source := snapshot.Source{Server: "https://memory", ServerVersion: "v1.36.3"}
	return snapshot.New(m.now, source, copied(m.objects), slices.Clone(m.gaps)), nil
}

func (m *memory) Can(_ context.Context, wanted []Permission) (missing []Permission, err error) {
	m.note("can")
	for _, p := range wanted {
		if slices.Contains(m.denied, p) {
			missing = append(missing, p)
		}
	}
	return missing, nil
}

func (m *memory) Do(ctx context.Context, op Operation, dryRun bool) (json.RawMessage, error) {
	m.note("do dryRun=%v", dryRun)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
	}
	if m.before != nil {
		if err := m.before(op, dryRun); err != nil {
			return nil, err
		}
	}
	after, err := m.patch(op, dryRun)
	if err != nil {
		return nil, err
	}
	if m.after != nil {
		if err := m.after(op, dryRun); err != nil {
			return nil, err
		}
	}
	return after, nil
}

// patch mirrors a JSON patch of nodes/status on the API server.
func (m *memory) patch(op Operation, dryRun bool) (json.RawMessage, error) {
	if op.Verb != VerbPatch || op.Target.Kind != "Node" || op.Subresource != "status" {
		m.t.Errorf("a write that nobody should make: %+v", op)
	}
	if text := string(op.Patch); !op.Conditional() ||
		!strings.Contains(text, `{"op":"test","path":"/metadata/uid","value":"`+string(op.Target.UID)+`"}`) ||
		!strings.Contains(text, `{"op":"replace","path":"/metadata/resourceVersion","value":"`+op.Target.ResourceVersion+`"}`) ||
		!strings.Contains(text, `{"op":"test","path":"/status/volumesAttached"`) {
		m.t.Errorf("a write without its preconditions: %s", text)
	}
	if strings.Contains(string(op.Patch), "volumesInUse") {
		m.t.Errorf("volumesInUse is the kubelet's: %s", op.Patch)
	}
	i := slices.IndexFunc(m.objects.Nodes, func(n *corev1.Node) bool { return n.Name == op.Target.Name })
	if i < 0 {
		return nil, ErrNotFound
	}
	node := m.objects.Nodes[i]
	patch, err := jsonpatch.DecodePatch(op.Patch)
	if err != nil {
		return nil, err
	}
	patched, err := patch.Apply(compact(node))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConflict, err) // 422
	}
	var result corev1.Node
	if err := json.Unmarshal(patched, &result); err != nil {
		return nil, err
	}
	if result.ResourceVersion != node.ResourceVersion {
		return nil, fmt.Errorf("%w: resourceVersion", ErrConflict) // 409
	}
	written := node.DeepCopy()
	written.Status = result.Status
	if len(written.Status.VolumesAttached) == 0 {
		written.Status.VolumesAttached = nil
	}
	m.store(i, written, FieldManager, dryRun)
	if !dryRun {
		m.stored = append(m.stored, op)
	}
	return compact(written), nil
}

// store puts a node in its place, as written by the manager.
func (m *memory) store(i int, node *corev1.Node, manager string, dryRun bool) {
	if dryRun {
		return
	}
	m.version++
	node.ResourceVersion = strconv.Itoa(m.version)
	at := metav1.NewTime(m.now)
	node.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, Time: &at, Subresource: "status",
		FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:volumesAttached":{}}}`),
	}}
	m.objects.Nodes[i] = node
}

// node is the one with the name, as it is now.
func (m *memory) node(name string) *corev1.Node {
	for _, node := range m.objects.Nodes {
		if node.Name == name {
			return node
		}
	}
	m.t.Fatalf("no node %s", name)
	return nil
}

// rewrite changes a node behind everybody's back, as the controller does.
func (m *memory) rewrite(name, manager string, change func(*corev1.Node)) {
	for i, node := range m.objects.Nodes {
		if node.Name == name {
			node = node.DeepCopy()
			change(node)
			m.store(i, node, manager, false)
		}
	}
}

// journalSink is a file in memory that can fail and tear.
type journalSink struct {
	m    *memory
	data []byte
	fail func(line []byte) error
}

func (s *journalSink) Write(line []byte) (int, error) {
	var e Entry
	if err := json.Unmarshal(line, &e); err != nil {
		s.m.t.Errorf("a journal's line is no entry: %s", line)
	}
	s.m.note("journal %s", strings.TrimSpace(string(e.Type)+" "+string(e.Outcome)))
	if s.fail != nil {
		if err := s.fail(line); err != nil {
			return 0, err
		}
	}
	s.data = append(s.data, line...)
	return len(line), nil
}

func (s *journalSink) Sync() error {
	s.m.note("sync")
	return nil
}

func (s *journalSink) entries() []Entry {
	entries, intact, err := ReadJournal(strings.NewReader(string(s.data)))
	if err != nil || int(intact) != len(s.data) {
		s.m.t.Fatalf("read the journal: %v (%d of %d bytes)\n%s", err, intact, len(s.data), s.data)
	}
	return entries
}

// applier makes an Applier over the memory that waits without waiting.
func (m *memory) applier() (*Applier, *journalSink) {
	sink := &journalSink{m: m}
	return &Applier{
		Cluster:    m,
		Journal:    NewJournal(sink, func() time.Time { return m.now }, nil),
		Settle:     2 * time.Minute,
		MaxRepairs: 10,
		Wait: func(ctx context.Context, d time.Duration) error {
			m.note("wait %v", d)
			m.now = m.now.Add(d)
			return ctx.Err()
		},
	}, sink
}

// propose looks and returns what can be repaired.
func (m *memory) propose() []Repair {
	s, err := m.Snapshot(m.t.Context())
	if err != nil {
		m.t.Fatal(err)
	}
	m.log, m.looks = nil, 0
	return Propose(Look(s, diagnose.Options{}))
}

// copied is deep, so that nobody sees a later write in an earlier snapshot.
func copied(o snapshot.Objects) snapshot.Objects {
	return snapshot.Objects{
		VolumeAttachments: deep(o.VolumeAttachments), Nodes: deep(o.Nodes), CSINodes: deep(o.CSINodes),
		CSIDrivers: deep(o.CSIDrivers), Volumes: deep(o.Volumes), Claims: deep(o.Claims), Leases: deep(o.Leases), Pods: deep(o.Pods),
	}
}

func deep[T runtime.Object](list []T) []T {
	copies := make([]T, 0, len(list))
	for _, o := range list {
		copies = append(copies, o.DeepCopyObject().(T))
	}
	return copies
}
