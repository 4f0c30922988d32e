package history

import (
	"flag"
	"slices"
	"strings"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/world/claims"
)

var verbose = flag.Bool("log", false, "print the log of each history")

// told is what the stories came to, for the page.
type told struct {
	Story
	claims.Answer
	False int
}

// TestStories tells each story: the tool finds what is wrong, in a healthy world nothing,
// and nothing that it says is false.
func TestStories(t *testing.T) {
	for _, s := range Stories {
		t.Run(s.Name, func(t *testing.T) {
			h := History{Size: Small, Steps: s.Steps, For: length}
			played, err := h.Play(t)
			if err != nil {
				t.Fatal(err)
			}
			tally := claims.Judge(played.Record)
			from := played.Record.Began
			if len(s.Steps) > 0 {
				from = from.Add(s.Steps[0].At)
			}
			answer := claims.Answers(played.Record, from)
			outcome.add(told{s, answer, len(tally.False)}, tally)
			if *verbose {
				t.Log(strings.Join(played.Log, "\n"))
				t.Log(tally.Judged, tally.Exempt, tally.Codes)
			}
			for _, f := range tally.False {
				t.Error(f)
			}
			switch {
			case s.Code == "" && len(answer.Codes) > 0:
				t.Errorf("a false alarm: %v, first at %s", answer.Codes, clock(max(answer.Warned, answer.Suspected)))
			case s.Code != "" && !slices.Contains(answer.Codes, s.Code):
				t.Errorf("%s is not among %v", s.Code, answer.Codes)
			}
			t.Logf("waits %s, suspected %s, certain %s: %v", clock(answer.Waits), clock(answer.Suspected), clock(answer.Warned), answer.Codes)
		})
	}
}
