package standing

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/testing/protocmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// every is one look with the findings of all cases in testdata/cases, one or more for each
// code.
var every = sync.OnceValues(func() (*look, error) {
	dir, err := testcases.Directory()
	if err != nil {
		return nil, err
	}
	paths, err := filepath.Glob(filepath.Join(dir, "cases", "*.txtar"))
	if err != nil {
		return nil, err
	}
	whole := &look{report: &finding.Report{TakenAt: metav1.NewTime(noon), Gaps: []snapshot.Gap{{Kind: snapshot.Pods, Reason: snapshot.ReasonForbidden}}}}
	for _, c := range diagnose.Checks() {
		whole.report.Checks = append(whole.report.Checks, c.Code)
	}
	taken := map[string]int{}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".txtar")
		code, what, _ := strings.Cut(name, "-")
		if strings.HasPrefix(what, "near") || taken[code] == 2 {
			continue
		}
		taken[code]++
		c, err := testcases.Load(name)
		if err != nil {
			return nil, err
		}
		read, err := c.Snapshot()
		if err != nil {
			return nil, err
		}
		s := &state{}
		s.begin(noon)
		s.saw(repair.Look(read, diagnose.Options{Reconcile: c.Settings}, repair.Consent{}), noon)
		whole.standing = append(whole.standing, s.last.standing...)
		whole.waits = append(whole.waits, s.last.waits...)
		whole.detaches = append(whole.detaches, s.last.detaches...)
		whole.loads = append(whole.loads, s.last.loads...)
	}
	return whole, nil
})

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// leading are the metrics of a process that leads and has made the look.
func leading(l *look) *metrics {
	m := newMetrics(&state{leading: true, beat: noon, last: l}, "v1.2.3")
	m.took(time.Millisecond)
	return m
}

func gather(t require, m *metrics) map[string]*dto.MetricFamily {
	t.Helper()
	families, err := m.Gather()
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]*dto.MetricFamily{}
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "volume_doctor_") {
			byName[f.GetName()] = f
		}
	}
	return byName
}

type require interface {
	Helper()
	Fatal(...any)
}

// TestMetricsOfEveryCode: the metrics of the whole corpus keep the conventions of Prometheus,
// every metric is there, and every check that can find something has a series.
func TestMetricsOfEveryCode(t *testing.T) {
	l, err := every()
	if err != nil {
		t.Fatal(err)
	}
	m := leading(l)
	problems, err := testutil.GatherAndLint(m.Registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	families := gather(t, m)
	var described []string
	for _, metric := range Metrics() {
		described = append(described, metric.Name)
		f := families[metric.Name]
		if f == nil {
			t.Errorf("the corpus has no %s", metric.Name)
			continue
		}
		if f.GetHelp() != metric.Help {
			t.Errorf("%s: %q", metric.Name, f.GetHelp())
		}
		for _, series := range f.Metric {
			var names []string
			for _, pair := range series.Label {
				names = append(names, pair.GetName())
			}
			if want := slices.Sorted(slices.Values(metric.Labels)); !slices.Equal(names, want) {
				t.Errorf("%s has the labels %v, and is described with %v", metric.Name, names, want)
			}
		}
	}
	if got := slices.Sorted(maps.Keys(families)); !slices.Equal(got, slices.Sorted(slices.Values(described))) {
		t.Errorf("there are %v", got)
	}
	codes, counted := map[string]bool{}, map[string]bool{}
	for _, series := range families[findingSince.Name].Metric {
		codes[labelOf(series, "code")] = true
	}
	for _, series := range families[findings.Name].Metric {
		counted[labelOf(series, "code")] = true
	}
	for _, c := range diagnose.Checks() {
		if c.Run != nil && (!codes[string(c.Code)] || !counted[string(c.Code)]) {
			t.Errorf("%s has no series", c.Code)
		}
	}
	if len(codes) < 60 {
		t.Errorf("only %d codes", len(codes))
	}
	pedantic := prometheus.NewPedanticRegistry()
	pedantic.MustRegister(collector{m})
	if _, err := pedantic.Gather(); err != nil {
		t.Error(err)
	}
}

func labelOf(m *dto.Metric, name string) string {
	for _, pair := range m.Label {
		if pair.GetName() == name {
			return pair.GetValue()
		}
	}
	return ""
}

// TestTwoScrapes: two scrapes of one look are equal.
func TestTwoScrapes(t *testing.T) {
	l, err := every()
	if err != nil {
		t.Fatal(err)
	}
	m := leading(l)
	if diff := cmp.Diff(gather(t, m), gather(t, m), protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
}

// TestLabelsAreClean: whatever characters names have, and however many findings are alike, a
// scrape succeeds, no label has an invisible character, and none is too long.
func TestLabelsAreClean(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`(\x00|\x1b\[|\n|\x{202e}|[a-c]){0,9}`), rapid.Just("\xff\xfe"),
			rapid.Map(rapid.IntRange(0, 600), func(n int) string { return strings.Repeat("ü", n) }))
		l := &look{report: &finding.Report{TakenAt: metav1.NewTime(noon)}}
		for range rapid.IntRange(0, 8).Draw(t, "findings") {
			f := finding.Finding{
				Code: finding.Code(text.Draw(t, "code")), Check: text.Draw(t, "check"), Severity: finding.Severity(text.Draw(t, "severity")),
				Subject: finding.Object{Kind: text.Draw(t, "kind"), Namespace: text.Draw(t, "namespace"), Name: text.Draw(t, "name")},
				Node:    types.NodeName(text.Draw(t, "node")), PersistentVolume: text.Draw(t, "volume"),
			}
			l.standing = append(l.standing, finding.Standing{Finding: f, First: metav1.NewTime(noon)})
			l.waits = append(l.waits, wait{namespace: text.Draw(t, "namespace"), pod: text.Draw(t, "pod"), actor: text.Draw(t, "actor")})
			l.loads = append(l.loads, load{node: text.Draw(t, "node"), driver: text.Draw(t, "driver")})
			l.report.Gaps = append(l.report.Gaps, snapshot.Gap{Kind: snapshot.Kind(text.Draw(t, "gap"))})
		}
		for name, family := range gather(t, leading(l)) {
			if n := len(family.Metric); n > len(l.standing)+1 {
				t.Fatalf("%s has %d series of %d findings", name, n, len(l.standing))
			}
			for _, series := range family.Metric {
				for _, pair := range series.Label {
					v := pair.GetValue()
					if !utf8.ValidString(v) || strings.ContainsFunc(v, safetext.Hidden) || utf8.RuneCountInString(v) > 253 {
						t.Fatalf("%s: %s=%q", name, pair.GetName(), v)
					}
				}
			}
		}
	})
}

// TestSeriesAreBounded: of too many findings the worst are kept as series, and all are
// counted.
func TestSeriesAreBounded(t *testing.T) {
	const all = maxSeries + 1000
	l := &look{report: &finding.Report{TakenAt: metav1.NewTime(noon)}}
	for i := range all {
		f := finding.Finding{Code: "VD301", Severity: finding.Error, Subject: finding.Object{Kind: "Pod", Name: fmt.Sprint(i)}}
		l.standing = append(l.standing, finding.Standing{Finding: f})
		l.waits = append(l.waits, wait{pod: fmt.Sprint(i)})
		l.detaches = append(l.detaches, detach{volume: fmt.Sprint(i)})
	}
	families := gather(t, leading(l))
	for _, m := range []Metric{findingSince, waiting, detaching} {
		if n := len(families[m.Name].Metric); n != maxSeries {
			t.Errorf("%s has %d series", m.Name, n)
		}
	}
	if n := families[findings.Name].Metric[0].GetGauge().GetValue(); n != all {
		t.Errorf("%v findings are counted", n)
	}
}

// TestValues follows a node, a wait and a finding into their series.
func TestValues(t *testing.T) {
	ten := metav1.NewTime(noon.Add(-2 * time.Hour))
	l := &look{
		report: &finding.Report{TakenAt: metav1.NewTime(noon), Checks: []finding.Code{"VD101"}, Gaps: []snapshot.Gap{{Kind: "pods", Reason: "Forbidden"}, {Kind: "pods", Namespace: "a", Reason: "Forbidden"}}},
		standing: []finding.Standing{
			{First: metav1.NewTime(noon), Last: metav1.NewTime(noon.Add(-time.Minute)), Finding: finding.Finding{
				Actions: []finding.Action{{Kind: finding.SeeDetached, When: finding.Later}, {Kind: finding.ApplyRepair, When: finding.Now}},
				Code:    "VD301", Check: "inuse-not-attached", Severity: finding.Error, Subject: finding.Object{Kind: "Pod", Namespace: "shop", Name: "web-0"},
				Volume: "kubernetes.io/csi/d^v", PersistentVolume: "pv1", Node: "n1", Since: &ten, SelfHeals: finding.SelfHeals{Will: true, After: "6m0s"}}},
			{First: metav1.NewTime(noon), Finding: finding.Finding{Code: "VD504", Check: "c", Severity: finding.Warning, Volume: "kubernetes.io/csi/d^w", SelfHeals: finding.SelfHeals{After: "6m0s"}}},
		},
		waits:    []wait{{namespace: "shop", pod: "web-0", node: "n1", claim: "data", volume: "pv1", stage: "attached", actor: "CSI driver d", state: finding.Stuck, lasts: 90 * time.Second}},
		detaches: []detach{{"shop", "data", "pv1", "n2", "d", 4 * time.Minute}, {node: "n3", driver: "d", volume: "gone"}},
		loads:    []load{{"n1", "d", 3, 25}, {"n1", "unlimited", 0, -1}, {"n1", "full", -1, 0}},
	}
	expected := `
# HELP volume_doctor_attachable_volumes_limit Volumes of the driver that may be attached to the node, as its CSINode says; absent where that gives no limit.
# TYPE volume_doctor_attachable_volumes_limit gauge
volume_doctor_attachable_volumes_limit{driver="d",node="n1"} 25
volume_doctor_attachable_volumes_limit{driver="full",node="n1"} 0
# HELP volume_doctor_attached_volumes Volumes of the driver that are attached to the node.
# TYPE volume_doctor_attached_volumes gauge
volume_doctor_attached_volumes{driver="d",node="n1"} 3
volume_doctor_attached_volumes{driver="unlimited",node="n1"} 0
# HELP volume_doctor_detaching_seconds How long ago the detach of a volume from a node was asked for that is not done: its VolumeAttachment is being deleted.
# TYPE volume_doctor_detaching_seconds gauge
volume_doctor_detaching_seconds{claim="",driver="d",namespace="",node="n3",volume="gone"} 0
volume_doctor_detaching_seconds{claim="data",driver="d",namespace="shop",node="n2",volume="pv1"} 240
# HELP volume_doctor_finding_due_timestamp_seconds When the finding heals by itself at the latest; absent where it does not, or nothing bounds it.
# TYPE volume_doctor_finding_due_timestamp_seconds gauge
volume_doctor_finding_due_timestamp_seconds{action="repair",check="inuse-not-attached",code="VD301",kind="Pod",name="web-0",namespace="shop",node="n1",severity="error",volume="pv1"} 1.7951763e+09
# HELP volume_doctor_finding_since_timestamp_seconds When the finding began, or was found first where that is not known; one series for each finding that stands. action is the kind of what to do first.
# TYPE volume_doctor_finding_since_timestamp_seconds gauge
volume_doctor_finding_since_timestamp_seconds{action="",check="c",code="VD504",kind="",name="",namespace="",node="",severity="warning",volume="kubernetes.io/csi/d^w"} 1.795176e+09
volume_doctor_finding_since_timestamp_seconds{action="repair",check="inuse-not-attached",code="VD301",kind="Pod",name="web-0",namespace="shop",node="n1",severity="error",volume="pv1"} 1.7951688e+09
# HELP volume_doctor_findings Findings that stand; 0 for each check that the last look could run and that found nothing.
# TYPE volume_doctor_findings gauge
volume_doctor_findings{check="c",code="VD504",severity="warning"} 1
volume_doctor_findings{check="dangling-after-kcm-restart",code="VD101",severity="warning"} 0
volume_doctor_findings{check="inuse-not-attached",code="VD301",severity="error"} 1
# HELP volume_doctor_gaps Kinds of objects that cannot be followed, wholly or in part; checks that need them do not run.
# TYPE volume_doctor_gaps gauge
volume_doctor_gaps{kind="pods",reason="Forbidden"} 2
# HELP volume_doctor_last_look_timestamp_seconds The API server's time at the last look.
# TYPE volume_doctor_last_look_timestamp_seconds gauge
volume_doctor_last_look_timestamp_seconds 1.795176e+09
# HELP volume_doctor_leader 1 where this process looks, 0 where it stands by; only the one that looks has the metrics about the cluster.
# TYPE volume_doctor_leader gauge
volume_doctor_leader 1
# HELP volume_doctor_waiting_seconds How long a pod, or its end, has waited for a volume, in which stage and for whom; state is in-flight, stuck or unknown.
# TYPE volume_doctor_waiting_seconds gauge
volume_doctor_waiting_seconds{actor="CSI driver d",claim="data",namespace="shop",node="n1",pod="web-0",stage="attached",state="stuck",volume="pv1"} 90
`
	var names []string
	for _, m := range Metrics() {
		if m.Name != lookTook.Name && m.Name != buildInfo.Name {
			names = append(names, m.Name)
		}
	}
	if err := testutil.GatherAndCompare(leading(l).Registry, strings.NewReader(expected), names...); err != nil {
		t.Error(err)
	}
}

// TestWaitsWithoutBeginning: a wait whose beginning no object shows counts from when it was
// first seen, and anew after the pod has stopped waiting.
func TestWaitsWithoutBeginning(t *testing.T) {
	s, empty := &state{}, snapshot.New(noon, snapshot.Source{}, snapshot.Objects{}, nil)
	lasts := func(after time.Duration, waits ...finding.Waiting) time.Duration {
		r := &finding.Report{TakenAt: metav1.NewTime(noon.Add(after)), Waiting: waits}
		for _, w := range s.waitsOf(&repair.View{Snapshot: empty, Report: r}) {
			return w.lasts
		}
		return -1
	}
	pod := finding.Waiting{Pod: "shop/web-0", Verdict: finding.Unsure}
	for _, step := range []struct {
		after time.Duration
		waits []finding.Waiting
		want  time.Duration
	}{
		{0, []finding.Waiting{pod}, 0}, {time.Minute, []finding.Waiting{pod}, time.Minute}, {2 * time.Minute, nil, -1},
		{3 * time.Minute, []finding.Waiting{pod}, 0}, {4 * time.Minute, []finding.Waiting{pod}, time.Minute},
	} {
		if got := lasts(step.after, step.waits...); got != step.want {
			t.Errorf("after %s: %s, not %s", step.after, got, step.want)
		}
	}
	began, future := metav1.NewTime(noon), metav1.NewTime(noon.Add(time.Hour))
	if got := lasts(5*time.Minute, finding.Waiting{Pod: "shop/web-0", Since: &began}); got != 5*time.Minute {
		t.Errorf("what the objects say: %s", got)
	}
	if got := lasts(6*time.Minute, finding.Waiting{Pod: "shop/web-0", Since: &future}); got != 0 {
		t.Errorf("a wait that begins in the future lasts %s", got)
	}
}

// TestWaitLabels: a wait has the claim and its volume where the pod names a claim.
func TestWaitLabels(t *testing.T) {
	c, err := testcases.Load("vd301-backoff-drop")
	if err != nil {
		t.Fatal(err)
	}
	read, err := c.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	s := &state{}
	s.saw(repair.Look(read, diagnose.Options{Reconcile: c.Settings}, repair.Consent{}), noon)
	if len(s.last.waits) == 0 {
		t.Fatal("nobody waits")
	}
	for _, w := range s.last.waits {
		if claim := read.Claim(types.NamespacedName{Namespace: w.namespace, Name: w.claim}); claim == nil || claim.Spec.VolumeName != w.volume || w.actor == "" || w.lasts <= 0 {
			t.Errorf("%+v", w)
		}
	}
}

// TestDetachLabels: a detach has the claim of its volume, and counts from the moment at which
// it was asked for. A volume whose detach nobody has asked for has no series.
func TestDetachLabels(t *testing.T) {
	for name, want := range map[string]bool{"vd103-driver-refuses": true, "vd301-backoff-drop": false} {
		c, err := testcases.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		read, err := c.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		list := detachesOf(repair.Look(read, diagnose.Options{Reconcile: c.Settings}, repair.Consent{}))
		if (len(list) > 0) != want {
			t.Errorf("%s: %+v", name, list)
		}
		for _, d := range list {
			pv := read.Volume(d.volume)
			if pv == nil || pv.Spec.ClaimRef == nil || d.claim != pv.Spec.ClaimRef.Name || d.namespace != pv.Spec.ClaimRef.Namespace || d.node == "" || d.driver == "" || d.lasts < 10*time.Minute {
				t.Errorf("%s: %+v", name, d)
			}
		}
	}
}

// TestLoadsNeedTheirLists: the numbers of attached and attachable volumes are left out where
// a list was not read in full.
func TestLoadsNeedTheirLists(t *testing.T) {
	c, err := testcases.Load("vd608-forecast")
	if err != nil {
		t.Fatal(err)
	}
	read, err := c.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	loads := func(gaps ...snapshot.Gap) (attached, limited int) {
		s := snapshot.New(read.TakenAt, read.Source, snapshot.Objects{Nodes: read.Nodes, VolumeAttachments: read.VolumeAttachments, CSINodes: read.CSINodes}, gaps)
		for _, l := range loadsOf(repair.Look(s, diagnose.Options{}, repair.Consent{})) {
			if l.attached >= 0 {
				attached++
			}
			if l.limit >= 0 {
				limited++
			}
		}
		return attached, limited
	}
	if attached, limited := loads(); attached == 0 || limited == 0 {
		t.Errorf("all was read: %d and %d", attached, limited)
	}
	if attached, _ := loads(snapshot.Gap{Kind: snapshot.VolumeAttachments, Reason: snapshot.ReasonForbidden}); attached != 0 {
		t.Errorf("%d nodes have a number without VolumeAttachments", attached)
	}
	if _, limited := loads(snapshot.Gap{Kind: snapshot.CSINodes, Reason: snapshot.ReasonForbidden}); limited != 0 {
		t.Errorf("%d nodes have a limit without CSINodes", limited)
	}
}
