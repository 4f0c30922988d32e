package chaos_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/command"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/faultproxy"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/invariant"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
)

// attack is everything that a doctor must withstand in a round.
type attack struct {
	// runs are the runs under attack. With several, the doctor runs again until it has
	// repaired the world or the runs are over.
	runs []assault
	// undo runs undo before the second run, first under the assaults in undoing.
	undo    bool
	undoing []assault
	// renamed first runs undo with another address of the API server, which is not in the
	// journal.
	renamed bool
	// takenOver has an admin take over the written object before undo.
	takenOver bool
	// reviewed makes the first run use a file that an earlier run saved, as it was reviewed,
	// or edited where the value says so.
	reviewed review
	// twins makes two doctors begin at the same moment, in one folder and without a journal's
	// name.
	twins bool
}

// struck is one run with these strikes.
func struck(strikes ...strike) attack { return attack{runs: []assault{{strikes: strikes}}} }

// strikes are the strikes of the first run.
func (a attack) strikes() []strike {
	if len(a.runs) == 0 {
		return nil
	}
	return a.runs[0].strikes
}

func (a attack) String() string {
	var parts []string
	for _, run := range a.runs {
		if text := run.String(); text != "" {
			parts = append(parts, text)
		}
	}
	for _, run := range a.undoing {
		parts = append(parts, "undo under "+run.String())
	}
	if a.renamed {
		parts = append(parts, "undo by another address")
	}
	if a.takenOver {
		parts = append(parts, "undo of what an admin has taken over")
	}
	if a.reviewed != "" {
		parts = append(parts, string(a.reviewed))
	}
	if a.twins {
		parts = append(parts, "two at once")
	}
	return strings.Join(parts, "; ")
}

// round is one world, attacks on the doctor that repairs it, and one undisturbed run.
type round struct {
	*world
	attack attack
	proxy  *faultproxy.Proxy
	dir    string
	// binary is the command where it is not the real one.
	binary string
	// writeOn returns once containers have written enough after the last run; nil where there
	// are no containers.
	writeOn func(context.Context) error

	mu       sync.Mutex
	random   *rand.Rand
	sent     map[string]invariant.Sent
	looked   map[string]time.Time          // by session
	approved map[string][]repair.Operation // by session
	missing  map[string]map[string]bool    // what the last look could not read, by session
	faults   map[faultproxy.Fault]int
	failed   map[string]int           // lists that failed after a write, by kind
	undoing  map[faultproxy.Fault]int // faults while undo ran
	races    map[race]int
	quiet    map[faultproxy.Class]int // requests of the first run
	raced    []string                 // errors of races
	racing   sync.WaitGroup           // a doctor may end while its request is held back
	reruns   []invariant.Rerun
	runs     []invariant.Run
}

func newRound(w *world, a attack, proxy *faultproxy.Proxy, dir string, seed uint64) *round {
	return &round{
		world: w, attack: a, proxy: proxy, dir: dir, random: rand.New(rand.NewPCG(seed, 0)),
		sent: map[string]invariant.Sent{}, approved: map[string][]repair.Operation{}, looked: map[string]time.Time{}, missing: map[string]map[string]bool{},
		faults: map[faultproxy.Fault]int{}, failed: map[string]int{}, undoing: map[faultproxy.Fault]int{}, races: map[race]int{},
	}
}

// play plays the round, and fails only if it cannot be played: the checker looks for harm.
func (r *round) play(ctx context.Context) error {
	if err := r.start(ctx); err != nil {
		return err
	}
	defer r.stop()
	if r.attack.twins {
		if err := r.twins(ctx); err != nil {
			return err
		}
	} else if err := r.attempts(ctx); err != nil {
		return err
	}
	r.racing.Wait()
	if len(r.raced) > 0 {
		return fmt.Errorf("a race was not run: %s", strings.Join(r.raced, "; "))
	}
	if err := r.undo(ctx); err != nil {
		return err
	}
	if err := r.rerun(ctx); err != nil || r.writeOn == nil {
		return err
	}
	return r.writeOn(ctx)
}

// attempts are the runs under attack.
func (r *round) attempts(ctx context.Context) error {
	for i, a := range r.attack.runs {
		if i > 0 && !r.deadline.IsZero() && time.Now().After(r.deadline) {
			break
		}
		name := "first"
		if i > 0 {
			name = fmt.Sprintf("again%d", i)
		}
		t := newTally(a)
		if i == 0 {
			r.quiet = t.counts
		}
		args := r.repairs("--journal", journal)
		if i == 0 && r.attack.reviewed != "" {
			if err := r.review(ctx, r.name+"-"+name); err != nil {
				return err
			}
			args = append(args, "--approved", reviewedFile)
		}
		run, err := r.doctor(ctx, r.session(name, journal, t), args...)
		if err != nil {
			return err
		}
		if run.Code == 0 || r.leftAttachment(ctx) != "" { // only undo removes it
			break
		}
	}
	return nil
}

func (r *round) repairs(more ...string) []string {
	args := append([]string{
		"diagnose", "pv/" + r.volume.PersistentVolume, "--check", r.story.check(), "--fail-on", "info", "-o", "json",
		"--for", r.story.looksFor().String(), "--apply", "--yes", "--settle", r.story.holdFor().String(),
	}, more...)
	if kind := r.story.allow(); kind != "" {
		args = append(args, "--allow", string(kind))
	}
	if r.story.fences() {
		args = append(args, "--fenced", r.name)
	}
	return args
}

func (r *round) happen(ctx context.Context, what race) {
	var err error
	if what == secondDoctor {
		_, err = r.doctor(ctx, r.session("other", "journal2", nil), r.repairs("--journal", "journal2")...)
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

// hides reports whether a list from before the race hides from the doctor that the volume of
// a VolumeAttachment has come into use, which no precondition shows.
func (r *round) hides(a assault) bool {
	return r.story.detaches() && slices.ContainsFunc(a.strikes, func(s strike) bool { return s.race == podComes || s.race == podBound || s.race == podMoves })
}

// rerun runs the doctor without faults.
func (r *round) rerun(ctx context.Context) error {
	// The attacher may leave the error of a first attempt on an attachment that it has made
	// since, if its cache had not seen that yet.
	unless := []string{"could not add PersistentVolume finalizer"}
	if words := r.story.refuses(); words != "" {
		unless = append(unless, words)
	}
	switch {
	case r.races[podReturns] > 0:
		time.Sleep(worldAge) // a pod that has just come is not found to wait
	case r.races[nodeReborn] > 0:
		unless = append(unless, "it may be about another machine of that name") // the volume may be on another machine
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
		unless = append(unless, "the driver was asked again and still refuses", "the attacher has not tried again", "and the driver still refuses", repair.ErrConflict.Error())
	}
	if r.story.detaches() {
		// The attacher, or the controller, has not reacted within --settle.
		unless = append(unless, "the attacher has not detached the volume yet", "still lists the volume", "the driver has not detached the volume")
	}
	if r.story == orphan {
		// The first run's write may take effect between the two writes of this one: the pod's
		// node gets the volume, the guard refuses the second write, and undo takes the first
		// one back.
		unless = append(unless, "has the volume attached to node "+r.name+" as well")
	}
	second := r.session("second", journal, nil)
	run, err := r.doctor(ctx, second, r.repairs("--journal", journal)...)
	// On a busy machine the reading right before a write may miss its bound: nothing is written.
	for tries := 1; err == nil && run.Code != 0 && strings.Contains(run.errors, "could not be read right before it") && tries < 20; tries++ {
		run, err = r.doctor(ctx, second, r.repairs("--journal", journal)...)
	}
	if err != nil {
		return err
	}
	rerun := invariant.Rerun{Name: run.Name + " after " + r.attack.String(), Code: run.Code, Said: command.WithoutProgress(run.errors), Unless: unless}
	var report finding.Report
	if err := json.Unmarshal([]byte(run.output), &report); err != nil && run.Code != 2 {
		return fmt.Errorf("%s: exit code %d: %w: %s", rerun.Name, run.Code, err, run.output+run.errors)
	}
	rerun.Findings = len(report.Findings)
	r.reruns = append(r.reruns, rerun)
	if (rerun.Code == 0 || r.story.detaches()) && r.story != nodeLost && r.binary == "" {
		return fixture.AwaitFor(ctx, patience, r.podRuns())
	}
	return nil
}
