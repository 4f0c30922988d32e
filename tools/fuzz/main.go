// Command fuzz runs the module's fuzz targets, each for a time, and records the results.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

func main() {
	dir := flag.String("dir", "..", "the module")
	match := flag.String("match", ".", "which targets, as a regular expression over package.Target")
	duration := flag.Duration("time", 30*time.Second, "how long each target runs")
	jobs := flag.Int("jobs", 1, "how many targets run at once, with one worker each")
	memory := flag.String("memory", "500MiB", "GOMEMLIMIT of each process; a target has two")
	page := flag.String("page", "", "the page to write the record to, while the targets run")
	corpus := flag.Int("corpus", 0, "instead of running, keep up to so many inputs of each target that reach new code")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	wanted, err := regexp.Compile(*match)
	if err == nil {
		var targets []*target
		if targets, err = find(ctx, *dir, wanted); err == nil && *corpus > 0 {
			err = keep(ctx, *dir, targets, *corpus)
		} else if err == nil {
			r := &record{targets: targets, asked: *duration, jobs: *jobs, page: *page, now: time.Now}
			if r.before, err = rows(*page); err == nil {
				err = run(ctx, r, *dir, *memory)
			}
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "fuzz:", err)
		os.Exit(1)
	}
}

// target is one fuzz target with its results.
type target struct {
	pkg, name string // the package's folder
	// about says what is compared with what, from the target's comment.
	about string

	state      state
	elapsed    time.Duration
	cpu        time.Duration // of the target's processes together
	executions int
	inputs     int // new interesting ones
	failure    string
}

type state int

const (
	waiting state = iota
	running
	finished
	failed
)

func (t *target) String() string { return t.pkg + "." + t.name }

// run fuzzes the targets, several side by side.
func run(ctx context.Context, r *record, dir, memory string) error {
	bin, err := os.MkdirTemp("", "fuzz")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(bin) }()
	// The binaries are built first, so that later edits of the code do not matter.
	built := map[string]string{}
	for _, t := range r.targets {
		if built[t.pkg] == "" {
			built[t.pkg] = filepath.Join(bin, strings.ReplaceAll(t.pkg, "/", "_")+".test")
			if err := build(ctx, dir, t.pkg, built[t.pkg], "-fuzz=."); err != nil {
				return err
			}
		}
	}
	r.began = r.now()
	if err := r.write(); err != nil {
		return err
	}
	slots := make(chan struct{}, r.jobs)
	var all sync.WaitGroup
	for _, t := range r.targets {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			if ctx.Err() == nil {
				r.fuzz(ctx, t, built[t.pkg], filepath.Join(dir, t.pkg), memory)
			}
		})
	}
	all.Wait()
	if err := r.write(); err != nil {
		return err
	}
	for _, t := range r.targets {
		if t.state != finished {
			return errors.New("not every target ran to its end without a failure")
		}
	}
	return nil
}

func build(ctx context.Context, dir, pkg, out string, flags ...string) error {
	fmt.Fprintln(os.Stderr, "building", pkg)
	args := append([]string{"test", "-c", "-o", out}, flags...)
	c := exec.CommandContext(ctx, "go", append(args, "./"+pkg)...)
	c.Dir, c.Stdout, c.Stderr = dir, os.Stderr, os.Stderr
	if err := c.Run(); err != nil {
		return fmt.Errorf("build the tests of %s: %w", pkg, err)
	}
	return nil
}

// fuzz runs one target with one worker, and reads each line of its output.
func (r *record) fuzz(ctx context.Context, t *target, binary, dir, memory string) {
	cache, err := cacheOf(ctx, dir, t)
	if err != nil {
		r.note(func() { t.state, t.failure = failed, err.Error() })
		return
	}
	// Without the limit each new input would be minimised for a minute.
	c := exec.CommandContext(ctx, binary, "-test.run=^$", "-test.fuzz=^"+t.name+"$", "-test.fuzztime="+r.asked.String(),
		"-test.fuzzminimizetime=1x", "-test.parallel=1", "-test.timeout=0", "-test.fuzzcachedir="+filepath.Dir(cache))
	c.Dir = dir
	c.Env = append(os.Environ(), "GOMEMLIMIT="+memory, "GOMAXPROCS=1")
	// An interrupt lets it save what it has found; it also goes to the worker.
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = 20 * time.Second
	out := &lines{each: func(line string) { r.note(func() { t.read(line) }) }}
	c.Stdout, c.Stderr = out, out
	r.note(func() { t.state = running })
	err = c.Run()
	r.note(func() {
		if c.ProcessState != nil {
			t.cpu = c.ProcessState.UserTime() + c.ProcessState.SystemTime()
		}
		switch {
		case ctx.Err() != nil: // it stays marked as cut off
		case err == nil:
			t.state = finished
		default:
			t.state = failed
		}
	})
	fmt.Fprintf(os.Stderr, "%s: %s executions in %s, %d new inputs, failures: %s\n", t, thousands(t.executions), short(t.elapsed), t.inputs, t.failures())
	if t.state == failed {
		fmt.Fprintln(os.Stderr, strings.Join(out.last, "\n"))
	}
	if err := r.write(); err != nil {
		fmt.Fprintln(os.Stderr, "fuzz:", err)
	}
}

// cacheOf is the folder in which Go keeps the inputs that a target has found.
func cacheOf(ctx context.Context, dir string, t *target) (string, error) {
	c := exec.CommandContext(ctx, "go", "list", "-f", "{{.ImportPath}}", ".")
	c.Dir = dir
	path, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("find the package: %w", err)
	}
	cache, err := exec.CommandContext(ctx, "go", "env", "GOCACHE").Output()
	if err != nil {
		return "", fmt.Errorf("find Go's cache: %w", err)
	}
	return filepath.Join(strings.TrimSpace(string(cache)), "fuzz", strings.TrimSpace(string(path)), t.name), nil
}

// lines calls each for every line, and keeps the last ones.
type lines struct {
	each func(string)
	rest string
	last []string
}

func (l *lines) Write(p []byte) (int, error) {
	const most = 40
	text := l.rest + string(p)
	for {
		line, rest, ended := strings.Cut(text, "\n")
		if !ended {
			l.rest = line
			return len(p), nil
		}
		l.each(line)
		if l.last = append(l.last, line); len(l.last) > most {
			l.last = l.last[1:]
		}
		text = rest
	}
}

// version is what the targets were built with.
func version() string { return runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH }
