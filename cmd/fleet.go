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

// fleetLimits are the limits on the clusters of one pass.
type fleetLimits struct {
	// AtOnce is how many clusters are looked at side by side.
	AtOnce int
	// Time bounds one look at one cluster.
	Time time.Duration
	// Budget bounds what one cluster sends, and how much of it is kept.
	Budget cluster.Budget
	// Last reports whether this is the last pass: what exceeds its limits is a gap.
	Last bool
}

// ordinaryPass is the first pass. Most of its time is waiting, so that many clusters are read
// side by side, and ten that hang do not hold up the others. A cluster of 1,500 pods sends 8
// MB (docs/evidence/performance.md).
var ordinaryPass = fleetLimits{AtOnce: 32, Time: 20 * time.Second, Budget: cluster.Budget{Sent: 16 << 20, Kept: 8 << 20}}

// largePass is the second pass, for the clusters that exceeded the first one's budget, or
// that were still sending when its time was over. They are read one after the other: the
// largest that Kubernetes supports sends 754 MB, and takes 500 MB of memory
// (docs/evidence/performance.md).
var largePass = fleetLimits{AtOnce: 1, Time: 2 * time.Minute, Budget: cluster.Budget{Sent: 1 << 30, Kept: 128 << 20}, Last: true}

// fleetPasses are ordinaryPass and largePass. Each look gets at least the time that
// --request-timeout gives to one request; with two looks, a cluster gets the time for both
// and the pause between them.
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

// steadySent is how many bytes a cluster must have sent when its time is over to count as
// slow: one that sent less hangs, or is not worth waiting for.
const steadySent = 1 << 20

// errLater says that the cluster is left for the second pass.
var errLater = errors.New("too large or too slow for the first pass")

// judge turns the result of a look, which may have exceeded its budget, into its error. In a pass that is not the last, the
// cluster is looked at again if it was too large, or slow and still sending. A cluster that
// is too large even for the last pass is left out of the report: half of a cluster proves
// little, and examining it would cost more than reading it.
func (l fleetLimits) judge(ctx context.Context, over bool, sent int64, err error) error {
	switch {
	case over && l.Last:
		return fmt.Errorf("it sends more than %d MiB, or %d MiB of what has to be kept: examine it alone, with --context", l.Budget.Sent>>20, l.Budget.Kept>>20)
	case l.Last:
		return err
	case over, ctx.Err() != nil && sent >= steadySent:
		return errLater
	default:
		return err
	}
}

// softMemory is the memory limit for the garbage collector, which otherwise lets the garbage
// of many clusters grow to the size of everything that is held.
const softMemory = 224 << 20

// limitMemory sets that limit, unless GOMEMLIMIT is set, and returns a function that restores
// the former one.
func limitMemory() (restore func()) {
	before := debug.SetMemoryLimit(-1)
	if before == math.MaxInt64 {
		debug.SetMemoryLimit(softMemory)
	}
	return func() { debug.SetMemoryLimit(before) }
}

// stoppingTime is how long a look may take to notice that its time is over.
const stoppingTime = time.Second

// eachCluster looks at n clusters, first within the limits of the first pass and then, at
// those that judge leaves over, within those of the next. It calls done with the result of
// each, one at a time and as they end. A pass begins when all clusters of the one before have
// been begun: those that are not read by then mostly hang, and take no memory. A look that
// does not end when its context does is left behind: it waits for a program that cannot be
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
