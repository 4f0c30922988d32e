package apply

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
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
		"can", "look", "do dryRun=true", "journal intent", "sync", "near", "do dryRun=false",
		"look", "wait 5s", "look", "wait 10s", "look", "wait 20s", "look", "wait 40s", "look", "wait 45s", "look",
		"journal outcome Repaired", "sync",
	}
	if diff := cmp.Diff(want, m.log); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"vol-0", "vol-1"}, m.entries()); diff != "" {
		t.Error(diff)
	}
	announced := []string{"Node/n1 VolumeDoctorRepaired: add volume pv1 to volumesAttached of node n1, for VD301 inuse-not-attached"}
	if diff := cmp.Diff(announced, m.announced); diff != "" {
		t.Error(diff)
	}
	if got := m.node("n1").Annotations[repair.MarkAnnotation]; got != "patch-node-status for VD301 inuse-not-attached of kubernetes.io/csi/ebs.csi.aws.com^vol-1" {
		t.Error(got)
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

// TestPromptComesBack: where a pod waited, the run ends within 15 seconds after the pod runs,
// and reports it; with --wait it watches on.
func TestPromptComesBack(t *testing.T) {
	for runs := range 60 {
		for _, waited := range [][]string{nil, {"default/web-0"}} {
			m := lostEntry(t)
			a, _ := m.applier()
			a.Waited = waited
			passed, wait := time.Duration(0), a.Wait
			a.Wait = func(ctx context.Context, d time.Duration) error {
				if passed += d; passed >= time.Duration(runs)*time.Second {
					m.pod().Status.Phase = corev1.PodRunning
				}
				return wait(ctx, d)
			}
			r := m.one(a)
			if r.Outcome != Repaired {
				t.Fatalf("%+v", r)
			}
			late := passed - time.Duration(runs)*time.Second
			if said := strings.Contains(r.Detail, "pod default/web-0 is Running ("); said != (waited != nil) || waited != nil && late > 15*time.Second || waited == nil && passed != a.HoldFor {
				t.Errorf("the pod runs after %d s, and the run ends after %s: %s", runs, passed, r.Detail)
			}
		}
	}
}

// TestFindingsAreNotWrittenTo: making a repair changes nothing in the finding that it is for.
func TestFindingsAreNotWrittenTo(t *testing.T) {
	m := lostEntry(t)
	a, _ := m.applier()
	repairs := m.propose()
	before := slices.Clone(repairs[0].Finding.Pods)
	if _, err := a.Apply(t.Context(), repairs); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, repairs[0].Finding.Pods); len(before) == 0 || diff != "" {
		t.Error(before, diff)
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

func TestMissingRightsWriteNothing(t *testing.T) {
	m := lostEntry(t)
	m.denied = []repair.Permission{{Verb: repair.VerbPatch, Resource: "nodes", Subresource: "status", Name: "n1"}}
	a, sink := m.applier()
	_, err := a.Apply(t.Context(), m.propose())
	if !errors.Is(err, repair.ErrForbidden) || !strings.Contains(err.Error(), "nothing was written") || !strings.Contains(err.Error(), "patch nodes/status n1") {
		t.Errorf("%v", err)
	}
	if slices.ContainsFunc(m.log, func(l string) bool { return strings.HasPrefix(l, "do") }) || len(sink.data) != 0 {
		t.Errorf("%v", m.log)
	}
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

func TestKindsGoInTheirOrder(t *testing.T) {
	m := dangling(t)
	m.addVolume("n1", "pv2", "vol-2", "web-2")
	n := m.node("n1")
	n.Status.VolumesInUse = append(n.Status.VolumesInUse, uniqueName("vol-2"))
	a, _ := m.applier()
	repairs := m.propose()
	slices.Reverse(repairs)
	results, err := a.Apply(t.Context(), repairs)
	if err != nil || len(results) != 2 || !strings.HasPrefix(results[0].Summary, "delete VolumeAttachment") || !strings.HasPrefix(results[1].Summary, "add volume") {
		t.Errorf("%+v, %v", results, err)
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
		"stop after a failure": {func(m *memory, _ *Applier) { m.before = times(1, true, func() error { return repair.ErrForbidden }) }, []Outcome{Failed, Skipped}, "not begun: an earlier one failed"},
		"keep going": {func(m *memory, a *Applier) {
			a.KeepGoing = true
			m.before = times(1, true, func() error { return repair.ErrForbidden })
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
	if diff := cmp.Diff([]Stage{Looking, Trying, Writing, Verifying, Done}, stages); diff != "" {
		t.Error(diff)
	}
}

// TestEventsAreNotEssential: without the right to write events the repair succeeds, and the
// missing event is reported.
func TestEventsAreNotEssential(t *testing.T) {
	m := lostEntry(t)
	m.mute = repair.ErrForbidden
	a, _ := m.applier()
	var said error
	a.Observe = func(e Event) {
		if e.Stage == Announcing {
			said = e.Err
		}
	}
	if r := m.one(a); r.Outcome != Repaired || !errors.Is(said, repair.ErrForbidden) {
		t.Errorf("%+v, %v", r, said)
	}
}

func TestProposeFillsTheReport(t *testing.T) {
	m := lostEntry(t)
	s, err := m.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	v, repairs := repair.Examine(s, reconcile.Options{}, repair.Consent{}, diagnose.Request{})
	got := v.Report.Findings[0].Repair
	if len(repairs) != 1 || got == nil || got.Kind != "patch-node-status" || got.Risk != "low" || !got.Reversible || got.BlockedBy != "" || len(got.Commands) != 1 {
		t.Fatalf("%+v", got)
	}
	m.node("n2").Status.VolumesInUse = []corev1.UniqueVolumeName{uniqueName("vol-1")}
	if s, err = m.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if v, repairs = repair.Examine(s, reconcile.Options{}, repair.Consent{}, diagnose.Request{}); len(repairs) != 0 {
		t.Errorf("a blocked repair is returned: %+v", repairs)
	}
	if got := v.Report.Findings[0].Repair.BlockedBy; got != "not-elsewhere: volumesInUse of node n2 lists the volume" {
		t.Error(got)
	}
}

func TestSettleZeroLooksOnce(t *testing.T) {
	m := lostEntry(t)
	a, _ := m.applier()
	a.HoldFor = 0
	if r := m.one(a); r.Outcome != Repaired || m.looks != 2 {
		t.Errorf("%d looks, %+v", m.looks, r)
	}
	if at := m.now; !at.Equal(epoch) {
		t.Errorf("waited %v", at.Sub(epoch).Round(time.Second))
	}
}
