package history

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/world/claims"
)

var (
	histories = flag.Int("histories", 4, "how many random histories to play")
	from      = flag.Int("from", 0, "the number of the first of them: with the seed and the number that a kept history has in its name, it is played again")
	seed      = flag.Uint64("seed", 1, "what the histories are drawn from; a history does not play out quite the same twice")
	keep      = flag.String("keep", "", "a folder for the histories that show a false claim, each with the world's log")
	ask       = flag.Int("ask", 0, "in one of how many histories one action that the tool says is done in a copy; 0 for none")
	shrink    = flag.Int("shrink", 0, "how many histories to play to make one smaller that shows a false claim")
)

// TestHistories plays random histories. None of what the tool says of any of them is false.
func TestHistories(t *testing.T) {
	all := claims.NewTally()
	first := map[string]bool{}
	for i := *from; i < *from+*histories; i++ {
		r := rand.New(rand.NewPCG(*seed, uint64(i)))
		h := Draw(r, DrawSize(r))
		began := time.Now()
		played, err := h.Play(t)
		if *verbose {
			t.Logf("history %d took %s", i, time.Since(began).Round(time.Millisecond))
		}
		if err != nil {
			t.Errorf("history %d: %v\n%s", i, err, h)
			continue
		}
		tally := claims.Judge(played.Record)
		if q := claims.Actions(played.Record); len(q) > 0 && *ask > 0 && i%*ask == 0 {
			h.askActions(t, []claims.Question{q[r.IntN(len(q))]}, &outcome.Deeds)
		}
		for _, f := range tally.False {
			if first[f.Key()] {
				continue
			}
			first[f.Key()] = true
			if *shrink > 0 {
				h = Shrink(h, *shrink, func(h History) bool {
					again, err := h.Play(t)
					return err == nil && slices.ContainsFunc(claims.Judge(again.Record).False, func(g claims.False) bool { return g.Key() == f.Key() })
				})
			}
			t.Errorf("history %d: %s\n%s", i, f, h)
			keepHistory(t, fmt.Sprintf("%s-%d-%d", strings.ReplaceAll(f.Key(), " ", "-"), *seed, i), h, f.String(), played)
		}
		all.Add(tally)
		if len(tally.False) > 0 {
			outcome.WithFalse++
		}
	}
	outcome.Histories += *histories
	outcome.Seeds = append(outcome.Seeds, fmt.Sprintf("%d (%d)", *seed, *histories))
	outcome.Tally.Add(all)
	t.Logf("judged %v\nexempt %s\ncodes %v\nfalse %d", all.Judged, lines(all.Exempt), all.Codes, len(all.False))
}

func lines(of map[string]int) string {
	var text strings.Builder
	for _, c := range counts(of) {
		fmt.Fprintf(&text, "\n%8d %s", c.N, c.Name)
	}
	return text.String()
}

// keepHistory writes what is needed to look into what went wrong.
func keepHistory(t *testing.T, name string, h History, wrong string, played Played) {
	t.Helper()
	if *keep == "" {
		return
	}
	text, err := json.MarshalIndent(h, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	name = filepath.Join(*keep, name)
	if err := os.WriteFile(name+".json", text, 0o600); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(name+".log", []byte(wrong+"\n\n"+strings.Join(played.Log, "\n")), 0o600); err != nil {
		t.Error(err)
	}
}
