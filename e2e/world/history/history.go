package history

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/world/bubble"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/world/claims"
)

// History is a script: what there is, what is done to it, and how long it is looked at.
type History struct {
	Size  Size          `json:"size"`
	Steps []Step        `json:"steps"`
	For   time.Duration `json:"for"`
}

func (h History) String() string {
	var lines []string
	for _, s := range h.Steps {
		lines = append(lines, s.String())
	}
	return strings.Join(lines, "\n")
}

const (
	// settles is how long the world has before it is looked at: its workloads start.
	settles = time.Minute
	// ends is the longest that anything in the world sleeps after its context has ended, such
	// as a call that hangs.
	ends = 10 * time.Minute
	// limit is the time of the processor that a history may take.
	limit = 5 * time.Minute
)

// Played is a history that was played.
type Played struct {
	Record *claims.Record
	Log    []string
	// Advice is what came of a step that did what a finding says; nil where there was none.
	Advice *Advice
}

// oneReal lets one world with real volume managers be played at a time: see parts.NodePlugin.
var oneReal sync.Mutex

// Play plays the history in a bubble of its own; the caller has called bubble.Quiet. The error
// is one of the world, not of the tool.
func (h History) Play(t *testing.T) (played Played, err error) {
	t.Helper()
	if h.Size.Real {
		oneReal.Lock()
		defer oneReal.Unlock()
	}
	bubble.Run(t, limit, func(*testing.T) { played, err = h.play() })
	return played, err
}

func (h History) play() (Played, error) {
	ctx, cancel := context.WithCancel(context.Background())
	w, err := NewWorld(ctx, h.Size)
	if err != nil {
		cancel()
		return Played{}, err
	}
	time.Sleep(settles)
	looking, stopLooking := context.WithCancel(ctx)
	type result struct {
		looks []claims.Look
		err   error
	}
	looked := make(chan result, 1)
	go func() {
		looks, err := w.watch(looking)
		looked <- result{looks, err}
	}()
	for _, s := range h.Steps {
		w.run(func() {
			select {
			case <-time.After(s.At - w.Since()):
				w.do(ctx, s)
			case <-ctx.Done():
			}
		})
	}
	time.Sleep(h.For - w.Since())
	stopLooking()
	r := <-looked
	record := w.record(r.looks)
	cancel()
	w.Wait()
	time.Sleep(ends)
	if len(r.looks) == 0 {
		r.err = errors.Join(r.err, errors.New("nobody has looked"))
	}
	return Played{record, w.Log(), w.advice}, r.err
}

// record is what the judges need of the world, as it is now.
func (w *World) record(looks []claims.Look) *claims.Record {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shown()
	r := &claims.Record{Began: w.began, Ended: time.Now(), Looks: looks, Pods: w.Truth.Pods(), Acts: w.acts, Stopped: maps.Clone(w.stopped), GivenUp: w.Truth.GivenUp(), Drained: w.drained, Causes: w.causes, Cures: w.cures, Breaks: w.breaks}
	for _, e := range w.Driver.Log() {
		r.Tries = append(r.Tries, claims.Try{At: e.At, Call: string(e.Call), Volume: e.Volume, Node: e.Node, Failed: e.Err != nil})
	}
	return r
}
