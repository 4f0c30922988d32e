package cluster

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// TestFollowEndsWithItsConsumer: nothing is followed any more once the consumer has
// failed, although the command's context goes on.
func TestFollowEndsWithItsConsumer(t *testing.T) {
	a := newAPI(t)
	a.streams()
	enough := errors.New("enough")
	ended := make(chan error, 1)
	go func() {
		ended <- a.cluster(Options{}).Follow(t.Context(), func(s *snapshot.Snapshot) error {
			if len(s.Gaps) > 0 {
				t.Errorf("the first snapshot has gaps: %v", s.Gaps)
			}
			return enough
		})
	}()
	select {
	case err := <-ended:
		if !errors.Is(err, enough) {
			t.Error(err)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("it does not end")
	}
}

// TestFollowEndsWithItsContext: the end that was asked for is no error.
func TestFollowEndsWithItsContext(t *testing.T) {
	a := newAPI(t)
	a.streams()
	ctx, cancel := context.WithCancel(t.Context())
	looks := 0
	err := a.cluster(Options{}).Follow(ctx, func(*snapshot.Snapshot) error {
		looks++
		cancel()
		return nil
	})
	if err != nil || looks != 1 {
		t.Errorf("%d looks, %v", looks, err)
	}
}

// TestPauseAfter: a small cluster is looked at a second after a change, and a large one
// for a fifth of the time at most.
func TestPauseAfter(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{0: time.Second, 250 * time.Millisecond: time.Second, 3 * time.Second: 12 * time.Second} {
		if got := pauseAfter(took) + debounce; got != want {
			t.Errorf("after %s it pauses for %s, not %s", took, got, want)
		}
	}
}
