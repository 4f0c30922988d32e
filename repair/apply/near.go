package apply

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/repair"
)

const (
	// nearTime bounds the reading of the few objects that a write is about. The reading takes
	// milliseconds, and a slower answer may no longer be true: this is the longest that a pod
	// can have been there unseen. A judgement.
	nearTime = 3 * time.Second
	// nearTries is how often these objects may have changed, each time with guards that still
	// hold, before the write waits for another whole look. A judgement.
	nearTries = 3
)

// stillSafe reads the few objects of the write once more, right before it. A look at all objects
// takes seconds in a large cluster, and misses a pod that has come since. Guards depend only on
// objects, so they run again only where one of these has changed; then these are read once more,
// so that only that reading comes before the write.
func (a *Applier) stillSafe(ctx context.Context, v *repair.View, w *repair.Write, again prepare) error {
	near := w.Near(v)
	for range nearTries {
		around, err := a.near(ctx, v, near)
		if err != nil {
			return &repair.Refusal{Guard: repair.GuardComplete, Reason: "what the write is about could not be read right before it: " + err.Error()}
		}
		fresh, changed := around.Over(v.Snapshot)
		if !changed {
			return nil
		}
		if no := around.Unexplained(v); no != nil {
			return no
		}
		v = repair.Look(fresh, a.Options, a.Consent)
		renewed, err := again(v)
		if err != nil {
			return err
		}
		if !reflect.DeepEqual(renewed.Do, w.Do) {
			return fmt.Errorf("right before the write: %w", repair.ErrConflict)
		}
	}
	return fmt.Errorf("right before the write, %d times: %w", nearTries, repair.ErrConflict)
}

func (a *Applier) near(ctx context.Context, v *repair.View, near repair.Near) (repair.Nearby, error) {
	ctx, cancel := context.WithTimeout(ctx, nearTime)
	defer cancel()
	return a.Cluster.Near(ctx, v.Snapshot, near)
}

// hit names the pod that came between the last reading and the write, and whose volume the
// write may take.
func (a *Applier) hit(ctx context.Context, v *repair.View, w *repair.Write) string {
	if w.Hits == nil {
		return ""
	}
	around, err := a.near(context.WithoutCancel(ctx), v, w.Near(v))
	if err != nil {
		return "whether a pod came to the volume while this was written could not be read: " + err.Error()
	}
	fresh, changed := around.Over(v.Snapshot)
	if !changed {
		return ""
	}
	return w.Hits(repair.Look(fresh, a.Options, a.Consent))
}
