package cluster

import (
	"context"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

const (
	// debounce is how long a change waits for related ones: one attach writes three objects.
	debounce = time.Second
	// refreshInterval is the longest time between two snapshots: every threshold depends on
	// time, and none is shorter than this.
	refreshInterval = 10 * time.Second
	// firstReading bounds the wait for the lists of a large cluster before the first snapshot
	// is made from what has been read.
	firstReading = 2 * time.Minute
)

// pauseAfter is the pause after a snapshot that took this long together with its use, beside
// the debounce of the next change: in a large cluster that always changes, at most a fifth of
// the time is then spent on snapshots.
func pauseAfter(took time.Duration) time.Duration { return max(0, 4*took-debounce) }

// Follow watches the cluster and calls each with a snapshot: as soon as every kind has been
// read or refused, a pause after something has changed, and every ten seconds in any case. It
// returns the first error of each; nil where the context ends after the first snapshot, and
// the context's error where it ends before.
func (c *Cluster) Follow(ctx context.Context, each func(*snapshot.Snapshot) error) error {
	ctx, cancel := context.WithCancel(ctx)
	w, err := c.Watch(ctx)
	if err != nil {
		cancel()
		return err
	}
	defer w.Wait()
	defer cancel()
	if err := w.awaitBegin(ctx); err != nil {
		return err
	}
	clock := time.NewTicker(refreshInterval)
	defer clock.Stop()
	// unanswered is the reason why the API server did not answer the last ping.
	var unanswered error
	ping := func() {
		if err := w.Ping(ctx); ctx.Err() == nil {
			unanswered = err
		}
	}
	for {
		if unanswered != nil {
			ping() // a change is a sign of life
		}
		start := time.Now()
		if unanswered == nil {
			w.complete(ctx)
		}
		s, err := w.Snapshot(unanswered)
		if err != nil {
			return err
		}
		if err := each(s); err != nil {
			return err
		}
		took := time.Since(start)
		if Sleep(ctx, pauseAfter(took)) != nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-clock.C:
			ping() // a connection that hangs looks like a cluster in which nothing happens
		case <-w.Changed():
			if Sleep(ctx, debounce) != nil {
				return nil
			}
		}
	}
}

// awaitBegin waits until every kind has been read or refused.
func (w *Watch) awaitBegin(ctx context.Context) error {
	enough := time.After(firstReading)
	for !w.Began() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-enough:
			return nil
		case <-w.Changed():
		case <-time.After(debounce):
		}
	}
	return nil
}
