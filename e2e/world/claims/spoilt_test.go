package claims

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
)

// told is a record of half an hour with a look each minute, in which all that is said is true:
// the driver refuses to attach for shop/db-0 until minute 15, node n2 is lost at minute 5 and
// its volume follows shop/web-0 by force at minute 12, and somebody has deleted the
// VolumeAttachment of shop/db-1 at minute 2.
func told() *Record {
	const refused, lost, again = "kubernetes.io/csi/d^vol-1", "kubernetes.io/csi/d^vol-2", "kubernetes.io/csi/d^vol-3"
	r := &Record{
		Began: began, Ended: at(30),
		Pods: []Pod{
			{Name: "shop/db-0", Claims: []string{"data"}, Node: "n1", Created: at(1), Scheduled: at(1), Running: at(16)},
			{Name: "shop/web-0", Claims: []string{"web"}, Node: "n3", Created: at(6), Scheduled: at(6), Running: at(12)},
			{Name: "shop/db-1", Claims: []string{"log"}, Node: "n1", Created: at(0), Scheduled: at(0), Running: at(0.2)},
		},
		Causes: []Cause{
			{Span: Span{From: at(0.9), To: at(15)}, Kind: "ControllerPublishVolume refuses", Volume: "vol-1"},
			{Span: Span{From: at(5)}, Kind: "switch off", Node: "n2"},
			{Span: Span{From: at(2)}, Kind: "delete the attachment", Volume: "vol-3"},
		},
		Acts:    []Act{{At: at(0.9), Shown: at(0.9)}, {At: at(2), Shown: at(2)}, {At: at(5), Shown: at(5)}, {At: at(15), Shown: at(15)}},
		Stopped: map[string][]Span{"n2": {{From: at(5)}}},
		Cures:   []Try{{At: at(15), Call: "ControllerPublishVolume", Volume: "vol-1"}},
		Tries:   []Try{{At: at(14), Call: "ControllerPublishVolume", Volume: "vol-1", Node: "n1", Failed: true}, {At: at(15.8), Call: "ControllerPublishVolume", Volume: "vol-1", Node: "n1"}},
	}
	due := func(minutes float64) *metav1.Time { t := metav1.NewTime(at(minutes)); return &t }
	for m := 1.5; m < 30; m++ {
		var findings []finding.Finding
		var waiting []finding.Waiting
		switch {
		case m < 3:
			waiting = append(waiting, finding.Waiting{Pod: "shop/db-0", Verdict: finding.InFlight, Stage: "attached", Actor: "CSI driver d", DueAt: due(3)})
		case m < 16:
			findings = append(findings, finding.Finding{Code: "VD410", Severity: finding.Error, Pods: []string{"shop/db-0"}, Volume: refused, Node: "n1", Fingerprint: "1",
				SelfHeals: finding.SelfHeals{Unknown: true}})
			waiting = append(waiting, finding.Waiting{Pod: "shop/db-0", Verdict: finding.Stuck, Stage: "attached", Actor: "CSI driver d"})
		}
		if m > 6 && m < 12 {
			left := time.Duration((14 - m) * float64(time.Minute))
			findings = append(findings, finding.Finding{Code: "VD102", Severity: finding.Info, Pods: []string{"shop/web-0"}, Volume: lost, Node: "n2", Fingerprint: "2",
				SelfHeals: finding.SelfHeals{Will: true, After: left.String()}})
			waiting = append(waiting, finding.Waiting{Pod: "shop/web-0", Verdict: finding.InFlight, Stage: "attached", Actor: "the attach/detach controller", DueAt: due(14)})
		}
		if m > 3 {
			findings = append(findings, finding.Finding{Code: "VD122", Severity: finding.Warning, Pods: []string{"shop/db-1"}, Volume: again, Node: "n1", Fingerprint: "3"})
		}
		r.Looks = append(r.Looks, looksAt(m, findings, waiting...))
	}
	return r
}

// TestSpoilt spoils one claim of a true record at a time: the judge notices each.
func TestSpoilt(t *testing.T) {
	if f := Judge(told()).False; len(f) > 0 {
		t.Fatalf("what is true is judged false: %v", f)
	}
	// of changes the finding of the code in the look of that minute.
	of := func(code finding.Code, minute float64, change func(*finding.Finding)) func(*Record) {
		return func(r *Record) {
			l := lookOf(r, minute)
			change(&l.Report.Findings[slices.IndexFunc(l.Report.Findings, func(f finding.Finding) bool { return f.Code == code })])
		}
	}
	named := func(code finding.Code) func(*Record) {
		return of("VD410", 8.5, func(f *finding.Finding) { f.Code = code })
	}
	waits := func(pod string, minute float64, change func(*finding.Waiting)) func(*Record) {
		return func(r *Record) { change(lookOf(r, minute).Waiting(pod)) }
	}
	acts := func(actor string) func(*Record) {
		return waits("shop/db-0", 8.5, func(w *finding.Waiting) { w.Actor = actor })
	}
	without := func(code finding.Code, minute float64) func(*Record) {
		return func(r *Record) {
			l := lookOf(r, minute)
			*l = looksAt(minute, slices.DeleteFunc(l.Report.Findings, func(f finding.Finding) bool { return f.Code == code }), l.Report.Waiting...)
		}
	}
	silent := func(pod string, minute float64) func(*Record) {
		return func(r *Record) {
			l := lookOf(r, minute)
			l.Report.Waiting = slices.DeleteFunc(l.Report.Waiting, func(w finding.Waiting) bool { return w.Pod == pod })
		}
	}
	all := func(changes ...func(*Record)) func(*Record) {
		return func(r *Record) {
			for _, change := range changes {
				change(r)
			}
		}
	}
	for name, c := range map[string]struct {
		spoil func(*Record)
		judge string
	}{
		"no word about who waits":                {all(without("VD410", 8.5), silent("shop/db-0", 8.5)), "nothing is wrong"},
		"no word about who is in flight":         {all(without("VD102", 7.5), silent("shop/web-0", 7.5)), "nothing is wrong"},
		"a kind that cannot be read":             {func(r *Record) { lookOf(r, 8.5).Report.Gaps = gap }, "exit code"},
		"stuck, and the finding is info":         {of("VD410", 8.5, func(f *finding.Finding) { f.Severity = finding.Info }), "exit code"},
		"stuck, and no finding":                  {without("VD410", 8.5), "exit code"},
		"exit 0 while it is stuck":               {all(without("VD410", 8.5), without("VD122", 8.5), waits("shop/db-0", 8.5, func(w *finding.Waiting) { w.Verdict = finding.Unsure })), "exit code"},
		"in flight again":                        {waits("shop/db-0", 8.5, func(w *finding.Waiting) { w.Verdict, w.DueAt = finding.InFlight, &metav1.Time{Time: at(20)} }), "in flight"},
		"due before it is over":                  {waits("shop/web-0", 7.5, func(w *finding.Waiting) { w.DueAt = &metav1.Time{Time: at(9)} }), "in flight"},
		"in flight beside what does not heal":    {of("VD102", 7.5, func(f *finding.Finding) { f.Severity, f.SelfHeals = finding.Warning, finding.SelfHeals{} }), "in flight"},
		"does not heal, and does":                {all(silent("shop/web-0", 7.5), of("VD102", 7.5, func(f *finding.Finding) { f.SelfHeals = finding.SelfHeals{} })), "does not heal"},
		"heals within a time that is too short":  {of("VD102", 7.5, func(f *finding.Finding) { f.SelfHeals.After = "1m0s" }), "heals"},
		"what stands for good is gone":           {without("VD122", 28.5), "stands"},
		"the attacher, which runs":               {named("VD604"), "cause"},
		"the controller, which runs":             {named("VD622"), "cause"},
		"a pod that does not end, and none does": {named("VD417"), "cause"},
		"a mount that fails, and none does":      {named("VD411"), "cause"},
		"a taint that nobody set":                {named("VD110"), "cause"},
		"a second pod that nobody made":          {named("VD203"), "cause"},
		"a claim that nobody made again":         {named("VD513"), "cause"},
		"a claimRef that nobody edited":          {named("VD501"), "cause"},
		"the volume of another pod":              {of("VD410", 8.5, func(f *finding.Finding) { f.Volume = "kubernetes.io/csi/d^vol-9" }), "cause"},
		"a node that is not lost":                {of("VD102", 7.5, func(f *finding.Finding) { f.Node = "n3" }), "cause"},
		"before it was done":                     {func(r *Record) { r.Causes[2].From = at(9) }, "cause"},
		"the node plugin acts":                   {acts("CSI driver d on n1"), "actor"},
		"another pod acts":                       {acts("pod shop/other"), "actor"},
	} {
		r := told()
		c.spoil(r)
		var got []string
		for _, f := range Judge(r).False {
			got = append(got, f.Judge)
		}
		if !slices.Contains(got, c.judge) {
			t.Errorf("%s: %q does not notice it; those that do: %s", name, c.judge, strings.Join(got, ", "))
		}
	}
}

// lookOf is the look of that minute.
func lookOf(r *Record, minute float64) *Look {
	return &r.Looks[slices.IndexFunc(r.Looks, func(l Look) bool { return l.At.Equal(at(minute)) })]
}
