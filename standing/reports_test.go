package standing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// TestOpenReports: each standing finding of the corpus is one result, in the report of its
// namespace, and so is each kind that could not be read.
func TestOpenReports(t *testing.T) {
	acts := finding.Standing{Finding: finding.Finding{Code: "VD301", Actions: []finding.Action{{Kind: finding.ApplyRepair, When: finding.Now, Sentence: "add the entry again"}}}}
	if p := resultOf(acts).Properties; p["action"] != "repair" || p["do"] != "add the entry again" {
		t.Errorf("what to do is not said: %v", p)
	}
	l, err := every()
	if err != nil {
		t.Fatal(err)
	}
	reports := openReports(l, "here")
	told := map[string]string{}
	for namespace, o := range reports {
		var summary OpenReportSummary
		for _, r := range o.Results {
			switch r.Result {
			case "fail":
				summary.Fail++
			case "warn":
				summary.Warn++
			case "error":
				summary.Error++
			default:
				t.Errorf("a result is %q", r.Result)
			}
			if print := r.Properties["fingerprint"]; print != "" {
				told[print] = namespace
			}
			if len(r.Message) > longestMessage || r.Policy == "" || r.Message == "" {
				t.Errorf("%+v", r)
			}
		}
		if o.Namespace != namespace || o.Summary != summary {
			t.Errorf("the report of %q is in %q and counts %+v, and has %+v", namespace, o.Namespace, o.Summary, summary)
		}
	}
	for _, s := range l.standing {
		if namespace, ok := told[s.Fingerprint]; !ok || namespace != s.Subject.Namespace {
			t.Errorf("%s about %s: %v in %q", s.Code, s.Subject, ok, namespace)
		}
	}
	if len(told) < 60 || reports[""] == nil || reports[""].Summary.Error != len(l.report.Gaps) {
		t.Errorf("%d findings are told, and what could not be read is not: %+v", len(told), reports[""])
	}
}

// standingOf is a look that found these pods waiting.
func standingOf(now time.Time, complete bool, pods ...string) *look {
	l := &look{report: &finding.Report{TakenAt: metav1.NewTime(now), Complete: complete}}
	for _, pod := range pods {
		namespace, name, _ := strings.Cut(pod, "/")
		l.standing = append(l.standing, finding.Standing{
			Finding: finding.Finding{Code: "VD999", Check: "pod-stuck", Severity: finding.Error, Fingerprint: pod,
				Message: fmt.Sprintf("Pod %s has waited since %s", pod, now), Subject: finding.Object{Kind: "Pod", Namespace: namespace, Name: name}},
			First: metav1.NewTime(noon), Last: metav1.NewTime(now),
		})
	}
	if !complete {
		l.report.Gaps = []snapshot.Gap{{Kind: snapshot.Pods, Reason: snapshot.ReasonForbidden}}
	}
	return l
}

func TestWorstComeFirst(t *testing.T) {
	var pods []string
	for i := range mostResults + 7 {
		pods = append(pods, fmt.Sprintf("web/pod-%04d", i))
	}
	l := standingOf(noon, true, pods...)
	for i := range l.standing {
		l.standing[i].Severity, l.standing[i].Message = finding.Warning, strings.Repeat("é", longestMessage)
	}
	l.standing[mostResults+3].Severity = finding.Error
	l.standing[mostResults+4].Confidence = finding.Suspected
	o := openReports(l, "here")["web"]
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 1<<20 {
		t.Errorf("the object takes %d bytes", len(text))
	}
	last := o.Results[len(o.Results)-1]
	if len(o.Results) != mostResults+1 || o.Summary.Warn != mostResults+6 || o.Summary.Fail != 1 || o.Summary.Skip != 1 ||
		last.Result != "skip" || last.Message != "7 more are counted and not listed" {
		t.Errorf("%d results, %+v, the last %+v", len(o.Results), o.Summary, last)
	}
	if o.Results[0].Properties["fingerprint"] != pods[mostResults+3] || o.Results[0].Severity != "high" {
		t.Errorf("first is %+v", o.Results[0])
	}
}

// kept is a store that refuses the given writes.
type kept struct {
	objects map[string]metav1.ObjectMeta
	refuse  map[string]error
	writes  []string
	version int
}

func (k *kept) OpenReports(context.Context, string) (map[string]metav1.ObjectMeta, error) {
	k.writes = append(k.writes, "list")
	if err := k.refuse["list"]; err != nil {
		return nil, err
	}
	ours := map[string]metav1.ObjectMeta{}
	for namespace, o := range k.objects {
		if o.UID != "foreign" {
			ours[namespace] = o
		}
	}
	return ours, nil
}

var resource = schema.GroupResource{Group: "openreports.io", Resource: "reports"}

func (k *kept) WriteOpenReport(_ context.Context, o *OpenReport, there *metav1.ObjectMeta) (metav1.ObjectMeta, error) {
	verb := "create"
	now, exists := k.objects[o.Namespace]
	if there != nil {
		verb = "update"
	}
	k.writes = append(k.writes, verb+" "+o.Namespace)
	switch err := k.refuse[verb+" "+o.Namespace]; {
	case err != nil:
		return metav1.ObjectMeta{}, err
	case there == nil && exists:
		return metav1.ObjectMeta{}, apierrors.NewAlreadyExists(resource, reportName)
	case there != nil && (there.UID != now.UID || there.ResourceVersion != now.ResourceVersion):
		return metav1.ObjectMeta{}, apierrors.NewConflict(resource, reportName, nil)
	}
	k.touch(o.Namespace, "ours")
	return k.objects[o.Namespace], nil
}

func (k *kept) touch(namespace, uid string) {
	k.version++
	k.objects[namespace] = metav1.ObjectMeta{Namespace: namespace, UID: types.UID(uid), ResourceVersion: fmt.Sprint(k.version)}
}

func (k *kept) DeleteOpenReport(_ context.Context, there *metav1.ObjectMeta) error {
	k.writes = append(k.writes, "delete "+there.Namespace)
	if k.objects[there.Namespace].ResourceVersion != there.ResourceVersion {
		return apierrors.NewConflict(resource, reportName, nil)
	}
	delete(k.objects, there.Namespace)
	return nil
}

// TestReportWriter: what is written, and what is left alone, from look to look.
func TestReportWriter(t *testing.T) {
	type step struct {
		after    time.Duration // since the first step
		complete bool
		pods     []string
		meddle   func(*kept)
		want     []string
		says     string
	}
	none := func(*kept) {}
	forbidden := apierrors.NewForbidden(resource, reportName, errors.New("no right"))
	for name, steps := range map[string][]step{
		"written, changed and healed": {
			{0, true, []string{"a/1", "b/1"}, none, []string{"list", "create a", "create b"}, ""},
			{time.Minute, true, []string{"a/1", "b/1"}, none, nil, ""}, // only ages have changed
			{2 * time.Minute, true, []string{"a/1", "a/2", "b/1"}, none, []string{"update a"}, ""},
			{3 * time.Minute, true, []string{"a/2"}, none, []string{"update a", "delete b"}, ""},
			{4 * time.Minute, true, nil, none, []string{"delete a"}, ""},
			{5 * time.Minute, true, nil, none, nil, ""},
		},
		"ages are not left to grow old": {
			{0, true, []string{"a/1"}, none, []string{"list", "create a"}, ""},
			{10 * time.Minute, true, []string{"a/1"}, none, []string{"list", "update a"}, ""},
		},
		"those of an earlier leader": {
			{0, true, []string{"a/1"}, func(k *kept) { k.touch("a", "ours"); k.touch("b", "ours") }, []string{"list", "update a", "delete b"}, ""},
		},
		"nothing is healed that may only be hidden": {
			{0, false, nil, func(k *kept) { k.touch("a", "ours"); k.touch("b", "ours") }, []string{"list", "create "}, ""},
			// Findings are reported although something cannot be read, and so is that gap.
			{time.Minute, false, []string{"a/1"}, none, []string{"update a"}, ""},
			{2 * time.Minute, false, nil, none, nil, ""},
			{3 * time.Minute, true, []string{"a/1"}, none, []string{"update a", "delete ", "delete b"}, ""},
		},
		"somebody else's": {
			{0, true, []string{"a/1", "b/1"}, func(k *kept) { k.touch("a", "foreign") }, []string{"list", "create a", "create b"}, `in namespace "a" is somebody else's`},
			{time.Minute, true, []string{"a/1", "a/2"}, none, []string{"delete b"}, ""},
			{2 * time.Minute, true, nil, none, nil, ""},
		},
		"changed by somebody": {
			{0, true, []string{"a/1"}, none, []string{"list", "create a"}, ""},
			{time.Minute, true, []string{"a/2"}, func(k *kept) { k.touch("a", "ours") }, []string{"update a"}, ""},
			{2 * time.Minute, true, []string{"a/2"}, none, []string{"list", "update a"}, ""},
			{3 * time.Minute, true, nil, func(k *kept) { k.touch("a", "ours") }, []string{"delete a"}, ""},
			{4 * time.Minute, true, nil, none, []string{"list", "delete a"}, ""},
		},
		"without the right": {
			{0, true, []string{"a/1"}, func(k *kept) { k.refuse["create a"] = forbidden }, []string{"list", "create a"}, "OpenReports were not written: "},
			{59 * time.Second, true, []string{"a/1"}, none, nil, ""},
			{time.Minute, true, []string{"a/1"}, none, []string{"create a"}, ""}, // written before
			{2 * time.Minute, true, []string{"a/1"}, func(k *kept) { clear(k.refuse) }, []string{"create a"}, ""},
		},
		"without the kind": {
			{0, true, []string{"a/1"}, func(k *kept) { k.refuse["list"] = errors.New("the server could not find the requested resource") }, []string{"list"}, "could not find"},
			{time.Minute, true, []string{"a/1"}, func(k *kept) { clear(k.refuse) }, []string{"list", "create a"}, ""},
		},
		"the namespace is gone": {
			{0, true, []string{"a/1", "b/1"}, func(k *kept) { k.refuse["create a"] = apierrors.NewNotFound(resource, "a") }, []string{"list", "create a", "create b"}, ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := &kept{objects: map[string]metav1.ObjectMeta{}, refuse: map[string]error{}}
			var said []string
			w := reportWriter{store: k, logf: func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }}
			for i, s := range steps {
				s.meddle(k)
				k.writes, said = nil, nil
				now := noon.Add(s.after)
				w.write(t.Context(), standingOf(now, s.complete, s.pods...), now)
				if !slices.Equal(k.writes, s.want) {
					t.Errorf("step %d: %q, want %q", i, k.writes, s.want)
				}
				if text := strings.Join(said, "\n"); (text == "") != (s.says == "") || !strings.Contains(text, s.says) {
					t.Errorf("step %d: said %q, want %q", i, text, s.says)
				}
			}
		})
	}
}
