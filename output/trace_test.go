package output

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/clipperhouse/displaywidth"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

func trace() *diagnose.Trace {
	takenAt := metav1.NewTime(time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC))
	since := metav1.NewTime(takenAt.Add(-20 * time.Minute))
	name := strings.Repeat("a-long-name-", 12)
	return &diagnose.Trace{
		APIVersion: diagnose.APIVersion, Kind: "Trace", TakenAt: takenAt, Direction: diagnose.TraceUp,
		Gaps: []snapshot.Gap{{Kind: snapshot.Events, Namespace: name, Reason: snapshot.ReasonForbidden},
			{Kind: diagnose.KubeletMetrics, Reason: snapshot.ReasonForbidden, Detail: "it takes the right to get nodes/proxy\x1b[2J"}},
		Pod: diagnose.Object{Kind: "Pod", Namespace: "default", Name: name}, Node: "n1\x1b[31m",
		Verdict: diagnose.TraceVerdict{State: diagnose.TraceStuck, Reason: "attached", Since: &since, UsualBound: "2m", Message: "Pod " + name + " waits"},
		Volumes: []diagnose.TraceVolume{
			{Name: name, Type: "emptyDir", Referenced: true, Stages: []diagnose.Stage{{Stage: diagnose.StageMounted, State: diagnose.StageNotNeeded}}},
			{Name: "data", Type: "persistentVolumeClaim", Claim: name, PersistentVolume: name, Broken: diagnose.StageAttached, Notes: []string{name + " note"},
				Stages: []diagnose.Stage{
					{Stage: diagnose.StageScheduled, State: diagnose.StageDone, Detail: "on node " + name},
					{Stage: diagnose.StageAttached, State: diagnose.StageBlocked, On: name, Since: &since, UsualBound: "2m", Overdue: true, Detail: name, Ends: name,
						Said: []diagnose.Said{{By: "a driver", At: &since, Text: "no\x1b[2J disk \u202e" + name, Means: name}}},
					{Stage: diagnose.StageRegistered, State: diagnose.StageUnknown, Detail: name},
				}},
		},
		Findings:      []diagnose.TraceFinding{{Code: "VD301", Check: "inuse-not-attached", Severity: diagnose.Error, Message: name, Explain: "kubectl volume-doctor explain VD301"}},
		SkippedChecks: []diagnose.SkippedCheck{{Code: "VD601"}},
		Kubelet: &diagnose.TraceKubelet{Statements: []diagnose.KubeletStatement{
			{Bearing: diagnose.KubeletDiffers, Text: "it does not know " + name + "\x1b[2J\u202e" + name}, {Bearing: diagnose.KubeletAgrees, Text: "all is well"}}},
	}
}

func preflight() *diagnose.Preflight {
	name := strings.Repeat("a-long-name-", 12)
	waits := []diagnose.PreflightWait{
		{Pod: "default/" + name, Controller: "replicaset/" + name, PersistentVolume: name, For: diagnose.WaitsForUnmount, AtMost: "2m40s", Because: name + "\x1b[2J"},
		{Pod: "default/db-0", PersistentVolume: "pv", For: diagnose.WaitsForPod, Never: true, Because: "nobody"},
	}
	scenario := diagnose.Scenario{Waits: waits, Hangs: []diagnose.Hang{{PersistentVolume: name, Pods: []string{name}, Because: name + "\u202e"}}}
	return &diagnose.Preflight{Node: "n1\x1b[31m", Drain: scenario, Loss: scenario, Stranded: []string{"default/" + name},
		Missing:  []snapshot.Kind{snapshot.Pods, snapshot.Nodes, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSINodes},
		Room:     []diagnose.PreflightRoom{{Driver: name, Moving: 2, Unlimited: true, Lacking: 1, Pods: []string{name}}},
		Findings: []diagnose.TraceFinding{{Code: "VD104", Message: name}}, Timers: []diagnose.Timer{{Name: "detach", Value: "2m", Because: name}},
		NotExamined: []string{"PodDisruptionBudgets", name}}
}

// TestStagesFitATerminal: no line is wider, and nothing steers the terminal.
func TestStagesFitATerminal(t *testing.T) {
	for _, format := range []string{"table", "wide", "json", "yaml", "name"} {
		for _, on := range []bool{false, true} {
			var b bytes.Buffer
			if err := PrintTrace(&b, format, trace(), Options{Color: on}); err != nil {
				t.Fatal(err)
			}
			fits(t, "trace", format, b.String(), on)
			b.Reset()
			if err := PrintPreflight(&b, format, preflight(), Options{Color: on}); err != nil {
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
		if format == "table" && displaywidth.String(line) > width {
			t.Errorf("%s: %d columns: %s", command, displaywidth.String(line), line)
		}
	}
}

func TestTraceTable(t *testing.T) {
	var b bytes.Buffer
	if err := PrintTrace(&b, "table", trace(), Options{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"verdict: stuck", "over within 2m", "> blocked    attached", "    waits on   ", "    means      ", "not needed",
		"explain VD301", "gap: events outside namespace", "1 check not run", "\nThe kubelet of n1", "\n  differs  it does not know", "\n  agrees   all is well\n",
		"gap: nodes/proxy/metrics could not be read (Forbidden): it takes the right to"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("lacks %q:\n%s", want, b.String())
		}
	}
	for _, print := range []error{PrintTrace(&b, "xml", trace(), Options{}), PrintPreflight(&b, "xml", preflight(), Options{})} {
		if print == nil || !strings.Contains(print.Error(), "table, wide, json, yaml, name") {
			t.Errorf("an unknown format is not refused with the known ones: %v", print)
		}
	}
}
