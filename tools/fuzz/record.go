package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// record has the results of the targets so far. It is written again and again, so that a run
// that is killed leaves a true record.
type record struct {
	targets []*target
	// before are the page's rows from an earlier run, by target. A target that does not run
	// now keeps its row.
	before map[string]string
	asked  time.Duration
	jobs   int
	page   string
	now    func() time.Time
	began  time.Time

	mu      sync.Mutex
	written time.Time
}

// every is the largest age of the page while targets run.
const every = 30 * time.Second

// note makes a change to a target, and writes the page if it is old.
func (r *record) note(change func()) {
	r.mu.Lock()
	change()
	old := r.now().Sub(r.written) > every
	r.mu.Unlock()
	if old {
		if err := r.write(); err != nil {
			fmt.Fprintln(os.Stderr, "fuzz:", err)
		}
	}
}

// progress matches the line that a target prints every three seconds.
var progress = regexp.MustCompile(`^fuzz: elapsed: (\S+), execs: (\d+) \(\d+/sec\), new interesting: (\d+) `)

// failing matches the line that names the input of a failure.
var failing = regexp.MustCompile(`^\s*Failing input written to (\S+)`)

// failingSeed matches the line about a failure of an input that was there before.
var failingSeed = regexp.MustCompile(`^failure while testing seed corpus entry: (\S+)`)

// failures is the record's text about the target's end. A target that is still running is
// marked as cut off: if the record ends here, it was.
func (t *target) failures() string {
	switch t.state {
	case finished:
		return "0"
	case failed:
		return "1: " + t.failure
	case running:
		return "0, cut off"
	default:
		return "not run"
	}
}

// cpuTime is the target's CPU time, which is known once it has ended.
func (t *target) cpuTime() string {
	if t.cpu == 0 {
		return ""
	}
	return short(t.cpu)
}

// read takes the results from a line of the target's output.
func (t *target) read(line string) {
	if m := failing.FindStringSubmatch(line); m != nil {
		t.failure = m[1]
	}
	if m := failingSeed.FindStringSubmatch(line); m != nil {
		t.failure = m[1]
	}
	m := progress.FindStringSubmatch(line)
	if m == nil {
		return
	}
	if elapsed, err := time.ParseDuration(m[1]); err == nil {
		t.elapsed = elapsed
	}
	// The expression matches only digits.
	t.executions, _ = strconv.Atoi(m[2])
	t.inputs, _ = strconv.Atoi(m[3])
}

const head = `# Fuzzing

Every decoder of this project has a fuzz target with an oracle: mostly another
decoder, or the same input before a change.

    make fuzz FUZZTIME=1h JOBS=40 WRITE=1

runs every target that ` + "`go test -list Fuzz`" + ` finds, or those that FUZZ=regexp names, and
writes this page while it runs. New inputs are not minimised (` + "`-fuzzminimizetime=1x`" + `): that takes a minute
for each, and nearly all of the time. ` + "`make fuzz-corpus`" + ` then keeps up to 50 inputs of
each target that reach code that no other input reaches, in
` + "`PACKAGE/testdata/fuzz/TARGET`" + `; ` + "`go test`" + ` replays them.

`

// write replaces the page in one step.
func (r *record) write() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.written = r.now()
	if r.page == "" {
		return nil
	}
	next := r.page + ".next"
	if err := os.WriteFile(next, []byte(r.text()), 0o644); err != nil {
		return fmt.Errorf("write the record: %w", err)
	}
	return os.Rename(next, r.page)
}

func (r *record) text() string {
	var b strings.Builder
	b.WriteString(head)
	fmt.Fprintf(&b, "## The last long run of each target\n\n%s on %d cores that had other work too, one worker for each target: the CPU time says what\nit got. A target that fails stops there, and runs again once that is mended.\n\n", version(), runtime.NumCPU())
	b.WriteString("| target | what is held against what | day | executions | time | CPU time | new inputs | failures |\n| --- | --- | --- | ---: | ---: | ---: | ---: | --- |\n")
	list := maps.Clone(r.before)
	if list == nil {
		list = map[string]string{}
	}
	for _, t := range r.targets {
		if t.state != waiting || list[t.String()] == "" {
			list[t.String()] = fmt.Sprintf("| `%s` | %s | %s | %s | %s | %s | %s | %s |\n", t, strings.ReplaceAll(t.about, "|", `\|`),
				r.began.UTC().Format(time.DateOnly), thousands(t.executions), short(t.elapsed), t.cpuTime(), thousands(t.inputs), t.failures())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(list)) {
		b.WriteString(list[name])
	}
	return b.String()
}

// rows are the rows of the page, by target; none where there is no page.
func rows(page string) (map[string]string, error) {
	text, err := os.ReadFile(page)
	if page == "" || errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	list := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if name, _, found := strings.Cut(strings.TrimPrefix(line, "| `"), "` |"); found && strings.HasPrefix(line, "| `") {
			list[name] = line
		}
	}
	return list, err
}

// short is 1h for 1h0m0s.
func short(d time.Duration) string {
	text := d.Round(time.Second).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// thousands is 1,234 for 1234.
func thousands(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
