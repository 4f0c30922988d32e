package kubelettrace

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
)

// rightLook is a trace that is right about three volumes: one whose driver refuses to
// stage it, one that is mounted, and one that nobody mounts.
func rightLook() (Look, []Volume) {
	at := metav1.Now()
	words := []trace.Said{{By: "kubelet on n1, event FailedMount", At: &at, Text: "MountVolume.MountDevice failed"}}
	driver := "CSI driver " + Disk + " on n1"
	l := Look{
		Trace: &trace.Trace{
			Verdict: trace.Verdict{State: finding.InFlight, Volume: "data", Stage: trace.StageStaged, Actor: driver},
			Volumes: []trace.VolumeTrace{
				{Name: "data", Referenced: true, Broken: trace.StageStaged, Stages: []trace.Stage{
					{Stage: trace.StageAttached, State: trace.StageDone},
					{Stage: trace.StageStaged, State: trace.StageBlocked, On: driver, Said: words},
					{Stage: trace.StageMounted, State: trace.StageWaiting},
				}},
				{Name: "other", Referenced: true, Stages: []trace.Stage{
					{Stage: trace.StageAttached, State: trace.StageDone},
					{Stage: trace.StageStaged, State: trace.StageUnknown},
					{Stage: trace.StageMounted, State: trace.StageUnknown},
				}},
				{Name: "spare", Stages: []trace.Stage{{Stage: trace.StageMounted, State: trace.StageNotNeeded}}},
			},
		},
		Truth: map[string]Truth{
			"data": {Stage: trace.StageStaged, Actor: TheDriver, Done: map[trace.StageName]bool{
				trace.StageAttached: true, trace.StageStaged: false, trace.StageMounted: false,
			}},
			"other": {Mounted: true, Done: map[trace.StageName]bool{trace.StageAttached: true, trace.StageStaged: true, trace.StageMounted: true}},
			"spare": {Done: map[trace.StageName]bool{trace.StageMounted: false}},
		},
	}
	return l, []Volume{{Name: "data", Driver: Disk}, {Name: "other", Driver: Disk}, {Name: "spare", Unused: true}}
}

// TestTheComparisonCanFail spoils each kind of row of a trace that is right.
func TestTheComparisonCanFail(t *testing.T) {
	if l, volumes := rightLook(); len(l.Compare(volumes)) > 0 {
		t.Fatalf("a trace that is right is taken for wrong: %v", l.Compare(volumes))
	}
	for name, c := range map[string]struct {
		spoil func(*Look, []Volume)
		says  string
	}{
		"a stage done that is not": {func(l *Look, _ []Volume) { l.Trace.Volumes[0].Stages[2].State = trace.StageDone }, "mounted is not done"},
		"a stage waiting that is done": {func(l *Look, _ []Volume) {
			l.Trace.Volumes[1].Stages[2].State = trace.StageWaiting
		}, "mounted is done"},
		"a stage blocked that is done": {func(l *Look, _ []Volume) { l.Trace.Volumes[0].Stages[0].State = trace.StageBlocked }, "attached is done"},
		"a stage that no object tells": {func(l *Look, _ []Volume) {
			l.Trace.Volumes[1].Stages[1].State = trace.StageDone
		}, "no object tells whether it is staged"},
		"a volume left out":      {func(l *Look, _ []Volume) { l.Trace.Volumes = l.Trace.Volumes[:2] }, "spare is not in the trace"},
		"a false all-clear":      {func(l *Look, _ []Volume) { l.Trace.Verdict.State = finding.NoWait }, "a volume waits, and the verdict is"},
		"an answer not given":    {func(l *Look, _ []Volume) { l.Trace.Verdict.State = finding.Unsure }, "a volume waits, and the verdict is"},
		"a wait that is none":    {func(l *Look, _ []Volume) { l.Truth["data"] = l.Truth["other"] }, "no volume waits"},
		"another volume":         {func(l *Look, _ []Volume) { l.Trace.Verdict.Volume = "other" }, "other does not wait"},
		"another stage":          {func(l *Look, _ []Volume) { l.Trace.Verdict.Stage = trace.StageMounted }, "waits in staged"},
		"another actor":          {func(l *Look, _ []Volume) { l.Trace.Verdict.Actor = "the kubelet of n1" }, "waits for the CSI driver"},
		"an actor nobody knows":  {func(l *Look, _ []Volume) { l.Trace.Verdict.Actor = "somebody" }, "waits for the CSI driver"},
		"a wait that cannot end": {func(l *Look, volumes []Volume) { never(l, volumes) }, "can never come"},
		"volumes, none of them it": {func(l *Look, _ []Volume) {
			l.Trace.Verdict.Volume, l.Trace.Verdict.Volumes = "spare", []string{"spare", "other"}
		}, "does not wait"},
	} {
		t.Run(name, func(t *testing.T) {
			l, volumes := rightLook()
			c.spoil(&l, volumes)
			if wrong := strings.Join(l.Compare(volumes), "\n"); !strings.Contains(wrong, c.says) {
				t.Errorf("not noticed: want %q in %q", c.says, wrong)
			}
		})
	}
}

func never(l *Look, volumes []Volume) {
	volumes[0].Never = true
	truth := l.Truth["data"]
	truth.Actor = Nobody
	l.Truth["data"], l.Trace.Verdict.Actor = truth, "nobody"
}
