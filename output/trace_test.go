package output

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/clipperhouse/displaywidth"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/preflight"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

func someTrace() *trace.Trace {
	takenAt := metav1.NewTime(time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC))
	since := metav1.NewTime(takenAt.Add(-20 * time.Minute))
	name := strings.Repeat("a-long-name-", 12)
	return &trace.Trace{
		Head: finding.Head{APIVersion: finding.APIVersion, Kind: "Trace", TakenAt: takenAt,
			Gaps: []snapshot.Gap{{Kind: snapshot.Events, Namespace: name, Reason: snapshot.ReasonForbidden},
				{Kind: trace.KubeletMetrics, Reason: snapshot.ReasonForbidden, Detail: "it takes the right to get nodes/proxy\x1b[2J"}}},
		Direction: trace.Up, Pod: finding.Object{Kind: "Pod", Namespace: "default", Name: name}, Node: "n1\x1b[31m",
		Verdict: trace.Verdict{State: finding.Stuck, Reason: "attached", Since: &since, UsualBound: "2m", Message: "Pod " + name + " waits"},
		Volumes: []trace.VolumeTrace{
			{Name: name, Type: "emptyDir", Referenced: true, Stages: []trace.Stage{{Stage: trace.StageMounted, State: trace.StageNotNeeded}}},
			{Name: "data", Type: "persistentVolumeClaim", Claim: name, PersistentVolume: name, Broken: trace.StageAttached, Notes: []string{name + " note"},
				Stages: []trace.Stage{
					{Stage: trace.StageScheduled, State: trace.StageDone, Detail: "on node " + name},
					{Stage: trace.StageAttached, State: trace.StageBlocked, On: name, Since: &since, UsualBound: "2m", Overdue: true, Detail: name, Ends: name,
						Said: []trace.Said{{By: "a driver", At: &since, Text: "no\x1b[2J disk \u202e" + name, Means: name}}},
					{Stage: trace.StageRegistered, State: trace.StageUnknown, Detail: name},
				}},
		},
		Findings: []finding.Brief{{Code: "VD301", Check: "inuse-not-attached", Severity: finding.Error, Message: name, Explain: "kubectl volume-doctor explain VD301",
			Whole: finding.Finding{Advice: "look at " + name, AdviceCommands: []string{"kubectl get nodes"}, Never: "delete the pod", Steps: []finding.Step{{Says: "hits nobody"}}}}},
		SkippedChecks: []finding.SkippedCheck{{Code: "VD601"}},
		Kubelet: &trace.KubeletAccount{Statements: []trace.KubeletStatement{
			{Bearing: trace.KubeletDiffers, Text: "it does not know " + name + "\x1b[2J\u202e" + name}, {Bearing: trace.KubeletAgrees, Text: "all is well"}}},
	}
}

func somePreflight() *preflight.Preflight {
	name := strings.Repeat("a-long-name-", 12)
	waits := []preflight.Wait{
		{Pod: "default/" + name, Controller: "replicaset/" + name, PersistentVolume: name, For: preflight.WaitsForUnmount, AtMost: "2m40s", Because: name + "\x1b[2J"},
		{Pod: "default/db-0", PersistentVolume: "pv", For: preflight.WaitsForPod, Never: true, Because: "nobody"},
	}
	scenario := preflight.Scenario{Waits: waits, Hangs: []preflight.Hang{{PersistentVolume: name, Pods: []string{name}, Because: name + "\u202e"}}}
	return &preflight.Preflight{Node: "n1\x1b[31m", Drain: scenario, Loss: scenario, Stranded: []string{"default/" + name},
		Missing:  []snapshot.Kind{snapshot.Pods, snapshot.Nodes, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSINodes},
		Room:     []preflight.Room{{Driver: name, Moving: 2, Unlimited: true, Lacking: 1, Pods: []string{name}}},
		Findings: []finding.Brief{{Code: "VD104", Message: name}}, Timers: []preflight.Timer{{Name: "detach", Value: "2m", Because: name}},
		NotExamined: []string{"PodDisruptionBudgets", name}}
}

// TestStagesFitATerminal checks that no line is too wide, and that nothing controls the terminal.
func TestStagesFitATerminal(t *testing.T) {
	for _, format := range []string{"table", "wide", "json", "yaml", "name"} {
		for _, on := range []bool{false, true} {
			var b bytes.Buffer
			if err := TraceFormats.Print(&b, format, []trace.Document{someTrace()}, Options{Color: on, Width: 80}); err != nil {
				t.Fatal(err)
			}
			fits(t, "trace", format, b.String(), on)
			b.Reset()
			if err := PreflightFormats.Print(&b, format, somePreflight(), Options{Color: on, Width: 80}); err != nil {
				t.Fatal(err)
			}
			fits(t, "preflight", format, b.String(), on)
		}
	}
}

func fits(t *testing.T, command, format, text string, color bool) {
	t.Helper()
	if text == "" {
		t.Errorf("%s %s prints nothing", command, format)
	}
	if color || format == "json" || format == "yaml" {
		return
	}
	if strings.ContainsAny(text, "\x1b\u202e") {
		t.Errorf("%s %s lets control characters through: %q", command, format, text)
	}
	for _, line := range strings.Split(text, "\n") {
		if format == "table" && tooWide(line) {
			t.Errorf("%s: %d columns: %s", command, displaywidth.String(line), line)
		}
	}
}

func TestTraceTable(t *testing.T) {
	var b bytes.Buffer
	if err := TraceFormats.Print(&b, "table", []trace.Document{someTrace()}, terminal); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"verdict: stuck for at least 20m (normally under 2m)", "[✗ attached]", "✓ scheduled → ", "at         attached: blocked", "    waits on   ", "    means      ", "not needed",
		"\nerror VD301  \n      a-long", "\n  do      1. look at nodes\n", "\n          kubectl get nodes\n          2. look at\n", "\n  hits    hits nobody\n", "\n  don't   delete the pod\n", "explain VD301", "gap: events outside namespace", "1 check skipped", "\nThe kubelet of n1", "\n  differs  it does not know", "\n  agrees   all is well\n",
		"gap: nodes/proxy/metrics could not be read (Forbidden): it takes the right to"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("lacks %q:\n%s", want, b.String())
		}
	}
	for _, print := range []error{TraceFormats.Print(&b, "xml", []trace.Document{someTrace()}, Options{}), PreflightFormats.Print(&b, "xml", somePreflight(), Options{})} {
		if print == nil || !strings.Contains(print.Error(), "table, wide, json, yaml, name") {
			t.Errorf("an unknown format is not refused with the known ones: %v", print)
		}
	}
}

// TestOnlyWhatFailsIsRed checks that the stage in which a volume waits is marked as failed, and red,
// only where it is late or blocked, and that no stage is which has not been reached.
func TestOnlyWhatFailsIsRed(t *testing.T) {
	const red = "\x1b[31"
	for _, c := range []struct {
		name         string
		stage        trace.Stage
		broken       trace.StageName
		mark         string
		fails, paint bool
	}{
		{"under way", trace.Stage{Stage: trace.StageAttached, State: trace.StageWaiting}, trace.StageAttached, "…", false, true},
		{"late", trace.Stage{Stage: trace.StageAttached, State: trace.StageWaiting, Overdue: true}, trace.StageAttached, "✗", true, true},
		{"blocked", trace.Stage{Stage: trace.StageAttached, State: trace.StageBlocked}, trace.StageAttached, "✗", true, true},
		{"blocked within its usual time, as in a hand-over", trace.Stage{Stage: trace.StageAttached, State: trace.StageBlocked, UsualBound: "3m"}, trace.StageAttached, "…", false, true},
		{"blocked beside another", trace.Stage{Stage: trace.StageAttached, State: trace.StageBlocked}, trace.StageRegistered, "✗", true, true},
		{"not known", trace.Stage{Stage: trace.StageAttached, State: trace.StageUnknown}, trace.StageAttached, "?", false, true},
		{"not reached, and late", trace.Stage{Stage: trace.StageInVolumesInUse, State: trace.StageWaiting, Overdue: true}, trace.StageAttached, "·", false, false},
		{"not reached", trace.Stage{Stage: trace.StageMounted, State: trace.StageWaiting}, trace.StageAttached, "·", false, false},
	} {
		v := trace.VolumeTrace{Broken: c.broken, Stages: []trace.Stage{c.stage}}
		painted := paintStage(c.stage, v, "x", Options{Color: true})
		if mark := stageMark(c.stage, v); mark != c.mark || strings.HasPrefix(painted, red) != c.fails || (painted != "x") != c.paint {
			t.Errorf("%s: %q, %q", c.name, mark, painted)
		}
		var page strings.Builder
		if err := htmlVolume(v, saidBefore(&trace.Trace{}), "v1").Render(&page); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(page.String(), `class="at fails"`) != c.fails || strings.Contains(page.String(), `class="card error"`) != c.fails {
			t.Errorf("%s: %s", c.name, page.String())
		}
	}
}

// TestHangsHaveNoBound checks that the table and the page of a preflight give no bound to a pod whose
// volume hangs, and no reason twice.
func TestHangsHaveNoBound(t *testing.T) {
	wait := preflight.Wait{Pod: "default/db-0", PersistentVolume: "pv", For: preflight.WaitsForUnmount, Because: "usually seconds"}
	hang := preflight.Hang{PersistentVolume: "pv", Pods: []string{"default/db-0"}, Because: "its detach fails already"}
	perhaps := hang
	perhaps.Perhaps = true
	stays := preflight.Wait{Pod: "default/db-0", PersistentVolume: "pv", For: preflight.WaitsForPod, Never: true, Because: hang.Because}
	other := preflight.Wait{Pod: "default/web-0", PersistentVolume: "pv-2", For: preflight.WaitsForUnmount, AtMost: "2m40s", Because: "usually seconds"}
	unbound := preflight.Wait{Pod: "default/web-0", PersistentVolume: "pv-2", For: preflight.WaitsForUnmount, Because: "its controller leaves, too"}
	for name, c := range map[string]struct {
		waits         []preflight.Wait
		hang          preflight.Hang
		verdict       string
		want          []string
		page          string
		usual, reason int
	}{
		"hangs":        {[]preflight.Wait{wait}, hang, "something would hang", []string{"Unmount   hangs ", "\nhangs: pv (default/db-0): its detach fails"}, "1 pod: wait for Unmount, which hangs", 0, 1},
		"may hang":     {[]preflight.Wait{wait}, perhaps, "something may hang", []string{"Unmount   may hang ", "\nmay hang: pv"}, "1 pod: wait for Unmount, which may hang", 0, 1},
		"stays there":  {[]preflight.Wait{stays}, hang, "something would hang", []string{"never by itself"}, "1 pod would not come back by itself", 0, 1},
		"beside it":    {[]preflight.Wait{wait, other}, hang, "something would hang", []string{"Unmount   hangs ", "Unmount   2m40s "}, "1 pod: wait for Unmount, at most 2m40s", 1, 1},
		"not bounded":  {[]preflight.Wait{unbound}, hang, "something would hang", []string{"Unmount   not known "}, "1 pod: wait for Unmount", 0, 1},
		"needs no end": {[]preflight.Wait{{Pod: "default/r-0", PersistentVolume: "pv", For: preflight.WaitsForNothing, Because: "many nodes may have it"}}, hang, "something would hang", []string{"Nothing   - "}, "1 pod: wait for Nothing", 0, 1},
	} {
		p := &preflight.Preflight{Node: "n1", Drain: preflight.Scenario{Waits: c.waits, Hangs: []preflight.Hang{c.hang}}}
		var text, page strings.Builder
		if err := PreflightFormats.Print(&text, "table", p, Options{}); err != nil {
			t.Fatal(err)
		}
		for _, want := range append(c.want, "verdict: "+c.verdict+"\n") {
			if !strings.Contains(text.String(), want) {
				t.Errorf("%s: lacks %q:\n%s", name, want, text.String())
			}
		}
		if strings.Count(text.String(), "usually seconds") != c.usual || strings.Count(text.String(), hang.Because) != c.reason {
			t.Errorf("%s: a reason is told where none is, or twice:\n%s", name, text.String())
		}
		if err := PreflightFormats.Print(&page, "html", p, Options{}); err != nil || !strings.Contains(page.String(), c.page) {
			t.Errorf("%s: the page lacks %q: %v", name, c.page, err)
		}
	}
}

// TestVerdictCountsNoZero: a verdict about what would hang counts no volumes as 0 on a drain or a loss: the
// next clause may say that pods wait there all the same.
func TestVerdictCountsNoZero(t *testing.T) {
	verdicts := 0
	eachCase(t, func(t *testing.T, c corpusCase) {
		for _, node := range c.read.Nodes {
			p := diagnose.PreflightNode(c.read, types.NodeName(node.Name), diagnose.Options{Reconcile: c.settings})
			if _, why := preflightAnswer(p); p.Hangs() {
				verdicts++
				if regexp.MustCompile(`\b0 (volumes )?on a (drain|loss)`).MatchString(why) {
					t.Errorf("%s: node %s: %s", c.name, node.Name, why)
				}
			}
		}
	})
	if verdicts < 100 {
		t.Errorf("%d verdicts show little", verdicts)
	}
}

// TestStuckPodsAreNotDenied: above a finding about a pod, no line of a preflight says that no pod waits, or that
// nothing hangs.
func TestStuckPodsAreNotDenied(t *testing.T) {
	stuck := 0
	eachCase(t, func(t *testing.T, c corpusCase) {
		for _, node := range c.read.Nodes {
			p := diagnose.PreflightNode(c.read, types.NodeName(node.Name), diagnose.Options{Reconcile: c.settings})
			if len(p.Waiting) == 0 && !slices.ContainsFunc(p.Findings, func(f finding.Brief) bool { return len(f.Whole.Pods) > 0 }) {
				continue
			}
			stuck++
			var text strings.Builder
			if err := PreflightFormats.Print(&text, "table", p, Options{}); err != nil {
				t.Fatal(err)
			}
			if denied := regexp.MustCompile(`(?m)^ *(no pod would wait|verdict: nothing would hang).*$`).FindString(text.String()); denied != "" {
				t.Errorf("%s: node %s: %s", c.name, node.Name, denied)
			}
		}
	})
	if stuck < 100 {
		t.Errorf("%d nodes with stuck pods show little", stuck)
	}
}

// TestNobodyIsAccusedByAFile checks that a trace of a file does not tell its reader that he may not
// list something: somebody else has read the cluster.
func TestNobodyIsAccusedByAFile(t *testing.T) {
	gaps := []snapshot.Gap{{Kind: snapshot.Pods, Reason: snapshot.ReasonForbidden}}
	for path, want := range map[string]string{"": "you may not list pods", "cluster.yaml": "whoever read the cluster may not list pods"} {
		var b strings.Builder
		if closeTrace(&b, Options{}, snapshot.Source{Path: path}, gaps, nil); !strings.Contains(b.String(), "\n"+want) {
			t.Errorf("%q: %s", path, b.String())
		}
	}
}
