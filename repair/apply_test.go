package repair

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
)

// one applies the only repair of the world.
func (m *memory) one(a *Applier) Result {
	m.t.Helper()
	results, err := a.Apply(m.t.Context(), m.propose())
	if err != nil || len(results) != 1 {
		m.t.Fatalf("%+v, %v", results, err)
	}
	return results[0]
}

func TestApplyInTheOrderOfSafety(t *testing.T) {
	m := lostEntry(t)
	a, sink := m.applier()
	if r := m.one(a); r.Outcome != Repaired || r.LeftUndone() || r.Operation == nil {
		t.Errorf("%+v", r)
	}
	want := []string{
		"can", "look", "do dryRun=true", "journal intent", "sync", "do dryRun=false",
		"look", "wait 5s", "look", "wait 10s", "look", "wait 20s", "look", "wait 40s", "look", "wait 45s", "look",
		"journal outcome Repaired", "sync",
	}
	if diff := cmp.Diff(want, m.log); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"vol-0", "vol-1"}, m.entries()); diff != "" {
		t.Error(diff)
	}
	entries := sink.entries()
	if len(entries) != 2 || entries[0].Type != Intent || entries[1].Outcome != Repaired {
		t.Fatalf("%+v", entries)
	}
	intent := entries[0]
	if intent.Server != "https://memory" || intent.Finding.Code != "VD301" || intent.Finding.Node != "n1" ||
		string(intent.PreImage) != `{"status":{"volumesAttached":[{"name":"kubernetes.io/csi/ebs.csi.aws.com^vol-0","devicePath":""}]}}` ||
		!strings.Contains(string(intent.Inverse.Patch), `{"op":"remove","path":"/status/volumesAttached/1"}`) {
		t.Errorf("%+v", intent)
	}
}

func TestApplyToAnEmptyList(t *testing.T) {
	m := lostEntry(t)
	m.node("n1").Status.VolumesAttached = nil
	m.objects.Pods = slices.DeleteFunc(m.objects.Pods, func(p *corev1.Pod) bool { return p.Name == "web-x" })
	a, _ := m.applier()
	if r := m.one(a); r.Outcome != Repaired {
		t.Errorf("%+v", r)
	}
	if diff := cmp.Diff([]string{"vol-1"}, m.entries()); diff != "" {
		t.Error(diff)
	}
}

func TestDryRunsWriteNothing(t *testing.T) {
	for _, mode := range []DryRunMode{DryRunClient, DryRunServer} {
		m := lostEntry(t)
		a, sink := m.applier()
		a.DryRun = mode
		before := m.node("n1").DeepCopy()
		if r := m.one(a); r.Outcome != DryRun || r.Operation == nil {
			t.Errorf("%s: %+v", mode, r)
		}
		if len(m.stored) != 0 || len(sink.data) != 0 || !cmp.Equal(before, m.node("n1")) {
			t.Errorf("%s: something was written: %v\n%s", mode, m.stored, sink.data)
		}
		if sent := slices.Contains(m.log, "do dryRun=true"); sent != (mode == DryRunServer) {
			t.Errorf("%s: %v", mode, m.log)
		}
	}
}

// TestFaults: what the API server and the network can do to a write.
func TestFaults(t *testing.T) {
	lost := fmt.Errorf("%w: the connection was cut", ErrUnknownOutcome)
	heartbeat := func(m *memory) {
		m.rewrite("n1", "kubelet", func(n *corev1.Node) { n.Labels = map[string]string{"beat": m.now.String()} })
	}
	for name, test := range map[string]struct {
		fault   func(m *memory)
		outcome Outcome
		detail  string
		writes  int
		journal []Outcome
	}{
		"conflict with the dry run, once": {func(m *memory) {
			m.before = times(1, true, func() error { heartbeat(m); return nil })
		}, Repaired, "", 1, []Outcome{Repaired}},
		"conflict with the write, once": {func(m *memory) {
			m.before = times(1, false, func() error { heartbeat(m); return nil })
		}, Repaired, "", 1, []Outcome{NotWritten, Repaired}},
		"conflict again and again": {func(m *memory) {
			m.before = times(9, false, func() error { heartbeat(m); return nil })
		}, Failed, "changed meanwhile", 0, []Outcome{NotWritten, NotWritten}},
		"answer lost after the write": {func(m *memory) {
			m.after = times(1, false, func() error { return lost })
		}, Repaired, "the answer was lost, but the object shows the write", 1, []Outcome{Repaired}},
		"cut before the write, and the node changed": {func(m *memory) {
			m.before = times(1, false, func() error { heartbeat(m); return lost })
		}, Repaired, "", 1, []Outcome{NotWritten, Repaired}},
		"cut before the write, for good": {func(m *memory) {
			m.before = times(1, false, func() error { return lost })
		}, Unverified, "may still be under way", 0, []Outcome{Unverified}},
		"answer lost, and nobody answers any more": {func(m *memory) {
			m.after = times(1, false, func() error {
				m.looking = func(int) error { return errors.New("no route to host") }
				return lost
			})
		}, Unverified, "no route to host", 1, []Outcome{Unverified}},
		"forbidden by the dry run": {func(m *memory) {
			m.before = times(1, true, func() error { return ErrForbidden })
		}, Failed, "not allowed", 0, nil},
		"forbidden by the write": {func(m *memory) {
			m.before = times(1, false, func() error { return ErrForbidden })
		}, Failed, "not allowed", 0, []Outcome{NotWritten}},
		"the controller overwrites it": {func(m *memory) {
			m.looking = func(n int) error {
				if n == 5 {
					m.rewrite("n1", "kube-controller-manager", func(n *corev1.Node) { n.Status.VolumesAttached = n.Status.VolumesAttached[:1] })
				}
				return nil
			}
		}, Unverified, "something has overwritten it since", 1, []Outcome{Unverified}},
		"the pod goes while it settles": {func(m *memory) {
			m.looking = func(n int) error {
				if n == 5 {
					m.objects.Pods = m.objects.Pods[:1]
					m.rewrite("n1", "kube-controller-manager", func(n *corev1.Node) { n.Status.VolumesAttached = n.Status.VolumesAttached[:1] })
				}
				return nil
			}
		}, Repaired, "no pod wants it any more", 1, []Outcome{Repaired}},
		"a look fails while it settles": {func(m *memory) {
			m.looking = func(n int) error {
				if n == 4 {
					return errors.New("too many requests")
				}
				return nil
			}
		}, Repaired, "", 1, []Outcome{Repaired}},
		"the last look fails": {func(m *memory) {
			m.looking = func(n int) error {
				if n == 7 {
					return errors.New("too many requests")
				}
				return nil
			}
		}, Unverified, "too many requests", 1, []Outcome{Unverified}},
		"the pods cannot be read in the end": {func(m *memory) {
			m.looking = func(n int) error {
				if n == 7 {
					m.gaps = gap("pods", "")
				}
				return nil
			}
		}, Unverified, "the pods were not all read", 1, []Outcome{Unverified}},
	} {
		t.Run(name, func(t *testing.T) {
			m := lostEntry(t)
			a, sink := m.applier()
			repairs := m.propose()
			test.fault(m)
			results, err := a.Apply(t.Context(), repairs)
			if err != nil {
				t.Fatal(err)
			}
			r := results[0]
			if r.Outcome != test.outcome || !strings.Contains(r.Detail, test.detail) || len(m.stored) != test.writes {
				t.Errorf("%d writes, %+v\n%s", len(m.stored), r, strings.Join(m.log, "\n"))
			}
			var ended []Outcome
			for _, e := range sink.entries() {
				if e.Type == Ended {
					ended = append(ended, e.Outcome)
				}
			}
			if diff := cmp.Diff(test.journal, ended); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// times does something in front of the first n requests of the sort.
func times(n int, dryRun bool, do func() error) func(Operation, bool) error {
	return func(_ Operation, dry bool) error {
		if dry != dryRun || n == 0 {
			return nil
		}
		n--
		return do()
	}
}

func TestAnswerTooLateIsStillFound(t *testing.T) {
	m := lostEntry(t)
	a, _ := m.applier()
	repairs := m.propose()
	m.before = times(1, false, func() error {
		m.looking = func(n int) error { // the write lands between the third and the fourth look for it
			if n == 5 {
				op := repairs[0].Do
				m.looking = nil
				_, err := m.patch(op, false)
				return err
			}
			return nil
		}
		return ErrUnknownOutcome
	})
	results, err := a.Apply(t.Context(), repairs)
	if err != nil || results[0].Outcome != Repaired || len(m.stored) != 1 {
		t.Errorf("%+v, %v", results, err)
	}
}

func TestMissingRightsWriteNothing(t *testing.T) {
	m := lostEntry(t)
	m.denied = []Permission{patchNodeStatusOf("n1")}
	a, sink := m.applier()
	_, err := a.Apply(t.Context(), m.propose())
	if !errors.Is(err, ErrForbidden) || !strings.Contains(err.Error(), "nothing was written") || !strings.Contains(err.Error(), "patch nodes/status n1") {
		t.Errorf("%v", err)
	}
	if slices.ContainsFunc(m.log, func(l string) bool { return strings.HasPrefix(l, "do") }) || len(sink.data) != 0 {
		t.Errorf("%v", m.log)
	}
}

func TestAdmissionThatChangesTheWriteIsRefused(t *testing.T) {
	m := lostEntry(t)
	repairs := m.propose()
	a, _ := m.applier()
	a.Cluster = meddling{m}
	results, err := a.Apply(t.Context(), repairs)
	if err != nil || results[0].Outcome != Failed || !strings.Contains(results[0].Detail, "would store") || len(m.stored) != 0 {
		t.Errorf("%+v, %v", results, err)
	}
}

// meddling is a memory whose admission plugin drops what a write adds.
type meddling struct{ *memory }

func (m meddling) Do(ctx context.Context, op Operation, dryRun bool) (json.RawMessage, error) {
	before := compact(m.node(op.Target.Name))
	_, err := m.memory.Do(ctx, op, dryRun)
	return before, err
}

// two is a world with two lost entries on one node.
func two(t *testing.T) *memory {
	m := lostEntry(t)
	m.addVolume("n1", "pv2", "vol-2", "web-2")
	n := m.node("n1")
	n.Status.VolumesInUse = append(n.Status.VolumesInUse, uniqueName("vol-2"))
	return m
}

func TestOneAtATime(t *testing.T) {
	m := two(t)
	a, sink := m.applier()
	results, err := a.Apply(t.Context(), m.propose())
	if err != nil || len(results) != 2 || results[0].Outcome != Repaired || results[1].Outcome != Repaired {
		t.Fatalf("%+v, %v", results, err)
	}
	var order []int
	for _, e := range sink.entries() {
		order = append(order, e.Write)
	}
	if diff := cmp.Diff([]int{1, 1, 2, 2}, order); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"vol-0", "vol-1", "vol-2"}, m.entries()); diff != "" {
		t.Error(diff)
	}
}

func TestLimitsOfARun(t *testing.T) {
	for name, test := range map[string]struct {
		set  func(*memory, *Applier)
		want []Outcome
		says string
	}{
		"at most so many":      {func(_ *memory, a *Applier) { a.MaxRepairs = 1 }, []Outcome{Repaired, Skipped}, "not begun: this run may make 1 repairs"},
		"none":                 {func(_ *memory, a *Applier) { a.MaxRepairs = 0 }, []Outcome{Skipped, Skipped}, "not begun: this run may make 0 repairs"},
		"stop after a failure": {func(m *memory, _ *Applier) { m.before = times(1, true, func() error { return ErrForbidden }) }, []Outcome{Failed, Skipped}, "not begun: an earlier one failed"},
		"keep going": {func(m *memory, a *Applier) {
			a.KeepGoing = true
			m.before = times(1, true, func() error { return ErrForbidden })
		}, []Outcome{Failed, Repaired}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := two(t)
			a, _ := m.applier()
			repairs := m.propose()
			test.set(m, a)
			results, err := a.Apply(t.Context(), repairs)
			if err != nil || len(results) != 2 || results[0].Outcome != test.want[0] || results[1].Outcome != test.want[1] || results[1].Detail != test.says {
				t.Errorf("%+v, %v", results, err)
			}
		})
	}
}

// TestInterruptedAnywhere: Ctrl-C between any two steps leaves either nothing
// written and no intent open, or a write whose outcome the journal has.
func TestInterruptedAnywhere(t *testing.T) {
	for step := 0; ; step++ {
		m := two(t)
		a, sink := m.applier()
		repairs := m.propose()
		ctx, cancel := context.WithCancel(t.Context())
		count := 0
		tick := func() {
			if count == step {
				cancel()
			}
			count++
		}
		m.before = func(Operation, bool) error { tick(); return nil }
		m.after = func(Operation, bool) error { tick(); return nil }
		m.looking = func(int) error { tick(); return nil }
		sink.fail = func([]byte) error { tick(); return nil }
		results, err := a.Apply(ctx, repairs)
		cancel()
		if count <= step {
			if err != nil || step < 10 {
				t.Errorf("uninterrupted after %d steps: %v", step, err)
			}
			return
		}
		open := map[int]bool{}
		for _, e := range sink.entries() {
			open[e.Write] = e.Type == Intent
		}
		for write, isOpen := range open {
			if isOpen {
				t.Errorf("step %d: the journal does not say what became of write %d", step, write)
			}
		}
		if len(m.stored) != len(open) {
			t.Errorf("step %d: %d writes, %d of them in the journal", step, len(m.stored), len(open))
		}
		for _, r := range results {
			if r.Outcome == Failed {
				t.Errorf("step %d: %+v", step, r)
			}
		}
	}
}

// TestKilledAnywhere: after a kill between any two steps a second run repairs
// what is left, and nothing twice.
func TestKilledAnywhere(t *testing.T) {
	type kill struct{}
	for step := 0; ; step++ {
		m := lostEntry(t)
		a, sink := m.applier()
		repairs := m.propose()
		count := 0
		tick := func() {
			if count++; count > step {
				panic(kill{})
			}
		}
		m.before = func(Operation, bool) error { tick(); return nil }
		m.after = m.before
		m.looking = func(int) error { tick(); return nil }
		sink.fail = func(line []byte) error {
			if count == step { // torn
				sink.data = append(sink.data, line[:len(line)/2]...)
			}
			tick()
			return nil
		}
		finished := func() (finished bool) {
			defer func() {
				if r := recover(); r != nil && r != any(kill{}) {
					panic(r)
				}
			}()
			_, err := a.Apply(t.Context(), repairs)
			return err == nil
		}()
		entries, _, err := ReadJournal(strings.NewReader(string(sink.data)))
		if err != nil {
			t.Fatalf("step %d: %v\n%s", step, err, sink.data)
		}
		if len(m.stored) > 0 && len(entries) == 0 {
			t.Fatalf("step %d: written without a word", step)
		}
		if finished {
			return
		}
		m.before, m.after, m.looking = nil, nil, nil
		again, _ := m.applier()
		if _, err := again.Apply(t.Context(), m.propose()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"vol-0", "vol-1"}, m.entries()); diff != "" || len(m.stored) != 1 {
			t.Errorf("step %d: %d writes %s", step, len(m.stored), diff)
		}
	}
}

func TestJournalThatFailsStopsEverything(t *testing.T) {
	full := errors.New("no space left on device")
	for fails, writes := range []int{0, 1} { // the intent, the outcome
		m := two(t)
		a, sink := m.applier()
		count := 0
		sink.fail = func([]byte) error {
			if count++; count > fails {
				return full
			}
			return nil
		}
		results, err := a.Apply(t.Context(), m.propose())
		if !errors.Is(err, full) || len(m.stored) != writes || len(results) != 2 || results[1].Outcome != Skipped {
			t.Errorf("%d: %d writes, %+v, %v", fails, len(m.stored), results, err)
		}
	}
}

func TestEventsTellTheStages(t *testing.T) {
	m := lostEntry(t)
	a, _ := m.applier()
	var stages []Stage
	a.Observe = func(e Event) {
		stages = append(stages, e.Stage)
		if (e.Result != nil) != (e.Stage == Done) || e.Summary != "add volume pv1 to volumesAttached of node n1" {
			t.Errorf("%+v", e)
		}
	}
	m.one(a)
	if diff := cmp.Diff([]Stage{Looking, DryRunSet, Writing, Settling, Done}, stages); diff != "" {
		t.Error(diff)
	}
}

func TestProposeFillsTheReport(t *testing.T) {
	m := lostEntry(t)
	s, err := m.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	v := Look(s, diagnose.Options{})
	repairs := Propose(v)
	got := v.Report.Findings[0].Repair
	if len(repairs) != 1 || got == nil || got.Kind != "patch-node-status" || got.Risk != "low" || !got.Reversible || got.BlockedBy != "" || len(got.Commands) != 1 {
		t.Fatalf("%+v", got)
	}
	m.node("n2").Status.VolumesInUse = []corev1.UniqueVolumeName{uniqueName("vol-1")}
	if s, err = m.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	v = Look(s, diagnose.Options{})
	if repairs := Propose(v); len(repairs) != 0 {
		t.Errorf("a blocked repair is returned: %+v", repairs)
	}
	if got := v.Report.Findings[0].Repair.BlockedBy; got != "not-elsewhere: volumesInUse of node n2 lists the volume" {
		t.Error(got)
	}
}

func TestSettleZeroLooksOnce(t *testing.T) {
	m := lostEntry(t)
	a, _ := m.applier()
	a.Settle = 0
	if r := m.one(a); r.Outcome != Repaired || m.looks != 2 {
		t.Errorf("%d looks, %+v", m.looks, r)
	}
	if at := m.now; !at.Equal(epoch) {
		t.Errorf("waited %v", at.Sub(epoch).Round(time.Second))
	}
}
