package output

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/clipperhouse/displaywidth"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
		APIVersion: finding.APIVersion, Kind: "Trace", TakenAt: takenAt, Direction: trace.Up,
		Gaps: []snapshot.Gap{{Kind: snapshot.Events, Namespace: name, Reason: snapshot.ReasonForbidden},
			{Kind: trace.KubeletMetrics, Reason: snapshot.ReasonForbidden, Detail: "it takes the right to get nodes/proxy\x1b[2J"}},
		Pod: finding.Object{Kind: "Pod", Namespace: "default", Name: name}, Node: "n1\x1b[31m",
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
	for _, want := range []string{"verdict: stuck for 20m (normally under 2m)", "[✗ attached]", "✓ scheduled → ", "at         attached: blocked", "    waits on   ", "    means      ", "not needed",
		"\nerror VD301  \n      a-long", "\n  do      look at\n", "\n          kubectl get nodes\n", "\n  hits    hits nobody\n", "\n  don't   delete the pod\n", "explain VD301", "gap: events outside namespace", "1 check skipped", "\nThe kubelet of n1", "\n  differs  it does not know", "\n  agrees   all is well\n",
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
