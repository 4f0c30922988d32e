package kubelettrace

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/kubelet"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/kubeletoracle/wire"
)

// rightLook is a right trace of three volumes: one whose driver refuses to stage it, one that
// is mounted, and one that no container mounts.
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

// rightPlan is the plan's rows of the volumes of rightLook.
func rightPlan() *kubelet.Node {
	pods := func(name string) []kubelet.PodVolume { return []kubelet.PodVolume{{Pod: "/", Name: name}} }
	return &kubelet.Node{Node: "n1", Volumes: []kubelet.Volume{
		{Volume: "kubernetes.io/csi/d^1", Pods: pods("data"), State: trace.StageBlocked, Stage: trace.StageStaged, Actor: "CSI driver " + Disk + " on n1",
			Next: kubelet.MountVolume, Calls: []kubelet.Call{kubelet.NodeStage}},
		{Volume: "kubernetes.io/csi/d^2", Pods: pods("other"), State: trace.StageUnknown, Stage: trace.StageMounted, Stages: []trace.StageName{trace.StageStaged, trace.StageMounted}},
		{Volume: "kubernetes.io/csi/d^3", Driver: "d", Pods: []kubelet.PodVolume{}, State: trace.StageWaiting, Stage: trace.StageUnstaged,
			Stages: []trace.StageName{trace.StageUnmounted, trace.StageUnstaged}, Actor: "CSI driver d on n1"},
	}}
}

// TestRecordedRowsCanFail changes each kind of row of a right plan.
func TestRecordedRowsCanFail(t *testing.T) {
	compare := func(spoil func(*Look, []Volume, *seen)) string {
		l, volumes := rightLook()
		l.Plan = rightPlan()
		s := seen{answer: wire.Answer{Kubelet: &wire.Kubelet{InUse: []corev1.UniqueVolumeName{"kubernetes.io/csi/d^1", "kubernetes.io/csi/d^2", "kubernetes.io/csi/d^3"}}},
			registered: func(string) bool { return true }}
		spoil(&l, volumes, &s)
		_, leftovers := CompareLeftovers(l.Plan, s, false)
		return strings.Join(append(l.CompareRows(volumes), leftovers...), "\n")
	}
	if wrong := compare(func(*Look, []Volume, *seen) {}); wrong != "" {
		t.Fatalf("a plan that is right is taken for wrong: %s", wrong)
	}
	for name, c := range map[string]struct {
		spoil func(*Look, []Volume, *seen)
		says  string
	}{
		"a row left out":          {func(l *Look, _ []Volume, _ *seen) { l.Plan.Volumes = l.Plan.Volumes[1:] }, "has no row"},
		"a row for no use":        {func(_ *Look, volumes []Volume, _ *seen) { volumes[1].Unused = true }, "nobody mounts"},
		"mounted that is not":     {func(l *Look, _ []Volume, _ *seen) { l.Plan.Volumes[0].State = trace.StageDone }, "is not mounted"},
		"a wait that is none":     {func(l *Look, _ []Volume, _ *seen) { l.Plan.Volumes[1].State = trace.StageWaiting }, "does not wait"},
		"another stage":           {func(l *Look, _ []Volume, _ *seen) { l.Plan.Volumes[0].Stage = trace.StageMounted }, "waits in staged"},
		"another actor":           {func(l *Look, _ []Volume, _ *seen) { l.Plan.Volumes[0].Actor = trace.Nobody }, "waits for the CSI driver"},
		"another operation":       {func(l *Look, _ []Volume, _ *seen) { l.Plan.Volumes[0].Next = kubelet.MapVolume }, "the kubelet is at MountVolume"},
		"a call left out":         {func(l *Look, _ []Volume, _ *seen) { l.Plan.Volumes[0].Calls = nil }, "is called for []"},
		"a leftover left out":     {func(l *Look, _ []Volume, _ *seen) { l.Plan.Volumes = l.Plan.Volumes[:2] }, "which has no row"},
		"a leftover that is gone": {func(_ *Look, _ []Volume, s *seen) { s.answer.Kubelet.InUse = s.answer.Kubelet.InUse[:2] }, "given volume"},
		"a leftover on another":   {func(_ *Look, _ []Volume, s *seen) { s.registered = func(string) bool { return false } }, "nobody wants"},
		"a leftover not known":    {func(l *Look, _ []Volume, _ *seen) { l.Plan.Volumes[2].State = trace.StageUnknown }, "nobody wants"},
		"a leftover of another":   {func(l *Look, _ []Volume, _ *seen) { l.Plan.Volumes[2].Actor = "the kubelet of n1" }, "nobody wants"},
		"a leftover still mounted": {func(l *Look, _ []Volume, s *seen) {
			now := time.Now()
			s.answer.Calls = []wire.Call{{RPC: wire.Publish, Handle: "3", Pod: "p", Began: now, Ended: now}}
			l.Plan.Volumes[2].Stages = nil
		}, "waits in unmounted"},
	} {
		t.Run(name, func(t *testing.T) {
			if wrong := compare(c.spoil); !strings.Contains(wrong, c.says) {
				t.Errorf("not noticed: want %q in %q", c.says, wrong)
			}
		})
	}
}

// TestRecordedLeftoversCanFail: with the kubelet's log, the plan must show what fails for a
// volume that no pod wants.
func TestRecordedLeftoversCanFail(t *testing.T) {
	now := time.Now()
	refused := wire.Call{RPC: wire.Unstage, Handle: "3", Began: now, Ended: now, Code: 13}
	answered := wire.Call{RPC: wire.Unstage, Handle: "3", Began: now, Ended: now}
	hangs := wire.Call{RPC: wire.Unstage, Handle: "3", Began: now}
	elsewhere := map[string]string{elsewherePath("3"): "0:1"}
	for name, c := range map[string]struct {
		calls  []wire.Call
		mounts map[string]string
		state  trace.StageState
		actor  string
		right  bool
	}{
		"hangs":                      {[]wire.Call{hangs}, nil, trace.StageWaiting, "CSI driver d on n1", true},
		"hangs, and was refused":     {[]wire.Call{refused, hangs}, nil, trace.StageBlocked, "CSI driver d on n1", true},
		"refused":                    {[]wire.Call{refused}, nil, trace.StageBlocked, "CSI driver d on n1", true},
		"refused, and waits":         {[]wire.Call{refused}, nil, trace.StageWaiting, "CSI driver d on n1", false},
		"refused, and the kubelet":   {[]wire.Call{refused}, nil, trace.StageBlocked, "the kubelet of n1", false},
		"answered, and the kubelet":  {[]wire.Call{refused, answered}, nil, trace.StageBlocked, "the kubelet of n1", true},
		"answered, and the driver":   {[]wire.Call{refused, answered}, nil, trace.StageBlocked, "CSI driver d on n1", false},
		"elsewhere":                  {nil, elsewhere, trace.StageBlocked, "whoever mounted it at /x on n1", true},
		"elsewhere, and the driver":  {nil, elsewhere, trace.StageBlocked, "CSI driver d on n1", false},
		"elsewhere, and it is fine":  {nil, elsewhere, trace.StageWaiting, "whoever mounted it at /x on n1", false},
		"nothing, and it is refused": {nil, nil, trace.StageBlocked, "CSI driver d on n1", false},
	} {
		plan := rightPlan()
		plan.Volumes[2].State, plan.Volumes[2].Actor = c.state, c.actor
		s := seen{answer: wire.Answer{Calls: c.calls, Kubelet: &wire.Kubelet{InUse: []corev1.UniqueVolumeName{"kubernetes.io/csi/d^1", "kubernetes.io/csi/d^2", "kubernetes.io/csi/d^3"}}},
			registered: func(string) bool { return true }, mounts: c.mounts}
		if _, wrong := CompareLeftovers(plan, s, true); (len(wrong) == 0) != c.right {
			t.Errorf("%s: %v", name, wrong)
		}
	}
}

// TestRecordedComparisonCanFail changes each kind of row of a right trace.
func TestRecordedComparisonCanFail(t *testing.T) {
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
	l.Truth["data"], l.Trace.Verdict.Actor = truth, trace.Nobody
}
