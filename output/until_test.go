package output

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

func TestUntilText(t *testing.T) {
	const minute = time.Minute
	update := reconcile.Until{Event: reconcile.NodeUpdate, Then: reconcile.Detach}
	reported := reconcile.Until{Event: reconcile.NodeUpdate, Bound: 7*minute + 40*time.Second, Then: reconcile.Detach}
	unmount := reconcile.Until{Event: reconcile.Unmount, Then: reconcile.Detach}
	force := reconcile.Until{Event: reconcile.MaxWaitForUnmount, After: 6 * minute, Bound: 6 * minute, Then: reconcile.ForceDetach}
	verify := func(then reconcile.Verb) reconcile.Until {
		return reconcile.Until{Event: reconcile.VerifySync, After: minute, Bound: minute, Then: then}
	}
	ends := func(then reconcile.Verb) reconcile.Until {
		return reconcile.Until{Event: reconcile.OperationEnds, Bound: 2 * minute, Then: then}
	}
	n2, both := []types.NodeName{"n2"}, []types.NodeName{"n1", "n2"}
	for _, test := range []struct {
		decision PlanDecision
		rows     []reconcile.Until
		want     string
	}{
		{PlanDecision{Verb: reconcile.Keep}, nil, ""},
		{PlanDecision{Verb: reconcile.Attach}, nil, ""},
		{PlanDecision{Verb: reconcile.Blocked}, nil, "never by itself"},
		{PlanDecision{Verb: reconcile.Wait}, nil, "never by itself"},
		{PlanDecision{Verb: reconcile.MultiAttach}, nil, "never by itself"},
		{PlanDecision{Verb: reconcile.Wait}, []reconcile.Until{unmount}, "detach once node n1 has unmounted it"},
		{PlanDecision{Verb: reconcile.Wait}, []reconcile.Until{unmount, force}, "detach by force 6m after the start (a running controller: within 6m) unless n1 returns"},
		{PlanDecision{Verb: reconcile.Wait}, []reconcile.Until{force}, "detach by force 6m after the start (a running controller: within 6m) unless n1 returns"},
		{PlanDecision{Verb: reconcile.Wait}, []reconcile.Until{reported}, "detach at the next update of node n1, at most 7m40s after the start"},
		{PlanDecision{Verb: reconcile.Wait}, []reconcile.Until{update, force},
			"detach at the next update of node n1, or detach by force 6m after the start (a running controller: within 6m) unless n1 returns"},
		{PlanDecision{Verb: reconcile.Wait}, []reconcile.Until{unmount, verify("")},
			"detach once node n1 has unmounted it, or forget it 1m after the start (a running controller: within 1m) unless its VolumeAttachment is attached then"},
		{PlanDecision{Verb: reconcile.Keep}, []reconcile.Until{verify(reconcile.Attach)}, "attach again 1m after the start (a running controller: within 1m) unless its VolumeAttachment is attached then"},
		{PlanDecision{Verb: reconcile.MultiAttach, Holders: n2}, []reconcile.Until{{Event: reconcile.HolderLeaves, Bound: 8 * minute, Then: reconcile.Attach}},
			"attach once n2 has let go of it, at most 8m after the start"},
		{PlanDecision{Verb: reconcile.Blocked, Holders: n2}, []reconcile.Until{ends(reconcile.Attach)},
			"attach once the detach from n2 ends, at most 2m after the start"},
		{PlanDecision{Verb: reconcile.Attach, Contenders: both}, []reconcile.Until{ends(reconcile.MultiAttach)},
			"wait for the new holder where n2 comes first, at most 2m after the start"},
		{PlanDecision{Verb: reconcile.Wait}, []reconcile.Until{{Event: reconcile.MaxWaitForUnmount, After: 6 * minute, Then: reconcile.ForceDetach}},
			"detach by force 6m after the start (a running controller: at any time, or never) unless n1 returns"},
		{PlanDecision{Verb: reconcile.Wait}, []reconcile.Until{unmount, {Event: reconcile.VerifySync, After: minute, Bound: 3 * minute, Fresh: true}},
			"detach once node n1 has unmounted it, or forget it 1m to 3m after the start (a running controller: at any time, or never) unless its VolumeAttachment is attached then"},
		{PlanDecision{Verb: reconcile.Keep}, []reconcile.Until{{Event: reconcile.VerifySync, After: minute, Bound: minute, Then: reconcile.Attach, Contenders: both, Fresh: true}},
			"attach, to whichever of n1,n2 comes first, 1m after the start (a running controller: at any time, or never) unless its VolumeAttachment is attached then"},
		{PlanDecision{Verb: reconcile.MultiAttach, Holders: n2}, []reconcile.Until{{Event: reconcile.HolderLeaves, Bound: minute, Then: reconcile.Attach, Contenders: both}},
			"attach, to whichever of n1,n2 comes first, once n2 has let go of it, at most 1m after the start"},
		{PlanDecision{Verb: reconcile.Detach}, []reconcile.Until{{Event: reconcile.MaxWaitForUnmount, After: 6 * minute, Then: reconcile.ForceDetach}}, ""},
		{PlanDecision{Verb: reconcile.Detach}, []reconcile.Until{{Event: reconcile.Backoff, After: time.Second / 2, Bound: 122 * time.Second, Then: reconcile.Detach},
			{Event: reconcile.MaxWaitForUnmount, After: 6 * minute, Then: reconcile.ForceDetach}},
			"it fails now: detach again after 500ms, then at pauses of up to 2m2s, or detach by force 6m after the start (a running controller: at any time, or never) if it has not worked by then, Ready node or not"},
		{PlanDecision{Verb: reconcile.Detach}, []reconcile.Until{{Event: reconcile.Backoff, After: time.Second / 2, Bound: 122 * time.Second, Then: reconcile.Detach}},
			"it fails now: detach again after 500ms, then at pauses of up to 2m2s"},
	} {
		test.decision.Node, test.decision.Until = "n1", planUntil(reconcile.Decision{Until: test.rows, Waited: 6 * minute})
		if got := untilText(test.decision); got != test.want {
			t.Errorf("%s %v:\n%s, want\n%s", test.decision.Verb, test.rows, got, test.want)
		}
	}
}

// TestPlanNamesBothNodes checks that each half of a hand-over names the other node, also where only
// one of the two was asked for.
func TestPlanNamesBothNodes(t *testing.T) {
	seen := 0
	eachCase(t, func(t *testing.T, c corpusCase) {
		world := reconcile.NewWorld(c.read, c.settings)
		plan := world.Reconcile()
		for _, d := range plan.Decisions {
			if d.Verb != reconcile.MultiAttach || len(d.Holders) == 0 {
				continue
			}
			seen++
			for asked, other := range map[types.NodeName]types.NodeName{d.Node: d.Holders[0], d.Holders[0]: d.Node} {
				var b strings.Builder
				p := NewPlan(c.read, world, plan, []types.NodeName{asked})
				if slices.ContainsFunc(p.Decisions, func(row PlanDecision) bool { return row.Volume == d.Volume && row.NotKnown != "" }) {
					continue
				}
				if err := printPlanTable(&b, p, Options{}, false); err != nil || !strings.Contains(b.String(), string(other)) && slices.ContainsFunc(p.Decisions, func(row PlanDecision) bool { return row.Volume == d.Volume }) {
					t.Errorf("plan of %s does not name %s: %v\n%s", asked, other, err, b.String())
				}
			}
		}
	})
	if seen < 20 {
		t.Errorf("%d hand-overs", seen)
	}
}

// TestPlanIsOverdueWithItsReport: a plan and a report agree on whether a forced detach is overdue.
func TestPlanIsOverdueWithItsReport(t *testing.T) {
	overdue, inTime := 0, 0
	eachCase(t, func(t *testing.T, c corpusCase) {
		world := reconcile.NewWorld(c.read, c.settings)
		p := NewPlan(c.read, world, world.Reconcile(), nil)
		for _, f := range c.report.Findings {
			i := slices.IndexFunc(p.Decisions, func(d PlanDecision) bool { return d.Volume == f.Volume && d.Node == f.Node && d.Verb == reconcile.Wait })
			if f.Code != "VD102" || i < 0 {
				continue
			}
			d := p.Decisions[i]
			switch {
			case strings.Contains(f.SelfHeals.Because, "the forced detach is overdue by "):
				if overdue++; d.Overdue == "" || !strings.Contains(untilText(d), "a running controller: overdue by ") {
					t.Errorf("%s, and the plan: %s", f.SelfHeals.Because, untilText(d))
				}
			case f.SelfHeals.Will:
				if inTime++; d.Overdue != "" {
					t.Errorf("it heals: %s, and the plan: %s", f.SelfHeals.Because, untilText(d))
				}
			}
		}
	})
	if overdue < 5 || inTime < 5 {
		t.Errorf("%d overdue and %d in time show little", overdue, inTime)
	}
}

// TestUntilOfARunningController checks the range for a controller that may already have waited a
// part of the time.
func TestUntilOfARunningController(t *testing.T) {
	force := reconcile.Until{Event: reconcile.MaxWaitForUnmount, After: 6 * time.Minute, Bound: 6 * time.Minute, Then: reconcile.ForceDetach}
	d := PlanDecision{Verb: reconcile.Wait, Node: "n1", Until: planUntil(reconcile.Decision{Until: []reconcile.Until{force}, Waited: time.Minute})}
	if got := untilText(d); got != "detach by force 6m after the start (a running controller: in 5m to 6m) unless n1 returns" {
		t.Error(got)
	}
}

// TestNodeStatusThatIsNotCertain checks the texts for contended and flapping entries.
func TestNodeStatusThatIsNotCertain(t *testing.T) {
	var b strings.Builder
	writeNodeStatus(&b, []PlanNodeStatus{
		{Node: "n1", Removed: []corev1.UniqueVolumeName{"a"}, Contended: []corev1.UniqueVolumeName{"b"}},
		{Node: "n2"},
		{Node: "n3", Flapping: []corev1.UniqueVolumeName{"c"}},
	}, Options{Width: 82})
	if want := `
Node status once the pass is over:
  n1: volumesAttached loses a
  n1: volumesAttached loses b unless another contender's node does
  n3: volumesAttached loses and regains c: its detach cannot start
`; b.String() != want {
		t.Errorf("got %s", b.String())
	}
}

// untilPlan returns a plan that has decisions with several events and decisions with none.
func untilPlan() *Plan {
	return &Plan{Decisions: []PlanDecision{
		{Verb: reconcile.Keep, Reason: reconcile.WantedAndAttached, After: "0s", Node: "n1", Volume: "v1"},
		{Verb: reconcile.Wait, Reason: reconcile.AssumedMounted, After: "6m0s", Node: types.NodeName("n\x1b" + strings.Repeat("2", 60)), Volume: "v2",
			Until: planUntil(reconcile.Decision{Until: []reconcile.Until{
				{Event: reconcile.NodeUpdate, Then: reconcile.Detach},
				{Event: reconcile.MaxWaitForUnmount, After: time.Minute, Bound: time.Minute, Then: reconcile.ForceDetach},
			}})},
		{Verb: reconcile.Blocked, Reason: reconcile.NoPlugin, After: "0s", Node: "n3", Volume: "v3"},
	}}
}

func TestUntilStandsUnderItsRow(t *testing.T) {
	var b bytes.Buffer
	if err := PlanFormats.Print(&b, "table", untilPlan(), terminal); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(b.String(), "\n")
	for _, line := range lines {
		if strings.ContainsRune(line, '\x1b') {
			t.Errorf("%q steers the terminal", line)
		}
	}
	if !strings.HasPrefix(lines[1], "Keep") || !strings.HasPrefix(lines[2], "Wait") || !strings.HasPrefix(lines[3], "  detach at the next update") {
		t.Errorf("\n%s", b.String())
	}
	if last := lines[len(lines)-2]; last != "  never by itself" {
		t.Errorf("the last line is %q", last)
	}
}

func TestUntilInWide(t *testing.T) {
	var b bytes.Buffer
	if err := PlanFormats.Print(&b, "wide", untilPlan(), Options{}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != 4 || !strings.HasSuffix(lines[0], "UNTIL") || !strings.HasSuffix(lines[3], "never by itself") {
		t.Errorf("\n%s", b.String())
	}
}

// TestUntilIsAbsentWhereNothingApplies checks that the field is absent if no event applies, because
// it is newer than the document's version.
func TestUntilIsAbsentWhereNothingApplies(t *testing.T) {
	for i, d := range untilPlan().Decisions {
		text, err := json.Marshal(d)
		if err != nil || strings.Contains(string(text), "until") != (i == 1) {
			t.Errorf("%s %v", text, err)
		}
	}
	text, err := json.Marshal(planUntil(reconcile.Decision{Until: []reconcile.Until{{Event: reconcile.VerifySync, After: time.Minute, Bound: time.Minute}}})[0])
	if want := `{"event":"VerifySync","after":"1m0s","bound":"1m0s","running":{"after":"0s","bound":"1m0s"}}`; err != nil || string(text) != want {
		t.Errorf("%s %v", text, err)
	}
}
