// Package bubble runs parts of Kubernetes in a testing/synctest bubble, where time passes
// only while everything waits, and notices when it no longer does.
package bubble

import (
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
)

// The watchdogs' patience, in real time.
const (
	// standsAfter is how long the clock may stand. A second of the world takes some
	// milliseconds.
	standsAfter = 60 * time.Second
	watchEvery  = time.Second
)

// Quiet takes the logs of Kubernetes away, and what it does after an error that nobody
// handles: it sleeps until a millisecond after the last one, and the last one may be of
// another bubble, whose clock is years away.
func Quiet() {
	klog.SetLogger(logr.Discard())
	utilruntime.ErrorHandlers = nil
}

// Run runs f in a bubble. While it does, two watchdogs run outside, in real time: the first
// ends the process with the stacks of all goroutines when the bubble's clock has stood
// still for a minute, which is so when something waits for a socket, for a lock whose
// holder sleeps or for a channel of another bubble; the second ends it when f has taken
// longer than limit.
func Run(t *testing.T, limit time.Duration, f func(t *testing.T)) {
	t.Helper()
	var clock atomic.Int64
	done := make(chan struct{})
	defer close(done)
	go watch(t.Name(), &clock, limit, done)
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan struct{})
		go func() {
			for {
				select {
				case <-ended:
					return
				case <-time.After(time.Second):
					clock.Add(1)
				}
			}
		}()
		defer close(ended)
		f(t)
	})
}

// watch is both watchdogs.
func watch(name string, clock *atomic.Int64, limit time.Duration, done <-chan struct{}) {
	began := time.Now()
	last, moved := clock.Load(), began
	for {
		select {
		case <-done:
			return
		case <-time.After(watchEvery):
		}
		now := time.Now()
		if ticks := clock.Load(); ticks != last {
			last, moved = ticks, now
		}
		switch {
		case now.Sub(moved) > standsAfter:
			die(name, fmt.Sprintf("the clock has stood for %s, %d seconds after its beginning", standsAfter, last))
		case now.Sub(began) > limit:
			die(name, fmt.Sprintf("%d seconds of the world took longer than %s", last, limit))
		}
	}
}

// die prints all stacks and ends the process: nothing in the bubble can be ended from
// outside.
func die(name, why string) {
	stacks := make([]byte, 64<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	fmt.Fprintf(os.Stderr, "%s: %s\n\n%s\n", name, why, stacks)
	os.Exit(3)
}
