package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/world/claims"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var (
	histories = flag.Int("histories", 4, "how many random histories to play")
	from      = flag.Int("from", 0, "the number of the first of them: with the seed and the number that a kept history has in its name, it is played again")
	seed      = flag.Uint64("seed", 1, "what the histories are drawn from; a history does not play out quite the same twice")
	keep      = flag.String("keep", "", "a folder for the histories that show a false claim, each with the world's log")
	ask       = flag.Int("ask", 0, "in one of how many histories one action that the tool says is done in a copy; 0 for none")
	real      = flag.Bool("real", false, "play the histories with upstream's volume managers in place of the kubelets' stand-in, one at a time")
	shrink    = flag.Int("shrink", 0, "how many histories to play to make one smaller that shows a false claim")
)

// batch is how many histories are kept at once.
const batch = 100

// TestHistories plays random histories, side by side. None of what the tool says of any of
// them is false.
func TestHistories(t *testing.T) {
	shown := map[string]bool{}
	for first, end := *from, *from+*histories; first < end; first += batch {
		n := min(batch, end-first)
		part(t, fmt.Sprintf("%d-%d-%d", *seed, first, n), func(r *results) {
			all := &tallied{r, shown}
			t.Run("all", func(t *testing.T) {
				for i := first; i < first+n; i++ {
					t.Run(strconv.Itoa(i), func(t *testing.T) {
						t.Parallel()
						all.play(t, i)
					})
				}
			})
		}, func(r *results) bool { return r.Histories == n })
	}
	t.Logf("judged %v\nexempt %s\ncodes %v\nfalse %d", outcome.Judged, lines(outcome.Exempt), outcome.Codes, len(outcome.False))
}

// tallied is what came of the histories.
type tallied struct {
	*results
	// shown are the kinds of false claims that a history has shown.
	shown map[string]bool
}

// play plays the history of that number.
func (all *tallied) play(t *testing.T, i int) {
	r := rand.New(rand.NewPCG(*seed, uint64(i)))
	size := DrawSize(r)
	size.Real = *real
	h := Draw(r, size)
	began := time.Now()
	played, err := h.Play(t)
	if *verbose {
		t.Logf("history %d took %s", i, time.Since(began).Round(time.Millisecond))
	}
	if err != nil {
		t.Errorf("history %d: %v\n%s", i, err, h)
		return
	}
	tally := claims.Judge(played.Record)
	if q := claims.Actions(played.Record); len(q) > 0 && *ask > 0 && i%*ask == 0 {
		h.askActions(t, []claims.Question{q[r.IntN(len(q))]}, all.results)
	}
	for _, f := range tally.False {
		if !all.isFirst(f) {
			t.Logf("history %d, too: %s", i, f)
			keepHistory(t, fmt.Sprintf("%s-%d-%d", strings.ReplaceAll(f.Key(), " ", "-"), *seed, i), h, f.String(), f.At, played)
			continue
		}
		shown := h
		if *shrink > 0 {
			shown = Shrink(h, *shrink, func(h History) bool {
				again, err := h.Play(t)
				return err == nil && slices.ContainsFunc(claims.Judge(again.Record).False, func(g claims.False) bool { return g.Key() == f.Key() })
			})
		}
		t.Errorf("history %d: %s\n%s", i, f, shown)
		keepHistory(t, fmt.Sprintf("%s-%d-%d", strings.ReplaceAll(f.Key(), " ", "-"), *seed, i), shown, f.String(), f.At, played)
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	all.Add(tally)
	all.Histories++
	all.Seeds[strconv.FormatUint(*seed, 10)]++
	if len(tally.False) > 0 {
		all.WithFalse = append(all.WithFalse, fmt.Sprintf("%d/%d", *seed, i))
	}
}

// isFirst reports whether no history has shown such a false claim yet.
func (all *tallied) isFirst(f claims.False) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	known := all.shown[f.Key()]
	all.shown[f.Key()] = true
	return !known
}

func lines(of map[string]int) string {
	var text strings.Builder
	for _, c := range counts(of) {
		fmt.Fprintf(&text, "\n%8d %s", c.N, c.Name)
	}
	return text.String()
}

// keepHistory writes what is needed to look into what went wrong at the look of that time: the history,
// the world's log, and what that look and the one before it read.
func keepHistory(t *testing.T, name string, h History, wrong string, at time.Duration, played Played) {
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
	for _, l := range played.Record.Looks {
		since := l.At.Sub(played.Record.Began)
		if since > at || since < at-LookEvery {
			continue
		}
		var read bytes.Buffer
		if err := errors.Join(snapshot.Write(&read, l.Snapshot), os.WriteFile(fmt.Sprintf("%s-%s.yaml", name, clock(since)), read.Bytes(), 0o600)); err != nil {
			t.Error(err)
		}
	}
	log := slices.Concat([]string{wrong, ""}, played.Log, []string{"", "calls of the driver:"})
	for _, c := range played.Record.Tries {
		log = append(log, fmt.Sprintf("%s %s of %s on %s, failed %t", clock(c.At.Sub(played.Record.Began)), c.Call, c.Volume, c.Node, c.Failed))
	}
	if err := os.WriteFile(name+".log", []byte(strings.Join(log, "\n")+"\n"), 0o600); err != nil {
		t.Error(err)
	}
}
