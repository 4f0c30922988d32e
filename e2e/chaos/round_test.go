package chaos_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/command"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/faultproxy"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/invariant"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
)

// attack is what befalls the doctor.
type attack struct {
	// strikes are for its first run.
	strikes []strike
	// storms are how likely a fault is for each request of a run. With several it
	// runs again until it has mended the world or they are over.
	storms []float64
	// undo has undo run before the second run.
	undo bool
}

// strike is what befalls one request. The race happens first.
type strike struct {
	// Which one: the nth of its class, or the nth of all where there is no class.
	class faultproxy.Class
	nth   int
	race  race
	fault faultproxy.Fault
}

func (s strike) String() string {
	class := s.class
	if class == "" {
		class = "request"
	}
	text := fmt.Sprintf("%s %d", class, s.nth)
	if s.race != "" {
		text += ", " + string(s.race)
	}
	if s.fault != "" {
		text += ", " + string(s.fault)
	}
	return text
}

func (a attack) String() string {
	var parts []string
	for _, s := range a.strikes {
		parts = append(parts, s.String())
	}
	for _, storm := range a.storms {
		parts = append(parts, fmt.Sprintf("a storm of %.0f%%", 100*storm))
	}
	return strings.Join(parts, "; ")
}

// round is one world, attacks on the doctor that mends it, and one run of it in
// peace.
type round struct {
	*world
	attack attack
	proxy  *faultproxy.Proxy
	dir    string
	// binary is the command where it is not the real one.
	binary string
	random *rand.Rand

	mu     sync.Mutex
	sent   map[string]invariant.Sent
	looked map[string]time.Time // by session
	faults map[faultproxy.Fault]int
	races  map[race]int
	counts map[faultproxy.Class]int // of the first run
	raced  []string                 // what went wrong with a race
	racing sync.WaitGroup           // a doctor may end while its request is held back
	reruns []invariant.Rerun
}

func newRound(w *world, a attack, proxy *faultproxy.Proxy, dir string, seed uint64) *round {
	return &round{
		world: w, attack: a, proxy: proxy, dir: dir, random: rand.New(rand.NewPCG(seed, 0)),
		sent: map[string]invariant.Sent{}, looked: map[string]time.Time{}, faults: map[faultproxy.Fault]int{}, races: map[race]int{},
		counts: map[faultproxy.Class]int{},
	}
}

// play plays the round. An error says that it could not be played; harm is for
// the checker to find.
func (r *round) play(ctx context.Context) error {
	if err := r.start(ctx); err != nil {
		return err
	}
	defer r.stop()
	journal := r.path("journal")
	for i := range max(1, len(r.attack.storms)) {
		if i > 0 && !r.deadline.IsZero() && time.Now().After(r.deadline) {
			break
		}
		mended, err := r.attempt(ctx, i, journal)
		if err != nil {
			return err
		}
		if mended {
			break
		}
	}
	r.racing.Wait()
	if len(r.raced) > 0 {
		return fmt.Errorf("a race was not run: %s", strings.Join(r.raced, "; "))
	}
	if r.attack.undo {
		if err := r.undo(ctx, journal); err != nil {
			return err
		}
	}
	return r.rerun(ctx, journal)
}

// attempt is one run under attack, and says whether it has mended the world.
func (r *round) attempt(ctx context.Context, i int, journal string) (mended bool, err error) {
	name, strikes, counts := "first", r.attack.strikes, r.counts
	if i > 0 {
		name, strikes, counts = fmt.Sprintf("again%d", i), nil, map[faultproxy.Class]int{}
	}
	storm := 0.0
	if i < len(r.attack.storms) {
		storm = r.attack.storms[i]
	}
	session := r.session(name, journal, func(q faultproxy.Request) faultproxy.Fault { return r.strike(ctx, q, strikes, storm, counts) })
	result, err := r.doctor(ctx, session, r.repairs(journal)...)
	return result.Code == 0, err
}

func (r *round) path(what string) string { return filepath.Join(r.dir, r.name+"."+what) }

func (r *round) repairs(journal string) []string {
	args := []string{
		"diagnose", "pv/" + r.volume.PersistentVolume, "--check", r.story.check(), "-o", "json",
		"--for", "1s", "--apply", "--yes", "--settle", "2s", "--journal", journal,
	}
	if r.story == nodeOff {
		args = append(args, "--fenced", r.name)
	}
	return args
}

// session makes a way to the API server that notes what every write rests on.
func (r *round) session(what, journal string, decide faultproxy.Decide) *faultproxy.Session {
	name := r.name + "-" + what
	session := r.proxy.Session(name, func(q faultproxy.Request) faultproxy.Fault {
		fault := faultproxy.None
		if q.URL.Path == "/version" { // every look begins with it
			r.mu.Lock()
			r.looked[name] = time.Now()
			r.mu.Unlock()
		}
		if q.Class == faultproxy.Write {
			entries, err := readJournal(journal)
			r.mu.Lock()
			if err == nil { // otherwise the write has no entry
				r.sent[q.AuditID] = invariant.Sent{Looked: r.looked[name], Journal: entries}
			}
			r.mu.Unlock()
		}
		if decide != nil {
			fault = decide(q)
		}
		return fault
	})
	session.Ahead = r.story.ahead()
	return session
}

func readJournal(name string) ([]repair.Entry, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	entries, _, err := repair.ReadJournal(file)
	return entries, err
}

// strike is what befalls the request.
func (r *round) strike(ctx context.Context, q faultproxy.Request, strikes []strike, storm float64, counts map[faultproxy.Class]int) faultproxy.Fault {
	r.mu.Lock()
	counts[q.Class]++
	nth := counts[q.Class]
	var hit *strike
	for i, s := range strikes {
		if s.class == q.Class && s.nth == nth || s.class == "" && s.nth == q.Number {
			hit = &strikes[i]
		}
	}
	fault := faultproxy.None
	switch {
	case hit != nil:
		fault = hit.fault
	case r.random.Float64() < storm:
		fault = faultproxy.Faults()[r.random.IntN(len(faultproxy.Faults()))]
	}
	if fault == faultproxy.Stale && (q.Class != faultproxy.Read || r.hides(strikes)) {
		fault = faultproxy.None // there is nothing out of date to give
	}
	if fault != faultproxy.None {
		r.faults[fault]++
	}
	races := hit != nil && hit.race != ""
	if races {
		r.racing.Add(1)
	}
	r.mu.Unlock()
	if races {
		r.happen(ctx, hit.race)
		r.racing.Done()
	}
	return fault
}

// hides says that a list from before the race hides from the doctor that the
// volume of a VolumeAttachment has come into use, of which no precondition tells.
func (r *round) hides(strikes []strike) bool {
	return r.story.deletes() && slices.ContainsFunc(strikes, func(s strike) bool { return s.race == podComes || s.race == podBound })
}

func (r *round) happen(ctx context.Context, what race) {
	var err error
	if what == secondDoctor {
		journal := r.path("journal2")
		_, err = r.doctor(ctx, r.session("other", journal, nil), r.repairs(journal)...)
	} else {
		err = r.run(ctx, what)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.races[what]++
	if err != nil {
		r.raced = append(r.raced, fmt.Sprintf("%s: %v", what, err))
	}
}

// doctor runs the command, as a process that can be killed.
func (r *round) doctor(ctx context.Context, s *faultproxy.Session, args ...string) (command.Result, error) {
	config := r.path(s.Name)
	if err := s.WriteKubeconfig(config); err != nil {
		return command.Result{}, err
	}
	args = append(args, "--kubeconfig", config)
	var out, errOut bytes.Buffer
	binary := r.binary
	if binary == "" {
		dir, err := command.Build()
		if err != nil {
			return command.Result{}, err
		}
		binary = filepath.Join(dir, command.Binary)
	}
	child := exec.CommandContext(ctx, binary, args...)
	child.Stdout, child.Stderr = &out, &errOut
	if err := child.Start(); err != nil {
		return command.Result{}, err
	}
	ended := make(chan struct{})
	s.Kill = func() {
		_ = child.Process.Kill() // it may have ended by itself
		<-ended
	}
	_ = child.Wait() // its code says how it ended
	close(ended)
	return command.Result{Stdout: out.String(), Stderr: errOut.String(), Code: child.ProcessState.ExitCode()}, nil
}

// undo takes back what the journal has, and compares what is said with what is.
func (r *round) undo(ctx context.Context, journal string) error {
	if _, err := os.Stat(journal); err != nil {
		return nil // killed before there was one
	}
	listed, err := r.listed(ctx)
	if err != nil {
		return err
	}
	entries, err := readJournal(journal)
	if err != nil {
		return err
	}
	result, err := r.doctor(ctx, r.session("undo", journal, nil), "undo", journal)
	if err != nil {
		return err
	}
	said := result.Stdout + result.Stderr
	rerun := invariant.Rerun{Name: r.name + ": undo after " + r.attack.String(), Code: result.Code, Said: said}
	var want string
	switch {
	case len(entries) == 0:
		want = "the journal lists nothing that could be taken back"
	case listed:
		// The entry must stay: the kubelet reports the volume in use.
		rerun.Unless = []string{"reports the volume in use", "own-list"}
	default:
		want = "cut short"
	}
	if listed && len(entries) > 0 && result.Code == 0 || !strings.Contains(said, want) {
		rerun.Findings = 1 // a lie about what was written
	}
	r.reruns = append(r.reruns, rerun)
	return nil
}

var progressLine = regexp.MustCompile(`(?m)^reading .*\n`)

func withoutProgress(said string) string { return progressLine.ReplaceAllString(said, "") }

// rerun runs the doctor in peace.
func (r *round) rerun(ctx context.Context, journal string) error {
	var unless []string
	if words := r.story.refuses(); words != "" {
		unless = append(unless, words)
	}
	switch {
	case r.races[podReturns] > 0:
		time.Sleep(worldAge) // a pod that has just come is not found to wait
	case r.races[nodeReborn] > 0:
		unless = append(unless, "same-machine: ") // the volume may be on another machine
	case r.races[podBound] > 0:
		if err := r.kubelet.Start(ctx); err != nil {
			return err
		}
		if err := fixture.AwaitFor(ctx, patience, r.podRuns()); err != nil {
			return err
		}
	case r.races[healed] > 0:
		if err := fixture.AwaitFor(ctx, patience, r.podRuns()); err != nil {
			return err
		}
	case r.story == refusedDetach && r.races[podGoes] == 0:
		// The attacher writes the object whenever it has failed again, here every 5 s.
		unless = append(unless, "the driver was asked again and still refuses", "not-in-vain: ", repair.ErrConflict.Error())
	}
	if r.story.deletes() {
		// The attacher, or the controller, has not come to it within --settle.
		unless = append(unless, "the attacher has not detached the volume yet", "still lists the volume")
	}
	result, err := r.doctor(ctx, r.session("second", journal, nil), r.repairs(journal)...)
	if err != nil {
		return err
	}
	rerun := invariant.Rerun{Name: r.name + ": the second run after " + r.attack.String(), Code: result.Code, Said: withoutProgress(result.Stderr), Unless: unless}
	var report diagnose.Report
	if err := json.Unmarshal([]byte(result.Stdout), &report); err != nil && result.Code != 2 {
		return fmt.Errorf("%s: exit code %d: %w: %s", rerun.Name, result.Code, err, result.Stdout+result.Stderr)
	}
	rerun.Findings = len(report.Findings)
	r.reruns = append(r.reruns, rerun)
	if (rerun.Code == 0 || r.story == forgotten || r.story == nodeOff) && r.binary == "" {
		return fixture.AwaitFor(ctx, patience, r.podRuns())
	}
	return nil
}
