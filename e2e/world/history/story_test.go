package history

import (
	"flag"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/world/claims"
)

var verbose = flag.Bool("log", false, "print the log of each history")

// told is what the stories came to, for the page.
type told struct {
	Story
	claims.Answer
	False int
	// After is how long after the proof the first finding of warning or worse came; it has
	// none where there is none.
	After *time.Duration
}

var copies = flag.Bool("copies", false, "ask copies of the stories' worlds whether the causes are what they are said to be, and do what the tool says to do")

// after is how long after the proof the story was first answered.
func (s Story) after(r *claims.Record, a claims.Answer) *time.Duration {
	told := a.Warned
	if a.Suspected != 0 && (told == 0 || a.Suspected < told) {
		told = a.Suspected
	}
	proven := s.Proven
	if i := slices.IndexFunc(r.Tries, func(t claims.Try) bool { return t.Failed }); proven == 0 && i >= 0 {
		proven = r.Tries[i].At.Sub(r.Began)
	}
	if s.Code == "" || told == 0 || proven == 0 || proven == never {
		return nil
	}
	after := max(0, told-proven)
	return &after
}

// TestStories tells each story: the tool finds what is wrong, in a healthy world nothing,
// and nothing that it says is false.
func TestStories(t *testing.T) {
	name := "stories"
	if *copies {
		name += "-copies"
	}
	part(t, name, func(r *results) {
		t.Run("all", func(t *testing.T) {
			for _, s := range Stories {
				t.Run(s.Name, func(t *testing.T) {
					t.Parallel()
					s.tell(t, r)
				})
			}
		})
	}, func(*results) bool { return !t.Failed() })
}

// tell tells the story, and adds what comes of it.
func (s Story) tell(t *testing.T, r *results) {
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
	r.add(told{s, answer, len(tally.False), s.after(played.Record, answer)}, tally)
	if *copies {
		asked := claims.NewTally()
		h.askCauses(t, played.Record, asked)
		h.askActions(t, claims.Actions(played.Record), r)
		r.asked(asked)
	}
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
}

// askActions plays two copies of the history for each question about something to do: one
// in which it is done, and one in which nothing is. In both, what is wrong stays so.
func (h History) askActions(t *testing.T, questions []claims.Question, r *results) {
	for _, q := range questions {
		left, err := h.upTo(q.At, nothing).Play(t)
		if err != nil {
			t.Errorf("copy of %s at %s: %v", q.Code, clock(q.At), err)
			continue
		}
		acts := h.upTo(q.At, nothing)
		acts.Steps = append(acts.Steps, Step{At: q.At + 5*time.Second, Do: heeding, Claim: q.Claim, Code: q.Code})
		acted, err := acts.Play(t)
		if err != nil || acted.Advice == nil {
			t.Errorf("copy of %s at %s: %v", q.Code, clock(q.At), err)
			continue
		}
		o := r.judge(q, left.Record, acted)
		t.Logf("%s %s of %s: %s: %s", clock(q.At), q.Code, q.Claim, o.Kind, o)
		if o.Harm != "" {
			t.Errorf("%s at %s, %s: %s\n%s", q.Code, clock(q.At), o.Kind, o.Harm, acts)
			keepHistory(t, "harm-"+string(q.Code), acts, o.Harm, q.At, acted)
		}
	}
}
