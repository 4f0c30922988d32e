// Package bubble runs parts of Kubernetes in a testing/synctest bubble, where time passes
// only while everything waits, and notices when it no longer does.
package bubble

import (
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
)

// The watchdogs' patience.
const (
	// standsAfter is how long the clock may stand, in time of the processor or, where nothing
	// computes, in ten times as much real time: the machine may be busy with something else. A
	// second of the world takes some milliseconds.
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

// Run runs f in a bubble. While it does, two watchdogs run outside: the first ends the
// process with the stacks of all goroutines when the bubble's clock stands still, which is
// so when something waits for a socket, for a lock whose holder sleeps or for a channel of
// another bubble; the second ends it when f has taken more time of the processor than limit.
// As many bubbles may run side by side as there are processors: each is taken to have its
// share of their time.
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
	began := used()
	last, moved, movedAt := clock.Load(), began, time.Now()
	for {
		select {
		case <-done:
			return
		case <-time.After(watchEvery):
		}
		now := used()
		if ticks := clock.Load(); ticks != last {
			last, moved, movedAt = ticks, now, time.Now()
		}
		switch {
		case now-moved > standsAfter || time.Since(movedAt) > 10*standsAfter:
			die(name, fmt.Sprintf("the clock has stood for %s, %d seconds after its beginning", standsAfter, last))
		case now-began > limit:
			die(name, fmt.Sprintf("%d seconds of the world took longer than %s", last, limit))
		}
	}
}

// used is the share of a bubble in the time of the processors that this process has taken.
func used() time.Duration { return Processor() / time.Duration(runtime.GOMAXPROCS(0)) }

// Processor is the time of the processors that this process has taken.
func Processor() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// die prints all stacks and ends the process: nothing in the bubble can be ended from
// outside.
func die(name, why string) {
	stacks := make([]byte, 64<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	fmt.Fprintf(os.Stderr, "%s: %s\n\n%s\n", name, why, stacks)
	os.Exit(3)
}
