package finding

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

func inCluster(context, server string, at int64, gaps ...snapshot.Gap) *Report {
	return New(Report{
		TakenAt: metav1.NewTime(time.Unix(at, 0)), KubernetesVersion: "v1.36.3", Complete: len(gaps) == 0, Gaps: gaps,
		Source: snapshot.Source{Context: context, Server: server}, Checks: []Code{"VD301", "VD401"},
		Findings: []Finding{
			{Code: "VD301", Check: "inuse-not-attached", Severity: Error, Message: "lost", Volume: "v", Fingerprint: "1", Subject: Object{Kind: "Node", Name: "n1"}},
			{Code: "VD401", Check: "reuse-while-detaching", Severity: Warning, Message: "waits", Fingerprint: "2", CausedBy: "1"},
		},
		Volumes: []VolumeRecord{{Volume: "v"}},
	})
}

func TestMerge(t *testing.T) {
	all := Merge([]*Report{
		inCluster("west", "https://w", 200),
		inCluster("east", "https://e", 100, snapshot.Gap{Kind: snapshot.Pods, Reason: snapshot.ReasonForbidden}),
	}, nil, LeaveOut{})
	if all.Complete || len(all.Gaps) != 1 || all.Gaps[0].Context != "east" {
		t.Errorf("gaps %v", all.Gaps)
	}
	if all.TakenAt.Unix() != 100 || all.KubernetesVersion != "v1.36.3" || len(all.Sources) != 2 || len(all.Checks) != 2 {
		t.Errorf("%+v", all)
	}
	if all.Summary != (Summary{Error: 2, Warning: 2}) {
		t.Errorf("%+v", all.Summary)
	}
	seen := map[string]bool{}
	for _, tree := range all.Roots() {
		if len(tree) != 2 || tree[0].Context != tree[1].Context || tree[1].CausedBy != tree[0].Fingerprint {
			t.Errorf("what follows from a finding is not beside it: %+v", tree)
		}
		for _, f := range tree {
			if seen[f.Fingerprint] || !strings.HasPrefix(f.Message, "in "+f.Context+": ") {
				t.Errorf("%s: %s", f.Fingerprint, f.Message)
			}
			seen[f.Fingerprint] = true
		}
	}
	all = all.Keep(func(f Finding) bool { return f.Context == "east" })
	if len(all.Volumes) != 1 || all.Volumes[0].Context != "east" {
		t.Errorf("the records of a cluster that nothing is about any more: %v", all.Volumes)
	}
}

// TestMergeWithoutOne: a cluster that could not be reached has no time, and does not make the
// others old.
func TestMergeWithoutOne(t *testing.T) {
	gone := &Report{Source: snapshot.Source{Context: "gone"}, Gaps: []snapshot.Gap{{Kind: "*", Reason: snapshot.ReasonUnavailable}}}
	for _, reports := range [][]*Report{{gone, inCluster("east", "", 100)}, {inCluster("east", "", 100), gone}} {
		all := Merge(reports, nil, LeaveOut{})
		if all.Complete || all.TakenAt.Unix() != 100 || all.KubernetesVersion != "v1.36.3" || len(all.Sources) != 2 {
			t.Errorf("%+v", all)
		}
	}
}

// TestKeepNew: findings of a baseline are counted and left out. A baseline of other clusters
// does not fit.
func TestKeepNew(t *testing.T) {
	one := func(server string) *Report { return inCluster("east", server, 100) }
	several := func(contexts ...string) *Report {
		var reports []*Report
		for _, c := range contexts {
			reports = append(reports, inCluster(c, "https://"+c, 100))
		}
		return Merge(reports, nil, LeaveOut{})
	}
	fewer := one("https://e").Keep(func(f Finding) bool { return f.Code == "VD401" })
	for name, c := range map[string]struct {
		now, baseline *Report
		known, left   int
		refused       string
	}{
		"the same":             {one("https://e"), one("https://e"), 2, 0, ""},
		"one is new":           {one("https://e"), fewer, 1, 1, ""},
		"a file":               {one(""), one("https://e"), 2, 0, ""},
		"another cluster":      {one("https://e"), one("https://w"), 0, 0, "another cluster: https://w, not https://e"},
		"several, the same":    {several("east", "west"), several("east", "west"), 4, 0, ""},
		"several, one is new":  {several("east", "west"), several("west"), 2, 2, ""},
		"several, all others":  {several("east"), several("west"), 0, 0, "another cluster"},
		"several against one":  {several("east"), one("https://east"), 0, 0, "about one cluster"},
		"one against several":  {one("https://east"), several("east"), 0, 0, "about several clusters"},
		"an empty one":         {one("https://e"), &Report{}, 0, 2, ""},
		"a file against files": {one(""), one(""), 2, 0, ""},
	} {
		sources := c.now.Sources
		if len(sources) == 0 {
			sources = []snapshot.Source{c.now.Source}
		}
		err, left := c.baseline.Fits(len(c.now.Sources) > 0, sources...), c.now.Without(LeaveOut{Baseline: c.baseline})
		switch {
		case c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)):
			t.Errorf("%s: %v", name, err)
		case c.refused == "" && (err != nil || left.Known != c.known || len(left.Findings) != c.left):
			t.Errorf("%s: %v, known %d, left %d", name, err, left.Known, len(left.Findings))
		}
	}
}
