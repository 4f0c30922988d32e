// Package modes_test provokes the commonest failure modes on a real control
// plane, all side by side, and has the command find each by its name.
package modes_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/command"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/controlplane"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
)

var update = flag.Bool("update", false, "write docs/modes.md")

const (
	// lookEvery is the pause between two runs of the command.
	lookEvery = 10 * time.Second
	// foundWithin is how long the modes whose checks need no later moment may take:
	// the longest threshold among them is 5 min, and a lost node takes one more
	// to be noticed.
	foundWithin = 9 * time.Minute
	// ahead is how far the snapshot of the end is looked at as of later moments:
	// the longest threshold there is 30 min.
	ahead = 31 * time.Minute
	// atOnce is how many modes are provoked at a time.
	atOnce = 8
)

var cluster *controlplane.Cluster

func TestMain(m *testing.M) {
	options := controlplane.Options{Controllers: []string{
		controlplane.NodeLifecycle, controlplane.TaintEviction, controlplane.PodCollector, controlplane.GarbageCollector,
		controlplane.VolumeBinder, controlplane.VolumeProtection, controlplane.ClaimProtection,
		controlplane.Deployments, controlplane.ReplicaSets, controlplane.StatefulSets,
	}}
	os.Exit(controlplane.Main(m, options, func(c *controlplane.Cluster) { cluster = c }))
}

// mode is a failure mode and the check that is to find it.
type mode struct {
	// name is the mode's namespace and part of the name of all it makes. None
	// is part of another.
	name string
	// story says what happens, for docs/modes.md.
	story string
	// check is the name of the finding, also those of its consequences.
	check string
	also  []string
	// later says that the check waits for longer than a test can: it is found in
	// the snapshot of the end, looked at as of a later moment. Everything that
	// such a mode consists of stays as it is until then.
	later bool
	// alone says that nothing else may be provoked at the same time.
	alone bool
	// provoke makes it happen.
	provoke func(context.Context, *stage)
}

// outcome is when and how a mode was found.
type outcome struct {
	later   bool
	after   time.Duration
	finding *diagnose.Finding
	also    map[string]bool // the consequences that were seen

	mu       sync.Mutex
	provoked time.Time // zero: not yet
	failed   bool      // and never will be
}

func (o *outcome) since() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.provoked
}

// awaited says that the mode's story goes on, or that its finding is to come.
func (o *outcome) awaited() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.failed && (o.provoked.IsZero() || o.finding == nil && !o.later)
}

func (o *outcome) end(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failed = err != nil
	if err == nil {
		o.provoked = time.Now()
	}
}

func TestModes(t *testing.T) {
	// Those of nodes last: their stories wait for a minute, the others for seconds.
	modes := slices.Concat(volumeModes, driverModes, nodeModes)
	distinct(t, modes)
	if err := fixture.Storage(t.Context(), cluster.Client()); err != nil {
		t.Fatal(err)
	}
	if _, err := command.Build(); err != nil {
		t.Fatal(err)
	}
	outcomes := map[string]*outcome{}
	for _, m := range modes {
		outcomes[m.name] = &outcome{later: m.later, also: map[string]bool{}}
	}
	over := provokeAll(t, modes, outcomes)
	watch(t, modes, outcomes)
	over()
	lookAhead(t, modes, outcomes)
	for _, m := range modes {
		if o := outcomes[m.name]; o.finding == nil && !o.since().IsZero() {
			t.Errorf("%s: no finding %s", m.name, m.check)
		}
		for _, check := range m.also {
			if !outcomes[m.name].also[check] {
				t.Errorf("%s: its consequence %s was never found", m.name, check)
			}
		}
		if o := outcomes[m.name]; o.finding != nil {
			t.Logf("%s: %s, %s, after %s", m.name, m.check, o.finding.Severity, o.after.Round(time.Second))
		}
	}
	t.Run("Rights", func(t *testing.T) { rights(t) })
	if !t.Failed() {
		page(t, modes, outcomes)
	}
}

// distinct sees to it that what belongs to a mode can be told by its name.
func distinct(t *testing.T, modes []mode) {
	for _, a := range modes {
		for _, b := range modes {
			if a.name != b.name && strings.Contains(a.name, b.name) {
				t.Fatalf("mode %s has the name of mode %s in its own", a.name, b.name)
			}
		}
	}
}

// provokeAll plays those that stand alone, begins the others, and returns while
// their stories go on; over waits for their end.
func provokeAll(t *testing.T, modes []mode, outcomes map[string]*outcome) (over func()) {
	provoke := func(m mode) {
		s := newStage(t.Context(), m.name)
		t.Cleanup(s.close)
		m.provoke(t.Context(), s)
		if s.err != nil {
			t.Errorf("%s: %v", m.name, s.err)
		}
		outcomes[m.name].end(s.err)
	}
	for _, m := range modes {
		if m.alone {
			provoke(m)
		}
	}
	var all sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	all.Go(func() {
		for _, m := range modes {
			if m.alone {
				continue
			}
			slots <- struct{}{}
			all.Go(func() {
				provoke(m)
				<-slots
			})
		}
	})
	return all.Wait
}

// watch runs the command again and again until every mode that can be is found.
// Whatever it finds above info must belong to a mode, and be what that mode is
// to show.
func watch(t *testing.T, modes []mode, outcomes map[string]*outcome) {
	end := time.Now().Add(foundWithin)
	told := map[string]bool{}
	for {
		report := diagnosed(t, cluster.Kubeconfig, 1)
		if !report.Complete {
			t.Fatalf("the admin cannot read everything: %v", report.Gaps)
		}
		for _, text := range unexpected(report, modes) {
			if !told[text] {
				told[text] = true
				t.Error(text)
			}
		}
		missing := ""
		for _, m := range modes {
			note(report, m, outcomes[m.name])
			if outcomes[m.name].awaited() {
				missing += " " + m.name
			}
		}
		if missing == "" {
			return
		}
		if time.Now().After(end) {
			t.Errorf("not found within %s:%s", foundWithin, missing)
			return
		}
		time.Sleep(lookEvery)
	}
}

// note keeps when the mode was first found, and which of its consequences were.
func note(report diagnose.Report, m mode, o *outcome) {
	for i, f := range report.Findings {
		if !belongs(f, m) {
			continue
		}
		if slices.Contains(m.also, f.Check) {
			o.also[f.Check] = true
		}
		if at := o.since(); o.finding == nil && !at.IsZero() && f.Check == m.check {
			o.finding = &report.Findings[i]
			o.after = report.TakenAt.Sub(at)
		}
	}
}

// unexpected are the findings above info that no mode accounts for. A message
// tells ages, so that it is not part of the text.
func unexpected(report diagnose.Report, modes []mode) []string {
	var texts []string
	for _, f := range report.Findings {
		if f.Severity == diagnose.Info {
			continue
		}
		owner := slices.IndexFunc(modes, func(m mode) bool { return belongs(f, m) })
		switch {
		case owner < 0:
			texts = append(texts, fmt.Sprintf("%s of %s belongs to no mode", f.Check, f.Subject))
		case f.Check != modes[owner].check && !slices.Contains(modes[owner].also, f.Check):
			texts = append(texts, fmt.Sprintf("%s: %s of %s is found as well", modes[owner].name, f.Check, f.Subject))
		}
	}
	return texts
}

// belongs says that the finding is about something of the mode.
func belongs(f diagnose.Finding, m mode) bool {
	about := append([]string{f.Subject.Namespace, f.Subject.Name, string(f.Node), f.PersistentVolume, string(f.Volume)}, f.Pods...)
	return slices.ContainsFunc(about, func(s string) bool { return strings.Contains(s, m.name) })
}

// lookAhead takes a snapshot with the command and looks at it as of later
// moments, minute by minute, for the modes that need one.
func lookAhead(t *testing.T, modes []mode, outcomes map[string]*outcome) {
	file := filepath.Join(t.TempDir(), "snapshot.yaml.gz")
	if r := run(t, cluster.Kubeconfig, "snapshot", file); r.Code != 0 {
		t.Fatalf("snapshot: exit code %d: %s", r.Code, r.Stderr)
	}
	taken := parse[diagnose.Report](t, run(t, cluster.Kubeconfig, "diagnose", "-f", file, "-o", "json").Stdout).TakenAt
	for later := time.Minute; later <= ahead; later += time.Minute {
		r := run(t, cluster.Kubeconfig, "diagnose", "-f", file, "--now", taken.Add(later).UTC().Format(time.RFC3339), "-o", "json")
		report := parse[diagnose.Report](t, r.Stdout)
		missing := false
		for _, m := range modes {
			o := outcomes[m.name]
			if !m.later || o.finding != nil {
				continue
			}
			if note(report, m, o); o.finding == nil {
				missing = true
				continue
			}
			for _, text := range unexpected(only(report, m), modes) {
				t.Errorf("after %s %s", o.after, text)
			}
		}
		if !missing {
			return
		}
	}
}

// only is the report of what belongs to the mode.
func only(report diagnose.Report, m mode) diagnose.Report {
	report.Findings = slices.DeleteFunc(slices.Clone(report.Findings), func(f diagnose.Finding) bool { return !belongs(f, m) })
	return report
}

// diagnosed runs the command over the whole cluster.
func diagnosed(t *testing.T, kubeconfig string, atMost int, args ...string) diagnose.Report {
	t.Helper()
	r := run(t, kubeconfig, append([]string{"diagnose", "-o", "json"}, args...)...)
	if r.Code > atMost || r.Stdout == "" {
		t.Fatalf("diagnose %v: exit code %d: %s", args, r.Code, r.Stderr)
	}
	return parse[diagnose.Report](t, r.Stdout)
}

func run(t *testing.T, kubeconfig string, args ...string) command.Result {
	t.Helper()
	r, err := command.Run(t.Context(), command.Binary, kubeconfig, args...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func parse[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	return v
}
