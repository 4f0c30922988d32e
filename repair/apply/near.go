package apply

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/repair"
)

const (
	// nearTime bounds the reading of what a write is about. It takes milliseconds, and an
	// answer that takes longer is about a cluster that may be another by then: the time is
	// the longest that a pod can have been there unseen. A judgement.
	nearTime = 3 * time.Second
	// nearTries is how often these objects may have changed, each time with guards that
	// hold, before the write waits for another look. A judgement.
	nearTries = 3
)

// stillSafe reads what the write is about once more, right before it. A look at all objects
// takes seconds in a large cluster, and whoever has come since is not in it. Guards are
// functions of the objects: they are asked again only where one of these has changed, and
// then these are read once more, so that nothing but that reading stands before the write.
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

// hit says which pod came between the last reading and the write, which may take its volume
// from it.
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
