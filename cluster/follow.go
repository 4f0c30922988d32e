package cluster

import (
	"context"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

const (
	// debounce is how long a change waits for those that belong to it: one
	// attach writes three objects.
	debounce = time.Second
	// refreshInterval is the longest time between two snapshots: every threshold is a
	// matter of time, and no check counts in less than this.
	refreshInterval = 10 * time.Second
	// firstReading bounds how long the lists of a large cluster are waited for before
	// the first snapshot is made of what is there.
	firstReading = 2 * time.Minute
)

// Follow watches the cluster and calls each with a snapshot: as soon as every kind has
// been read or refused, a second after something has changed, and every ten seconds in
// any case. It returns the first error of each; nil where the context ends after the
// first snapshot, and the context's error where it ends before.
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
	// unanswered is why the API server did not answer last.
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
		s, err := w.Snapshot(unanswered)
		if err != nil {
			return err
		}
		if err := each(s); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-clock.C:
			ping() // a connection that hangs looks like a cluster in which nothing happens
		case <-w.Changed():
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(debounce):
			}
		}
	}
}

// awaitBegin waits until every kind is read or refused.
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
