package history

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/world/bubble"
)

func TestWorld(t *testing.T) {
	began := time.Now()
	bubble.Run(t, 5*time.Minute, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w, err := NewWorld(ctx, Small)
		if err != nil {
			t.Fatal(err)
		}
		looking, stop := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() {
			_, err := w.watch(looking)
			done <- err
		}()
		time.Sleep(10 * time.Minute)
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		t.Log(strings.Join(w.Log(), "\n"))
		for _, p := range w.Truth.Pods() {
			t.Logf("%+v", p)
		}
		cancel()
		w.Wait()
		time.Sleep(10 * time.Minute)
	})
	t.Log(time.Since(began))
}
