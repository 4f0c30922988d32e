package apply

import (
	"cmp"
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
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/backend"
)

// memory is a Cluster that keeps its objects in memory and writes to them as an API server
// does: with real JSON patches, resourceVersions, dry runs and managed fields. Tests can put
// faults before and after its writes.
type memory struct {
	t       testing.TB
	objects snapshot.Objects
	gaps    []snapshot.Gap
	now     time.Time
	version int
	denied  []repair.Permission
	consent repair.Consent
	release string // v1.36.3 where it is ""
	server  string // https://memory where it is ""
	// backends are the storage systems' own lists.
	backends []*backend.List
	// followed has the observations of the VolumeAttachments; nil where nobody watches them.
	followed *snapshot.Followed

	// before runs before a write, and after once it was stored; an error of either is the
	// answer.
	before, after func(op repair.Operation, dryRun bool) error
	// looking runs before each Snapshot, with its number from 1.
	looking func(n int) error
	// failing are the kinds whose lists the nth Snapshot cannot read.
	failing func(n int) []snapshot.Kind

	// reason is the reason in their gaps, and half reports whether they fail only at a later
	// page.
	reason string
	half   bool
	// looked runs once a Snapshot is made and before it is returned: the time of the reading
	// passes there.
	looked func()
	// nearing runs before each Near, with its number from 1.
	nearing func(n int) error

	mu    sync.Mutex
	log   []string
	looks int
	nears int
	// stored are the writes that were made.
	stored []repair.Operation
	// announced are the events that were written; mute is the error with which an event is
	// refused.
	announced []string
	mute      error
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
	objects, gaps := copied(m.objects), slices.Clone(m.gaps)
	if m.failing != nil {
		for _, kind := range m.failing(m.looks) {
			m.note("%s unread", kind)
			gaps = append(gaps, snapshot.Gap{Kind: kind, Reason: cmp.Or(m.reason, "InternalError")})
			drop(&objects, kind, m.half)
		}
	}
	source := snapshot.Source{Server: cmp.Or(m.server, "https://memory"), ServerVersion: cmp.Or(m.release, "v1.36.3")}
	s := snapshot.New(m.now, source, objects, gaps)
	s.Backends, s.Followed = m.backends, m.followed
	if m.looked != nil {
		m.looked()
	}
	return s, nil
}

// Near reads the objects that a write is about. nearing runs before each, with its number
// from 1.
func (m *memory) Near(ctx context.Context, _ *snapshot.Snapshot, near repair.Near) (repair.Nearby, error) {
	m.nears++
	m.note("near")
	if m.nearing != nil {
		if err := m.nearing(m.nears); err != nil {
			return repair.Nearby{}, err
		}
	}
	around := repair.Nearby{Near: near}
	o := copied(m.objects)
	for _, node := range o.Nodes {
		if slices.Contains(near.Nodes, types.NodeName(node.Name)) {
			around.Nodes = append(around.Nodes, node)
		}
	}
	for _, va := range o.VolumeAttachments {
		if slices.Contains(near.Attachments, va.Name) {
			around.Attachments = append(around.Attachments, va)
		}
	}
	for _, pod := range o.Pods {
		if slices.Contains(near.Nodes, types.NodeName(pod.Spec.NodeName)) {
			around.Pods = append(around.Pods, pod)
		}
	}
	return around, ctx.Err()
}

// listed makes the storage system's own list show vol-1 attached to exactly these machines.
func listed(machines ...string) func(*memory) {
	return func(m *memory) {
		v := backend.Volume{ID: "vol-1"}
		for _, machine := range machines {
			v.Attachments = append(v.Attachments, backend.Attachment{Machine: machine})
		}
		m.backends = []*backend.List{{File: "list", Format: backend.CSI, Taken: m.now.Add(-time.Minute), Volumes: []backend.Volume{v}}}
	}
}

// drop removes all objects of a kind, as a list does that fails at its first page, or half of
// them, as one does that fails at a later page.
func drop(o *snapshot.Objects, kind snapshot.Kind, half bool) {
	switch kind {
	case snapshot.Pods:
		o.Pods = rest(o.Pods, half)
	case snapshot.Nodes:
		o.Nodes = rest(o.Nodes, half)
	case snapshot.Claims:
		o.Claims = rest(o.Claims, half)
	case snapshot.Volumes:
		o.Volumes = rest(o.Volumes, half)
	case snapshot.VolumeAttachments:
		o.VolumeAttachments = rest(o.VolumeAttachments, half)
	case snapshot.CSINodes:
		o.CSINodes = rest(o.CSINodes, half)
	case snapshot.CSIDrivers:
		o.CSIDrivers = rest(o.CSIDrivers, half)
	case snapshot.StorageClasses:
		o.StorageClasses = rest(o.StorageClasses, half)
	case snapshot.Leases:
		o.Leases = rest(o.Leases, half)
	case snapshot.Events:
		o.Events = rest(o.Events, half)
	case snapshot.Deployments:
		o.Deployments = rest(o.Deployments, half)
	default:
		panic("no list of " + kind)
	}
}

func rest[O any](list []O, half bool) []O {
	if half {
		return list[:len(list)/2]
	}
	return nil
}

func (m *memory) Can(_ context.Context, wanted []repair.Permission) (missing []repair.Permission, err error) {
	m.note("can")
	for _, p := range wanted {
		if slices.Contains(m.denied, p) {
			missing = append(missing, p)
		}
	}
	return missing, nil
}

func (m *memory) Announce(_ context.Context, about corev1.ObjectReference, note Note) error {
	m.announced = append(m.announced, about.Kind+"/"+about.Name+" "+note.Reason+": "+note.Message)
	return m.mute
}

func (m *memory) Do(ctx context.Context, op repair.Operation, dryRun bool) (json.RawMessage, error) {
	m.note("do dryRun=%v", dryRun)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", repair.ErrUnknownOutcome, err)
	}
	if m.before != nil {
		if err := m.before(op, dryRun); err != nil {
			return nil, err
		}
	}
	after, err := m.write(op, dryRun)
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

// write mirrors what the API server does with the writes of a repair: the
// preconditions, dry runs, finalizers and what each subresource leaves alone.
func (m *memory) write(op repair.Operation, dryRun bool) (json.RawMessage, error) {
	if !op.Conditional() {
		m.t.Errorf("a write without its preconditions: %+v", op)
	}
	var after json.RawMessage
	var err error
	switch op.Target.Kind {
	case "Node":
		after, err = writeTo(m, &m.objects.Nodes, op, dryRun, func(old, patched *corev1.Node) {
			if op.Subresource == "status" {
				patched.Spec = old.Spec
				if len(patched.Status.VolumesAttached) == 0 {
					patched.Status.VolumesAttached = nil
				}
				m.manage(patched, repair.FieldManager)
			} else {
				patched.Status = old.Status
			}
		})
	case "VolumeAttachment":
		after, err = writeTo(m, &m.objects.VolumeAttachments, op, dryRun, func(old, patched *storagev1.VolumeAttachment) {
			if patched.Spec = old.Spec; op.Subresource == "status" {
				patched.Annotations, patched.Finalizers = old.Annotations, old.Finalizers
			} else {
				patched.Status = old.Status
			}
		})
	case "PersistentVolume":
		after, err = writeTo(m, &m.objects.Volumes, op, dryRun, func(old, patched *corev1.PersistentVolume) { patched.Status = old.Status })
	case "Pod":
		after, err = writeTo(m, &m.objects.Pods, op, dryRun, func(old, patched *corev1.Pod) { patched.Status = old.Status })
	default:
		m.t.Errorf("a write that nobody should make: %+v", op)
	}
	if err == nil && !dryRun {
		m.stored = append(m.stored, op)
	}
	return after, err
}

// object is an API object for writeTo.
type object[T any] interface {
	*T
	metav1.Object
	runtime.Object
}

// writeTo makes one write to a list. keep restores the fields that a patch may not change.
func writeTo[T any, P object[T]](m *memory, list *[]P, op repair.Operation, dryRun bool, keep func(old, patched P)) (json.RawMessage, error) {
	i := slices.IndexFunc(*list, func(o P) bool { return o.GetName() == op.Target.Name && o.GetNamespace() == op.Target.Namespace })
	if op.Verb == repair.VerbCreate {
		created := P(new(T))
		if err := json.Unmarshal(op.Object, created); err != nil {
			return nil, err
		}
		if i >= 0 {
			return nil, fmt.Errorf("%w: already exists", repair.ErrConflict)
		}
		created.SetUID(types.UID(fmt.Sprintf("uid-made-%d", m.version)))
		created.SetCreationTimestamp(metav1.NewTime(m.now))
		if !dryRun {
			m.version++
			created.SetResourceVersion(strconv.Itoa(m.version))
			*list = append(*list, created)
		}
		return repair.Compact(created), nil
	}
	if i < 0 {
		return nil, repair.ErrNotFound
	}
	old := (*list)[i]
	if op.Verb == repair.VerbDelete {
		if old.GetUID() != op.Target.UID || old.GetResourceVersion() != op.Target.ResourceVersion {
			return nil, fmt.Errorf("%w: precondition", repair.ErrConflict)
		}
		switch {
		case dryRun:
		case len(old.GetFinalizers()) == 0:
			*list = slices.Delete(slices.Clone(*list), i, i+1)
		case old.GetDeletionTimestamp() == nil:
			m.version++
			at := metav1.NewTime(m.now)
			gone := old.DeepCopyObject().(P)
			gone.SetDeletionTimestamp(&at)
			gone.SetResourceVersion(strconv.Itoa(m.version))
			(*list)[i] = gone
		}
		return repair.Compact(old), nil
	}
	if strings.Contains(string(op.Patch), "volumesInUse") {
		m.t.Errorf("volumesInUse is the kubelet's: %s", op.Patch)
	}
	text, err := patched(m.t, op, repair.Compact(old))
	if err != nil {
		return nil, err
	}
	result := P(new(T))
	if err := json.Unmarshal(text, result); err != nil {
		return nil, err
	}
	if result.GetResourceVersion() != old.GetResourceVersion() || result.GetUID() != old.GetUID() {
		return nil, fmt.Errorf("%w: resourceVersion", repair.ErrConflict) // 409
	}
	keep(old, result)
	if !dryRun {
		m.version++
		result.SetResourceVersion(strconv.Itoa(m.version))
		(*list)[i] = result
		if result.GetDeletionTimestamp() != nil && len(result.GetFinalizers()) == 0 {
			*list = slices.Delete(slices.Clone(*list), i, i+1)
		}
	}
	return repair.Compact(result), nil
}

// patched is the object with the patch on it. The patch has to carry its
// preconditions itself.
func patched(t testing.TB, op repair.Operation, object json.RawMessage) (json.RawMessage, error) {
	text := string(op.Patch)
	if op.Merge {
		if !strings.Contains(text, `"uid":"`+string(op.Target.UID)+`"`) || !strings.Contains(text, `"resourceVersion":"`+op.Target.ResourceVersion+`"`) {
			t.Errorf("a patch without its preconditions: %s", text)
		}
		return jsonpatch.MergePatch(object, op.Patch)
	}
	if !strings.Contains(text, `{"op":"test","path":"/metadata/uid","value":"`+string(op.Target.UID)+`"}`) ||
		!strings.Contains(text, `{"op":"replace","path":"/metadata/resourceVersion","value":"`+op.Target.ResourceVersion+`"}`) {
		t.Errorf("a patch without its preconditions: %s", text)
	}
	patch, err := jsonpatch.DecodePatch(op.Patch)
	if err != nil {
		return nil, err
	}
	after, err := patch.Apply(object)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", repair.ErrConflict, err) // 422
	}
	return after, nil
}

// manage records in the managed fields who wrote a node's status.
func (m *memory) manage(node *corev1.Node, manager string) {
	at, fields := metav1.NewTime(m.now), `{"f:status":{"f:volumesAttached":{}}}`
	if manager == "kubelet" { // which writes the conditions
		fields = `{"f:status":{"f:conditions":{}}}`
	}
	node.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, Time: &at, Subresource: "status", FieldsV1: metav1.NewFieldsV1(fields),
	}}
}

// node is the current node of the name.
func (m *memory) node(name string) *corev1.Node {
	for _, node := range m.objects.Nodes {
		if node.Name == name {
			return node
		}
	}
	m.t.Fatalf("no node %s", name)
	return nil
}

// rewrite changes a node without anybody's knowledge, as the controller does.
func (m *memory) rewrite(name, manager string, change func(*corev1.Node)) {
	for i, node := range m.objects.Nodes {
		if node.Name == name {
			node = node.DeepCopy()
			change(node)
			m.version++
			node.ResourceVersion = strconv.Itoa(m.version)
			m.manage(node, manager)
			m.objects.Nodes[i] = node
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

// applier makes an Applier over the memory whose waits take no time.
func (m *memory) applier() (*Applier, *journalSink) {
	sink := &journalSink{m: m}
	return &Applier{
		Cluster:    m,
		Consent:    m.consent,
		Journal:    NewJournal(sink, func() time.Time { return m.now }, nil),
		HoldFor:    2 * time.Minute,
		MaxRepairs: 10,
		Wait: func(ctx context.Context, d time.Duration) error {
			m.note("wait %v", d)
			m.now = m.now.Add(d)
			return ctx.Err()
		},
	}, sink
}

// propose looks and returns the repairs that can be made.
func (m *memory) propose() []repair.Repair {
	s, err := m.Snapshot(m.t.Context())
	if err != nil {
		m.t.Fatal(err)
	}
	m.log, m.looks = nil, 0
	_, repairs := repair.Examine(s, reconcile.Options{}, m.consent, diagnose.Request{})
	return repairs
}

// copied is a deep copy, so that a later write does not change an earlier snapshot.
func copied(o snapshot.Objects) snapshot.Objects {
	return snapshot.Objects{
		VolumeAttachments: deep(o.VolumeAttachments), Nodes: deep(o.Nodes), CSINodes: deep(o.CSINodes),
		CSIDrivers: deep(o.CSIDrivers), Volumes: deep(o.Volumes), Claims: deep(o.Claims), Leases: deep(o.Leases), Events: deep(o.Events), Pods: deep(o.Pods),
	}
}

func deep[T runtime.Object](list []T) []T {
	copies := make([]T, 0, len(list))
	for _, o := range list {
		copies = append(copies, o.DeepCopyObject().(T))
	}
	return copies
}
