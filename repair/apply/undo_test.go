package apply

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// unused makes the kubelet of n1 let go of the volume, so that undo is allowed.
func (m *memory) unused(handle string) {
	n := m.node("n1")
	n.Status.VolumesInUse = slices.DeleteFunc(n.Status.VolumesInUse, func(v corev1.UniqueVolumeName) bool { return v == uniqueName(handle) })
}

// repaired repairs the world and returns the journal.
func repaired(t testing.TB, m *memory) *journalSink {
	a, sink := m.applier()
	if _, err := a.Apply(t.Context(), m.propose()); err != nil {
		t.Fatal(err)
	}
	m.log = nil
	return sink
}

// undo takes the journal's writes back and appends to it, as the command does.
func (m *memory) undo(a *Applier, sink *journalSink) []Result {
	m.t.Helper()
	a.Journal = NewJournal(sink, func() time.Time { return m.now }, sink.entries())
	results, err := a.Undo(m.t.Context(), sink.entries())
	if err != nil {
		m.t.Fatal(err)
	}
	return results
}

func TestUndoInTheOrderOfSafety(t *testing.T) {
	m := lostEntry(t)
	before := m.node("n1").Status.DeepCopy().VolumesAttached
	sink := repaired(t, m)
	m.unused("vol-1")
	a, _ := m.applier()
	results := m.undo(a, sink)
	if len(results) != 1 || results[0].Outcome != Undone || results[0].Finding.Code != "VD301" {
		t.Errorf("%+v", results)
	}
	want := []string{
		"can", "look", "do dryRun=true", "journal intent", "sync", "near", "do dryRun=false", "look", "journal outcome Undone", "sync",
	}
	if diff := cmp.Diff(want, m.log); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(before, m.node("n1").Status.VolumesAttached); diff != "" {
		t.Error(diff)
	}
	last := sink.entries()[2]
	if last.Write != 2 || last.Undoes != 1 {
		t.Errorf("%+v", last)
	}
	if again := m.undo(a, sink); len(again) != 0 {
		t.Errorf("undone twice: %+v", again)
	}
}

// undoRefusals are worlds after a repair in which taking it back is wrong.
var undoRefusals = []struct {
	name, guard, detail string
	moot                bool
	change              func(*memory)
}{
	{"pods not read", "complete", "pods", false, func(m *memory) { m.gaps = gap(snapshot.Pods, "") }},
	{"nodes not read", "complete", "nodes", false, func(m *memory) { m.gaps = gap(snapshot.Nodes, "") }},
	{"node gone", "entry", "is gone", true, func(m *memory) { m.objects.Nodes = m.objects.Nodes[1:] }},
	{"node made anew", "entry", "is gone", true, func(m *memory) { m.node("n1").UID = "another" }},
	{"entry gone", "entry", "the entry is gone already", true, func(m *memory) {
		m.rewrite("n1", "kube-controller-manager", func(n *corev1.Node) { n.Status.VolumesAttached = n.Status.VolumesAttached[:1] })
	}},
	{"another volume attached since", "own-list", "is not the list that was written", false, func(m *memory) {
		m.rewrite("n1", repair.FieldManager, func(n *corev1.Node) {
			n.Status.VolumesAttached = append(n.Status.VolumesAttached, corev1.AttachedVolume{Name: uniqueName("vol-9")})
		})
	}},
	{"list in another order", "own-list", "is not the list that was written", false, func(m *memory) {
		m.rewrite("n1", repair.FieldManager, func(n *corev1.Node) { slices.Reverse(n.Status.VolumesAttached) })
	}},
	{"the controller wrote the same", "own-list", "kube-controller-manager has written", false, func(m *memory) {
		m.rewrite("n1", "kube-controller-manager", func(*corev1.Node) {})
	}},
	{"another owns the list since the same second", "own-list", "do not tell who has written", false, func(m *memory) {
		other := m.node("n1").ManagedFields[0]
		other.Manager = "a-robot"
		m.node("n1").ManagedFields = append([]metav1.ManagedFieldsEntry{other}, m.node("n1").ManagedFields...)
	}},
	{"in use by the pod", "not-in-use", "used by default/web-0", false, func(m *memory) {
		m.node("n1").Status.VolumesInUse = []corev1.UniqueVolumeName{uniqueName("vol-1")}
	}},
	{"in use by nobody that is left", "not-in-use", "reports the volume in use", false, func(m *memory) {
		m.node("n1").Status.VolumesInUse = []corev1.UniqueVolumeName{uniqueName("vol-1")}
		m.objects.Pods = nil
	}},
}

func TestUndoRefuses(t *testing.T) {
	for _, test := range undoRefusals {
		t.Run(test.name, func(t *testing.T) {
			m := lostEntry(t)
			sink := repaired(t, m)
			m.unused("vol-1")
			test.change(m)
			a, _ := m.applier()
			results := m.undo(a, sink)
			r := results[0]
			if r.Outcome != Skipped || r.Guard != test.guard || !strings.Contains(r.Detail, test.detail) || r.Moot != test.moot || len(m.stored) != 1 {
				t.Errorf("%d writes, %+v", len(m.stored), r)
			}
			if r.LeftUndone() == test.moot {
				t.Errorf("LeftUndone is %v", r.LeftUndone())
			}
		})
	}
}

func TestUndoNewestFirst(t *testing.T) {
	m := two(t)
	before := m.node("n1").Status.DeepCopy().VolumesAttached
	sink := repaired(t, m)
	m.unused("vol-1")
	m.unused("vol-2")
	a, _ := m.applier()
	results := m.undo(a, sink)
	if len(results) != 2 || results[0].Finding.PersistentVolume != "pv2" || results[0].Outcome != Undone || results[1].Outcome != Undone {
		t.Errorf("%+v", results)
	}
	if diff := cmp.Diff(before, m.node("n1").Status.VolumesAttached); diff != "" {
		t.Error(diff)
	}
}

// TestUndoAfterCrash: for an intent without an outcome the object decides.
func TestUndoAfterCrash(t *testing.T) {
	for landed, want := range map[bool]Outcome{true: Undone, false: Skipped} {
		m := lostEntry(t)
		sink := repaired(t, m)
		m.unused("vol-1")
		sink.data = sink.data[:slices.Index(sink.data, '\n')+1] // killed before the outcome
		if !landed {
			m.rewrite("n1", repair.FieldManager, func(n *corev1.Node) { n.Status.VolumesAttached = n.Status.VolumesAttached[:1] })
		}
		a, _ := m.applier()
		r := m.undo(a, sink)[0]
		if r.Outcome != want || (!landed && !strings.Contains(r.Detail, "cut short")) {
			t.Errorf("landed %v: %+v", landed, r)
		}
		if diff := cmp.Diff([]string{"vol-0"}, m.entries()); diff != "" {
			t.Error(diff)
		}
	}
}

func TestUndoSkipsWhatWasNeverWritten(t *testing.T) {
	m := lostEntry(t)
	m.before = times(9, false, func() error { return repair.ErrForbidden })
	sink := repaired(t, m)
	if len(sink.entries()) != 2 {
		t.Fatalf("%+v", sink.entries())
	}
	a, _ := m.applier()
	if results := m.undo(a, sink); len(results) != 0 {
		t.Errorf("%+v", results)
	}
}

func TestUndoNeedsRightsAndItsJournal(t *testing.T) {
	m := lostEntry(t)
	sink := repaired(t, m)
	a, _ := m.applier()
	m.denied = []repair.Permission{{Verb: repair.VerbPatch, Resource: "nodes", Subresource: "status", Name: "n1"}}
	if _, err := a.Undo(t.Context(), sink.entries()); err == nil || !strings.Contains(err.Error(), "patch nodes/status n1") {
		t.Error(err)
	}
	foreign := sink.entries()
	foreign[0].Repair = "something-later"
	if _, err := a.Undo(t.Context(), foreign); err == nil || !strings.Contains(err.Error(), "cannot take back") {
		t.Error(err)
	}
	if len(m.stored) != 1 {
		t.Errorf("%d writes", len(m.stored))
	}
}

func TestUndoConflictAndLostAnswer(t *testing.T) {
	for name, fault := range map[string]func(m *memory){
		"conflict": func(m *memory) {
			m.before = times(1, false, func() error {
				m.rewrite("n1", repair.FieldManager, func(n *corev1.Node) { n.Labels = map[string]string{"beat": "1"} })
				return nil
			})
		},
		"lost answer": func(m *memory) {
			m.after = times(1, false, func() error { return repair.ErrUnknownOutcome })
		},
	} {
		m := lostEntry(t)
		sink := repaired(t, m)
		m.unused("vol-1")
		fault(m)
		a, _ := m.applier()
		if r := m.undo(a, sink)[0]; r.Outcome != Undone {
			t.Errorf("%s: %+v", name, r)
		}
		if diff := cmp.Diff([]string{"vol-0"}, m.entries()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestDoThenUndoRestores: whatever the list held, and however often a write met a conflict or
// lost its answer, undoing restores the list.
func TestDoThenUndoRestores(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := lostEntry(t)
		m.t = t
		n := m.node("n1")
		n.Status.VolumesAttached = nil
		for i := range rapid.IntRange(0, 5).Draw(rt, "others") {
			name := corev1.UniqueVolumeName(fmt.Sprintf("kubernetes.io/csi/%s^%s-%d", driver, rapid.StringMatching(`[ -~]{1,8}`).Draw(rt, "handle"), i))
			path := rapid.SampledFrom([]string{"", "/dev/sda", `"quoted"`, "<&>"}).Draw(rt, "path")
			n.Status.VolumesAttached = append(n.Status.VolumesAttached, corev1.AttachedVolume{Name: name, DevicePath: path})
			n.Status.VolumesInUse = append(n.Status.VolumesInUse, name)
		}
		for i := range rapid.IntRange(0, 2).Draw(rt, "more lost") {
			handle := fmt.Sprintf("lost-%d", i)
			m.addVolume("n1", "pv-"+handle, handle, "pod-"+handle)
			n.Status.VolumesInUse = append(n.Status.VolumesInUse, uniqueName(handle))
		}
		before := n.Status.DeepCopy()
		faults := rapid.SliceOfN(rapid.SampledFrom([]string{"", "conflict", "lost"}), 8, 8).Draw(rt, "faults")
		last := ""
		fault := func(when string) func(repair.Operation, bool) error {
			return func(_ repair.Operation, dryRun bool) error {
				if dryRun || len(faults) == 0 || faults[0] != when {
					return nil
				}
				// Two conflicts in a row are a failure, which leaves nothing to undo.
				if when == "conflict" && last == "conflict" {
					return nil
				}
				last, faults = faults[0], faults[1:]
				if when == "lost" {
					return repair.ErrUnknownOutcome
				}
				m.rewrite("n1", "kubelet", func(n *corev1.Node) { n.Labels = map[string]string{"beat": fmt.Sprint(m.version)} })
				return nil
			}
		}
		m.before, m.after = fault("conflict"), fault("lost")
		a, sink := m.applier()
		a.HoldFor = 0
		repairs := m.propose()
		results, err := a.Apply(context.Background(), repairs)
		if err != nil {
			rt.Fatal(err)
		}
		for _, r := range results {
			if r.Outcome != Repaired {
				rt.Fatalf("%+v", r)
			}
		}
		if got, want := len(m.node("n1").Status.VolumesAttached), len(before.VolumesAttached)+len(repairs); got != want {
			rt.Fatalf("%d entries, not %d", got, want)
		}
		m.before, m.after = nil, nil
		m.node("n1").Status.VolumesInUse = nil
		for _, r := range m.undo(a, sink) {
			if r.Outcome != Undone {
				rt.Fatalf("%+v", r)
			}
		}
		if diff := cmp.Diff(before.VolumesAttached, m.node("n1").Status.VolumesAttached); diff != "" {
			rt.Fatal(diff)
		}
	})
}
