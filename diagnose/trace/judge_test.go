package trace

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
)

// TestJudge: a finding that knows when one volume recovers says nothing about another one that
// is overdue as well.
func TestJudge(t *testing.T) {
	now := metav1.NewTime(time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC))
	overdue := func(name string) VolumeTrace {
		return VolumeTrace{Name: name, Volume: "kubernetes.io/csi/d^vol-1", Broken: StageAttached,
			Stages: []Stage{{Stage: StageAttached, State: StageBlocked, Overdue: true}}}
	}
	other := overdue("other")
	other.Volume = "kubernetes.io/csi/d^vol-2"
	heals := finding.Finding{Code: "VD102", Severity: finding.Info, Pods: []string{"a/p"}, Volume: "kubernetes.io/csi/d^vol-1",
		SelfHeals: finding.SelfHeals{Will: true, After: "3m"}}
	wrong := finding.Finding{Code: "VD410", Severity: finding.Warning, Pods: []string{"a/p"}}
	suspected, elsewhere := wrong, wrong
	suspected.Confidence, elsewhere.Pods = finding.Suspected, []string{"a/q"}
	for name, tt := range map[string]struct {
		was      finding.WaitState
		volumes  []VolumeTrace
		findings []finding.Finding
		want     finding.WaitState
		due      time.Duration // 0: none
	}{
		"it comes by itself":         {finding.Stuck, []VolumeTrace{overdue("data")}, []finding.Finding{heals}, finding.InFlight, 3 * time.Minute},
		"another volume does not":    {finding.Stuck, []VolumeTrace{overdue("data"), other}, []finding.Finding{heals}, finding.Stuck, 0},
		"something is wrong as well": {finding.Stuck, []VolumeTrace{overdue("data")}, []finding.Finding{heals, wrong}, finding.Stuck, 0},
		"it still had time":          {finding.InFlight, nil, []finding.Finding{wrong}, finding.Stuck, 0},
		"that is only suspected":     {finding.InFlight, nil, []finding.Finding{suspected}, finding.InFlight, 0},
		"that is about another pod":  {finding.InFlight, nil, []finding.Finding{elsewhere}, finding.InFlight, 0},
		"it does not wait":           {finding.NoWait, nil, []finding.Finding{wrong}, finding.NoWait, 0},
	} {
		trace := &Trace{Head: finding.Head{TakenAt: now}, Pod: finding.Object{Kind: "Pod", Namespace: "a", Name: "p"}, Volumes: tt.volumes, Verdict: Verdict{State: tt.was}}
		trace.Judge(tt.findings)
		if trace.Verdict.State != tt.want {
			t.Errorf("%s: %s, want %s", name, trace.Verdict.State, tt.want)
		}
		if due := trace.Verdict.DueAt; (due != nil) != (tt.due != 0) || due != nil && due.Sub(now.Time) != tt.due {
			t.Errorf("%s: due at %v", name, due)
		}
	}
}

// TestJudgeTakesActor: the verdict names the actor of a certain finding about the volume that the
// pod waits for, also if the finding names no volume, and if the objects alone do not show the
// wait.
func TestJudgeTakesActor(t *testing.T) {
	pod := finding.Object{Kind: "Pod", Namespace: "a", Name: "p"}
	ofPod := finding.Finding{Code: "VD407", Severity: finding.Error, Subject: pod, Pods: []string{"a/p"}, Actor: "pod a/q"}
	ofVolume := finding.Finding{Code: "VD204", Severity: finding.Error, Pods: []string{"a/p"}, PersistentVolume: "pv-data", Actor: "pod a/q"}
	ofOther, suspected, info, ofClaim := ofVolume, ofVolume, ofVolume, ofPod
	ofOther.PersistentVolume, suspected.Confidence, info.Severity = "pv-other", finding.Suspected, finding.Info
	ofClaim.Subject = finding.Object{Kind: "PersistentVolumeClaim", Namespace: "a", Name: "p"}
	for name, tt := range map[string]struct {
		was     finding.WaitState
		finding finding.Finding
		otherOn string // the actor for the pod's other volume
		want    finding.WaitState
		actor   string
	}{
		"of the pod":                          {finding.Stuck, ofPod, "", finding.Stuck, "pod a/q"},
		"of the pod, for its other volume":    {finding.Stuck, ofPod, "pod a/q", finding.Stuck, "the kubelet of n"},
		"of a claim with the pod's name":      {finding.Stuck, ofClaim, "", finding.Stuck, "the kubelet of n"},
		"not known to wait":                   {finding.Unsure, ofVolume, "", finding.Stuck, "pod a/q"},
		"not known to wait, pod":              {finding.Unsure, ofPod, "", finding.Stuck, "pod a/q"},
		"not known to wait, for its other":    {finding.Unsure, ofOther, "", finding.Unsure, ""},
		"not known to wait, suspected":        {finding.Unsure, suspected, "", finding.Unsure, ""},
		"not known to wait, info":             {finding.Unsure, info, "", finding.Unsure, ""},
		"waits for no volume":                 {finding.NoWait, ofVolume, "", finding.NoWait, ""},
		"not known to wait, for the other on": {finding.Unsure, ofPod, "pod a/q", finding.Unsure, ""},
	} {
		verdict := Verdict{State: tt.was, Volume: "data", Stage: StageMounted, Message: "Whether pod a/p waits for volume data is not known: not all csinodes could be read"}
		stage := Stage{Stage: StageMounted, State: StageUnknown, Detail: "not all csinodes could be read"}
		if tt.was == finding.Stuck {
			verdict.Actor, verdict.Message = "the kubelet of n", "Pod a/p waits; next to act: the kubelet of n"
		}
		trace := &Trace{Pod: pod, Verdict: verdict, Volumes: []VolumeTrace{
			{Name: "other", PersistentVolume: "pv-other", Broken: StageAttached, Stages: []Stage{{Stage: StageAttached, On: tt.otherOn}}},
			{Name: "data", PersistentVolume: "pv-data", Broken: StageMounted, Stages: []Stage{stage}},
		}}
		trace.Judge([]finding.Finding{tt.finding})
		v := trace.Verdict
		if v.State != tt.want || v.Actor != tt.actor {
			t.Errorf("%s: %s by %q, want %s by %q", name, v.State, v.Actor, tt.want, tt.actor)
		}
		want := "Pod a/p waits for volume data; in which stage is not known: not all csinodes could be read; next to act: pod a/q; " + string(tt.finding.Code) + " " + tt.finding.Check + " says what is wrong"
		if tt.was == finding.Unsure && tt.want == finding.Stuck && v.Message != want {
			t.Errorf("%s: %s, want %s", name, v.Message, want)
		}
	}
}
