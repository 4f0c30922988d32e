package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/kubelettrace"
)

// recordedStates is how many pods the kubelet gets at random, beside those of its table of
// states.
const recordedStates = 360

// record has a real kubelet live through its states, once for all mutants, and returns the
// file of the looks.
func (r *runner) record(ctx context.Context) (string, error) {
	start := time.Now()
	file := filepath.Join(r.temp, "looks.gz")
	out, err := r.command(ctx, "e2e", "test", "-timeout", "0", "-count", "1", "-parallel", "6", "-run", "^(TestStates|TestRandom)$", "./kubelettrace",
		"-states", fmt.Sprint(recordedStates), "-seed", fmt.Sprint(r.seed), "-record", file)
	if err != nil {
		return "", fmt.Errorf("the model without a mutant differs from the kubelet: %w\n%s", err, out)
	}
	info, err := os.Stat(file)
	if err != nil {
		return "", fmt.Errorf("no kubelet can run here: %w", err)
	}
	looks, rows, err := agree(file)
	if err != nil {
		return "", err
	}
	log.Printf("%d looks with %d volumes, %d MB, %s", looks, rows, info.Size()>>20, time.Since(start).Round(time.Second))
	return file, nil
}

// agree holds the model without a mutant against the recorded looks: a mutant must be
// contradicted for its edit alone.
func agree(file string) (looks, rows int, err error) {
	var failed error
	err = kubelettrace.ReadRecorded(file, func(r kubelettrace.Recorded) bool {
		n, wrong, err := r.Compare()
		if err == nil && len(wrong) > 0 {
			err = fmt.Errorf("%s, %s: the model without a mutant differs: %s", r.Release, r.When, wrong[0])
		}
		looks, rows, failed = looks+1, rows+n, err
		return err == nil
	})
	return looks, rows, errors.Join(err, failed)
}

// kubeletMark begins the part of docs/mutation.md that the kubelet writes.
const kubeletMark = "<!-- kubelet: begin -->\n"

// kubeletPage is that part.
func kubeletPage(r *runner, outcomes []Outcome) string {
	var b strings.Builder
	seen, unit, nobody := counts(outcomes)
	fmt.Fprintf(&b, kubeletMark+`
## The kubelet's half, judged by a real kubelet

`+"`make mutation-kubelet`"+` does the same with the files that say where a volume stands on its
node and what its kubelet does next. A real kubelet ([kubelet.md](kubelet.md)) is looked
at in each state of its table and with %d pods at random (seed %d), before any mutant is
made. What the objects were at each look, and what was true, is held against the trace
and the plan with one wrong edit at a time.

**%d of %d mutants are contradicted by the kubelet.** Of the others a unit test catches %d,
and nothing %d.

`, recordedStates, r.seed, seen, len(outcomes), unit, nobody)
	tables(&b, outcomes, "What the kubelet does not contradict")
	return b.String()
}
