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
		trace := &Trace{TakenAt: now, Pod: finding.Object{Kind: "Pod", Namespace: "a", Name: "p"}, Volumes: tt.volumes, Verdict: Verdict{State: tt.was}}
		trace.Judge(tt.findings)
		if trace.Verdict.State != tt.want {
			t.Errorf("%s: %s, want %s", name, trace.Verdict.State, tt.want)
		}
		if due := trace.Verdict.DueAt; (due != nil) != (tt.due != 0) || due != nil && due.Sub(now.Time) != tt.due {
			t.Errorf("%s: due at %v", name, due)
		}
	}
}
