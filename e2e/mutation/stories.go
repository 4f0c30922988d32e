package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/conformance"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/histories"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/mutation/found"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/oracle/wire"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// judges are the controllers whose histories judge the mutants of until.go, and how many
// random ones each lives through, from seed first on. All live through those that are kept.
var judges = []struct {
	release    conformance.Release
	patch      string
	ahead      []reconcile.Behaviour
	first, all uint64
}{
	{release: "v1.36.3", first: 1, all: 200},
	{release: "v1.26.9", first: 1, all: 50}, // a failed detach is not Uncertain
	{release: "v1.37.0", patch: "141385", ahead: []reconcile.Behaviour{reconcile.MountsNotAssumed}, first: 60, all: 50}, // what it has not heard of
}

// tell has the controllers live through the histories, once for all mutants, and returns
// the file of their stories.
func (r *runner) tell(ctx context.Context) (string, error) {
	start := time.Now()
	fixed, err := r.fixed()
	if err != nil {
		return "", err
	}
	r.fixedStories = len(fixed)
	var stories []found.Story
	for _, j := range judges {
		binary, err := j.release.BuildPatched(ctx, os.Stderr, j.patch)
		if err != nil {
			return "", err
		}
		oracle, err := conformance.StartOracle(ctx, j.release, binary)
		if err != nil {
			return "", err
		}
		for _, h := range slices.Concat(fixed, fixed, random(j.first, j.all)) {
			answer, err := oracle.Send(h.request)
			if err != nil {
				return "", err
			}
			answer.Story.Log = "" // nobody replays it
			if d := histories.Compare(j.release, h.request, answer.Story, histories.AskAhead(j.ahead...)).Differences; len(d) > 0 {
				return "", fmt.Errorf("%s, %s: the model without a mutant differs: %s", j.release, h.name, d[0])
			}
			stories = append(stories, found.Story{Name: h.name, Release: j.release, Ahead: j.ahead, Request: h.request, Story: answer.Story})
		}
		if err := oracle.Close(); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(stories)
	if err != nil {
		return "", err
	}
	file := filepath.Join(r.temp, "stories.json")
	log.Printf("%d stories, %d MB, %s", len(stories), len(text)>>20, time.Since(start).Round(time.Second))
	return file, os.WriteFile(file, text, 0o600)
}

// history is one that a judge lives through.
type history struct {
	name    string
	request *wire.Request
}

// fixed are the histories that are kept, and the scenes.
func (r *runner) fixed() ([]history, error) {
	files, err := filepath.Glob(filepath.Join(r.root, "e2e", "histories", "testdata", "*.json"))
	if err != nil {
		return nil, err
	}
	var all []history
	for _, file := range files {
		request := &wire.Request{}
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, request)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, history{filepath.Base(file), request})
	}
	scenes := histories.Scenes()
	for _, name := range slices.Sorted(maps.Keys(scenes)) {
		all = append(all, history{name, scenes[name]})
	}
	return all, nil
}

func random(first, count uint64) []history {
	var all []history
	for seed := first; seed < first+count; seed++ {
		all = append(all, history{fmt.Sprintf("seed %d", seed), histories.Generate(seed)})
	}
	return all
}

// judge builds the program, which compares what is in the file, with the mutant in it, and
// lets it run. Where it finds nothing, the unit tests of the packages are asked.
func (r *runner) judge(ctx context.Context, m Mutant, program, file, units string) (Outcome, error) {
	start := time.Now()
	outcome := Outcome{Mutant: m}
	binary, overlay, err := r.build(ctx, m, program)
	if err != nil {
		return outcome, err
	}
	defer os.Remove(binary) //nolint:errcheck // the folder goes anyway
	out, err := r.output(exec.CommandContext(ctx, binary, file))
	if err == nil {
		err = json.Unmarshal(out, &outcome.Result)
	}
	if err != nil {
		return outcome, fmt.Errorf("%s: %w", m.Name, err)
	}
	if outcome.Difference == nil {
		if outcome.UnitTest, err = r.test(ctx, overlay, "", units); err != nil {
			return outcome, err
		}
	}
	outcome.Seconds = time.Since(start).Seconds()
	return outcome, nil
}

// judgesText names the judges for the page.
func judgesText(fixed int) string {
	var all []string
	for _, j := range judges {
		name := string(j.release)
		if j.patch != "" {
			name += " with #" + j.patch
		}
		all = append(all, fmt.Sprintf("%d of %s (seeds %d to %d)", j.all, name, j.first, j.first+j.all-1))
	}
	return fmt.Sprintf("%s,\nand, twice by each of them, %d that were kept or made for a mutant", strings.Join(all, ",\n"), fixed)
}

// storyMark begins the part of docs/mutation.md that histories write.
const storyMark = "<!-- histories: begin -->\n"

// storyPage is that part.
func storyPage(r *runner, outcomes []Outcome) string {
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }
	seen, unit, nobody := counts(outcomes)
	p(storyMark+`
## How decisions end, judged by histories

`+"`make mutation-histories`"+` does the same with the files that say how and when a decision
ends, and has histories of running controllers ([histories.md](histories.md)) as the judge:
%s.
The controllers live through them before any mutant is made; what they did is held
against the model with one wrong edit at a time.

**%d of %d mutants are contradicted by a controller.** Of the others a unit test of the
model catches %d, and nothing %d.

`, judgesText(r.fixedStories), seen, len(outcomes), unit, nobody)
	tables(&b, outcomes, "What no history contradicts")
	return b.String()
}

// counts are the mutants that a judge contradicts, those that a unit test catches, and
// those that nothing does.
func counts(outcomes []Outcome) (seen, unit, nobody int) {
	for _, o := range outcomes {
		switch {
		case o.Difference != nil:
			seen++
		case o.UnitTest != "":
			unit++
		default:
			nobody++
		}
	}
	return seen, unit, nobody
}

// tables are the mutants that a judge contradicts, and under the title those that none does.
func tables(b *strings.Builder, outcomes []Outcome, title string) {
	p := func(format string, args ...any) { fmt.Fprintf(b, format, args...) }
	p("| mutant | file | branch | contradicted by | difference | seconds |\n|---|---|---|---|---|---|\n")
	for _, o := range outcomes {
		if d := o.Difference; d != nil {
			p("| %s | %s | %s | %s, %s | %s | %.0f |\n", o.Name, o.File, cell(o.Branch), d.Release, d.Row, code(short(d.Model)), o.Seconds)
		}
	}
	p("\n## %s\n\n| mutant | file | branch | caught by | why not | seconds |\n|---|---|---|---|---|---|\n", title)
	for _, o := range outcomes {
		if o.Difference == nil {
			by, why := "nothing", o.Unseen
			if o.UnitTest != "" {
				by = code(o.UnitTest)
			}
			if why == "" {
				why = "**not known**"
			}
			p("| %s | %s | %s | %s | %s | %.0f |\n", o.Name, o.File, cell(o.Branch), by, cell(why), o.Seconds)
		}
	}
}

// short cuts what differs to a line of the table.
func short(text string) string {
	const longest = 160
	text = strings.ReplaceAll(text, "kubernetes.io/csi/disk.csi^", "")
	if len(text) > longest {
		text = text[:longest] + " ..."
	}
	return text
}
