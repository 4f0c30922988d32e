package cmd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"sync"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/volume-doctor/kubectl-volume-doctor/cluster"
)

// fleetLimits are what the clusters of one pass may cost.
type fleetLimits struct {
	// AtOnce is how many are looked at side by side.
	AtOnce int
	// Time bounds one look at one cluster.
	Time time.Duration
	// Budget bounds what one cluster sends, and what is kept of that.
	Budget cluster.Budget
	// Last says that nobody looks again: what does not fit now is a gap.
	Last bool
}

// ordinaryPass is the first pass. Most of the time goes into waiting, so that many are
// read side by side, and ten that hang are no queue. A cluster of 1,500 pods sends
// 8 MB (docs/evidence/performance.md).
var ordinaryPass = fleetLimits{AtOnce: 32, Time: 20 * time.Second, Budget: cluster.Budget{Sent: 16 << 20, Kept: 8 << 20}}

// largePass is the second pass, for the clusters that sent more in the first one, or that
// still sent when its time was over. They are read one after the other: the largest
// that Kubernetes supports sends 754 MB, and takes 300 MB of memory (docs/evidence/performance.md).
var largePass = fleetLimits{AtOnce: 1, Time: 2 * time.Minute, Budget: cluster.Budget{Sent: 1 << 30, Kept: 128 << 20}, Last: true}

// fleetPasses are ordinaryPass and largePass, with as much time for each cluster as --request-timeout
// gives to one request, if that is more, and with the time between two looks.
func fleetPasses(requestTimeout string, between time.Duration) ([]fleetLimits, error) {
	timeout, err := clientcmd.ParseTimeout(requestTimeout)
	if err != nil {
		return nil, fmt.Errorf("--request-timeout: %w", err)
	}
	passes := []fleetLimits{ordinaryPass, largePass}
	for i := range passes {
		look := max(passes[i].Time, timeout)
		passes[i].Time = look
		if between > 0 {
			passes[i].Time = look + between + look
		}
	}
	return passes, nil
}

// steadySent is what a cluster must have sent when its time is over to be called slow:
// one that sent less hangs, or is not worth waiting for.
const steadySent = 1 << 20

// errLater says that the cluster belongs into the second pass.
var errLater = errors.New("too large or too slow for the first pass")

// limited is a cluster.Cluster, as far as it has to do with fleetLimits.
type limited interface {
	OverBudget() bool
	Sent() int64
}

// judge turns what came of a look into its error: in a pass that is not the last, the
// cluster is looked at again if it was too large, or slow and sending. What is too large
// for the last pass, too, is no part of the report: half of a cluster proves little, and
// to examine it would cost more than to read it.
func (l fleetLimits) judge(ctx context.Context, c limited, err error) error {
	switch {
	case c.OverBudget() && l.Last:
		return fmt.Errorf("it sends more than %d MiB, or %d MiB of what has to be kept: examine it alone, with --context", l.Budget.Sent>>20, l.Budget.Kept>>20)
	case l.Last:
		return err
	case c.OverBudget(), ctx.Err() != nil && c.Sent() >= steadySent:
		return errLater
	default:
		return err
	}
}

// softMemory is how much memory the collector tries to make do with: it otherwise lets
// the garbage of many clusters grow to the size of all that is held.
const softMemory = 224 << 20

// limitMemory sets that, unless somebody has set GOMEMLIMIT, and returns how to take it
// back.
func limitMemory() (restore func()) {
	before := debug.SetMemoryLimit(-1)
	if before == math.MaxInt64 {
		debug.SetMemoryLimit(softMemory)
	}
	return func() { debug.SetMemoryLimit(before) }
}

// stoppingTime is how long a look may take to notice that its time is over.
const stoppingTime = time.Second

// eachCluster looks at n clusters, first within the first of the passes and then at those
// that judge leaves over within the next, and calls done with the result on each, one
// at a time and as they end. A pass begins when all clusters of the one before have been
// begun: what is not read by then mostly hangs, and takes no memory. A look that does
// not end when its context does is left behind: it waits for a program that cannot be
// told to stop. eachCluster returns early, with its cause, where ctx ends.
func eachCluster[R any](ctx context.Context, n int, passes []fleetLimits, look func(ctx context.Context, i int, l fleetLimits) (R, error), done func(i int, result R, err error)) error {
	left := make(chan int, n)
	for i := range n {
		left <- i
	}
	close(left)
	var mu sync.Mutex
	for _, l := range passes {
		later := make(chan int, n)
		var running sync.WaitGroup
		slots := make(chan struct{}, l.AtOnce)
		for i := range left {
			slots <- struct{}{}
			if ctx.Err() != nil {
				<-slots
				continue
			}
			running.Go(func() {
				defer func() { <-slots }()
				result, err := lookWithin(ctx, l.Time, func(ctx context.Context) (R, error) { return look(ctx, i, l) })
				mu.Lock()
				defer mu.Unlock()
				switch {
				case ctx.Err() != nil:
				case errors.Is(err, errLater):
					later <- i
				default:
					done(i, result, err)
				}
			})
		}
		go func() {
			running.Wait()
			close(later)
		}()
		left = later
	}
	for range left { // nothing is put off for ever
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

func lookWithin[R any](ctx context.Context, limit time.Duration, look func(context.Context) (R, error)) (R, error) {
	type outcome struct {
		result R
		err    error
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ended := make(chan outcome, 1)
	go func() {
		result, err := look(ctx)
		ended <- outcome{result, err}
	}()
	select {
	case o := <-ended:
		return o.result, o.err
	case <-ctx.Done():
	}
	select {
	case o := <-ended:
		return o.result, o.err
	case <-time.After(stoppingTime):
		var none R
		return none, fmt.Errorf("it did not end within %s: does its kubeconfig run a program that waits for a login?", limit)
	}
}
