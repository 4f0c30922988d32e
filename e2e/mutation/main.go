// Command mutation shows that the conformance test would notice: it makes one
// wrong edit at a time to package reconcile, in an overlay, and wants a real
// controller to contradict the model. It writes docs/mutation.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
)

func main() {
	log.SetFlags(log.Ltime)
	clusters := flag.Int("clusters", 500, "how many random clusters to compare for each release at most")
	seed := flag.Uint64("seed", 1, "seed of the first cluster")
	only := flag.String("run", "", "run only the mutants whose name matches, and write nothing")
	parallel := flag.Int("p", 2, "how many mutants to run at once")
	judge := flag.String("judge", "", "histories or kubelet: run the mutants that they judge, and write their part of the page")
	flag.Parse()
	if err := run(*clusters, *seed, *only, *parallel, *judge); err != nil {
		log.Fatal(err)
	}
}

// judgedRun is a run whose judge does what it does before any mutant is made: the mutants
// are held against a file of that.
type judgedRun struct {
	mutants func() []Mutant
	// record returns the file, and program compares with it. units are the packages whose
	// tests are asked where that finds nothing.
	record         func(*runner, context.Context) (string, error)
	program, units string
	// part is the one of the page that page writes.
	part int
	page func(*runner, []Outcome) string
}

var judgedRuns = map[string]*judgedRun{
	"histories": {StoryMutants, (*runner).tell, "./mutation/judge", "./reconcile", 1, storyPage},
	"kubelet":   {KubeletMutants, (*runner).record, "./mutation/looks", "./diagnose", 2, kubeletPage},
}

func run(clusters int, seed uint64, only string, parallel int, judge string) error {
	ctx := context.Background()
	root, err := findRoot()
	if err != nil {
		return err
	}
	if judge != "" && judgedRuns[judge] == nil {
		return fmt.Errorf("there is no judge %q", judge)
	}
	matches, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "mutation")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp) //nolint:errcheck // a temporary folder
	r := &runner{root: root, temp: temp, clusters: clusters, seed: seed}
	page := filepath.Join(root, "docs", "mutation.md")
	written, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	parts := cutPage(string(written))

	all, by := Mutants(), judgedRuns[judge]
	if by != nil {
		all = by.mutants()
	}
	var mutants []Mutant
	for _, m := range all {
		if matches.MatchString(m.Name) {
			mutants = append(mutants, m)
		}
	}
	if by != nil {
		file, err := by.record(r, ctx)
		if err != nil {
			return err
		}
		outcomes := r.all(ctx, mutants, parallel, func(ctx context.Context, m Mutant) (Outcome, error) {
			return r.judge(ctx, m, by.program, file, by.units)
		})
		if only == "" {
			parts[by.part] = by.page(r, outcomes)
			err = os.WriteFile(page, []byte(joinPage(parts)), 0o644)
		}
		return errors.Join(err, complaints(outcomes))
	}
	var (
		coverage    *Coverage
		errCoverage error
		covering    sync.WaitGroup
	)
	if only == "" {
		covering.Go(func() { coverage, errCoverage = r.coverage(ctx) })
	}
	outcomes := r.all(ctx, mutants, parallel, r.hunt)
	covering.Wait()
	if errCoverage != nil {
		return errCoverage
	}
	if only != "" {
		return complaints(outcomes)
	}
	parts[0] = Page(r, outcomes, coverage)
	if err := os.WriteFile(page, []byte(joinPage(parts)), 0o644); err != nil {
		return err
	}
	return complaints(outcomes, coverage.complaints()...)
}

// cutPage cuts the page into the parts of the clusters, the histories and the kubelet,
// the last two with their marks.
func cutPage(page string) (parts [3]string) {
	byClusters, rest, _ := strings.Cut(page, storyMark)
	byStories, byKubelet, _ := strings.Cut(rest, kubeletMark)
	return [3]string{byClusters, storyMark + byStories, kubeletMark + byKubelet}
}

// joinPage is the page of the parts.
func joinPage(parts [3]string) string {
	for i := range parts {
		parts[i] = strings.TrimRight(parts[i], "\n") + "\n"
	}
	return strings.Join(parts[:], "\n")
}

// complaints are those of the outcomes and the others.
func complaints(outcomes []Outcome, wrong ...string) error {
	for _, o := range outcomes {
		if complaint := o.complaint(); complaint != "" {
			wrong = append(wrong, complaint)
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%d complaints:\n%s", len(wrong), strings.Join(wrong, "\n"))
	}
	return nil
}

// all keeps the order of the mutants.
func (r *runner) all(ctx context.Context, mutants []Mutant, parallel int, try func(context.Context, Mutant) (Outcome, error)) []Outcome {
	outcomes := make([]Outcome, len(mutants))
	slots := make(chan struct{}, parallel)
	var workers sync.WaitGroup
	for i, m := range mutants {
		slots <- struct{}{}
		workers.Go(func() {
			outcome, err := try(ctx, m)
			outcome.Err = err
			outcomes[i] = outcome
			log.Printf("%d/%d %s: %s, %.0f s", i+1, len(mutants), m.Name, outcome.caught(), outcome.Seconds)
			<-slots
		})
	}
	workers.Wait()
	return outcomes
}

// caught says what noticed the mutant.
func (o Outcome) caught() string {
	switch {
	case o.Err != nil:
		return "not tried: " + o.Err.Error()
	case o.Difference != nil:
		return fmt.Sprintf("%s, seed %d: %s", o.Difference.Release, o.Difference.Seed, o.Difference.Row)
	case o.Timing != "":
		return "running controller, " + o.Timing
	case o.UnitTest != "":
		return "unit test " + o.UnitTest
	default:
		return "nothing"
	}
}

// complaint is empty where the mutant did what its list says of it.
func (o Outcome) complaint() string {
	switch {
	case o.Err != nil:
		return o.Name + ": " + o.caught()
	case o.Difference == nil && o.Unseen == "":
		return o.Name + ": nothing real contradicts it, and the list does not say why; caught by " + o.caught()
	case o.Difference != nil && o.Unseen != "":
		return o.Name + ": the list says that nothing real can contradict it, but " + o.caught()
	}
	return ""
}

// findRoot is the folder above the e2e module, from inside it.
func findRoot() (string, error) {
	dir, err := os.Getwd()
	for ; err == nil && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "oracle")); err == nil {
			return filepath.Dir(dir), nil
		}
	}
	return "", fmt.Errorf("run it in the folder e2e: %w", os.ErrNotExist)
}
