package history

import (
	"testing"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/world/claims"
)

// TestDrained: what a drain of the history ends in one copy alone is no harm of what was done there.
func TestDrained(t *testing.T) {
	began := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	ended := claims.Pod{Name: "shop/web", Claims: []string{"web"}, Scheduled: began, Running: began, Deleted: began.Add(2 * time.Minute)}
	runs := ended
	runs.Deleted = time.Time{}
	for name, c := range map[string]struct {
		evicted []string
		drained int
		harm    bool
	}{
		"nobody drained it":      {nil, 0, true},
		"a drain of it":          {[]string{"shop/web"}, 1, false},
		"a drain of another pod": {[]string{"shop/db"}, 0, true},
	} {
		d := Deeds{Not: map[string]int{}}
		o, drained := d.judge(claims.Question{At: time.Minute, Claim: "data"}, &claims.Record{Began: began, Pods: []claims.Pod{runs}},
			Played{Record: &claims.Record{Began: began, Pods: []claims.Pod{ended}, Drained: c.evicted}, Advice: &Advice{Kind: "kubectl delete pod"}})
		if drained != c.drained || (o.Harm != "") != c.harm {
			t.Errorf("%s: drained %d, harm %q", name, drained, o.Harm)
		}
	}
}
