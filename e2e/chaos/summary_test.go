package chaos_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/faultproxy"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/invariant"
)

// summary counts the events of all rounds.
type summary struct {
	rounds     int
	began      time.Time
	stories    map[story]int
	faults     map[faultproxy.Fault]int
	failed     map[string]int           // lists that failed after a write, by kind
	undoing    map[faultproxy.Fault]int // the faults while undo ran
	other      map[string]int           // rounds with a further property
	batches    int
	races      map[race]int
	violations map[invariant.Invariant]int
}

func newSummary() *summary {
	return &summary{
		began: time.Now(), stories: map[story]int{}, faults: map[faultproxy.Fault]int{}, failed: map[string]int{},
		undoing: map[faultproxy.Fault]int{}, other: map[string]int{}, races: map[race]int{}, violations: map[invariant.Invariant]int{},
	}
}

func (s *summary) add(rounds []*round, violations []invariant.Violation) {
	s.rounds += len(rounds)
	s.batches++
	for _, r := range rounds {
		s.stories[r.story]++
		for fault, n := range r.faults {
			s.faults[fault] += n
		}
		for race, n := range r.races {
			s.races[race] += n
		}
		for kind, n := range r.failed {
			s.failed[kind] += n
		}
		for fault, n := range r.undoing {
			s.undoing[fault] += n
		}
		for what, so := range map[string]bool{
			"two doctors begin in one folder at the same moment": r.attack.twins,
			"undo by another address of the API server":          r.attack.renamed,
			"undo of what an admin has taken over":               r.attack.takenOver,
			"an API server that has just started refuses all":    slices.ContainsFunc(r.attack.strikes(), func(s strike) bool { return s.lasts > 0 }),
		} {
			if so {
				s.other[what]++
			}
		}
	}
	for _, v := range violations {
		s.violations[v.Invariant]++
	}
}

func (s *summary) allFaults() int {
	all := 0
	for _, n := range s.faults {
		all += n
	}
	return all
}

// perBatch is the number of faults in a batch.
func (s *summary) perBatch() int { return s.allFaults() / max(1, s.batches) }

// String is the table of docs/evidence/chaos.md.
func (s *summary) String() string {
	var b strings.Builder
	all := 0
	for _, n := range s.violations {
		all += n
	}
	took := time.Since(s.began)
	fmt.Fprintf(&b, "%s, from seed %d, in %s: %d rounds, %d faults (%.0f a minute), **%d violations**.\n",
		s.began.UTC().Format(time.DateOnly), *seed, took.Round(time.Second), s.rounds, s.allFaults(), float64(s.allFaults())/took.Minutes(), all)
	table(&b, "world", s.stories)
	table(&b, "fault", s.faults)
	table(&b, "list that failed after a write", s.failed)
	table(&b, "fault while undo ran", s.undoing)
	table(&b, "race", s.races)
	table(&b, "round", s.other)
	counts := map[invariant.Invariant]int{}
	for _, i := range invariant.Invariants() {
		counts[i] = s.violations[i]
	}
	table(&b, "violations of", counts)
	return b.String()
}

func table[K ~string](b *strings.Builder, head string, counts map[K]int) {
	fmt.Fprintf(b, "\n| %s | times |\n| --- | ---: |\n", head)
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(b, "| %s | %d |\n", name, counts[name])
	}
}

// writeDown writes the summary into docs/evidence/chaos.md.
func (s *summary) writeDown(t *testing.T) {
	t.Helper()
	writeSection(t, "The last long run", "Written by `make chaos`.\n\n"+s.String())
}

// dataSummary is the summary of rounds with data.
type dataSummary struct {
	*summary
	// records is the number of records on that many volumes, and wrong the number of faults
	// in them.
	records, volumes, wrong int
}

// checked counts a volume that was checked.
func (s *dataSummary) checked(records int, wrong []string) {
	s.records += records
	s.wrong += len(wrong)
	if records > 0 {
		s.volumes++
	}
}

// String begins with the results of the volumes.
func (s *dataSummary) String() string {
	return fmt.Sprintf("%d records on %d of %d volumes, **%d broken or lost, or on a file system with an error**.\n\n%s", s.records, s.volumes, s.rounds, s.wrong, s.summary)
}

// writeSection replaces the text under a heading of docs/evidence/chaos.md, or adds it.
func writeSection(t *testing.T, heading, text string) {
	t.Helper()
	const path = "../../docs/evidence/chaos.md"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	heading = "\n## " + heading + "\n"
	before, rest, _ := strings.Cut(string(page), heading)
	after := ""
	if i := strings.Index(rest, "\n## "); i >= 0 {
		after = rest[i:]
	}
	if err := os.WriteFile(path, []byte(before+heading+"\n"+text+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
