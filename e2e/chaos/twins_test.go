package chaos_test

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/faultproxy"
)

// namedByTime matches the command's own names of journals.
const namedByTime = "volume-doctor-*.journal"

// twins runs two doctors in one folder without a journal's name. Both make a journal in the
// same second: each is held back while it reads the pods, its last request before that. Both
// announce a write in their journals: each is held back again at the dry run.
func (r *round) twins(ctx context.Context) error {
	names := []string{"first", "twin"}
	begin, try := newMeeting(len(names)), newMeeting(len(names))
	errs := make([]error, len(names))
	var both sync.WaitGroup
	for i, name := range names {
		var a assault
		if i < len(r.attack.runs) {
			a = r.attack.runs[i]
		}
		session := r.session(name, namedByTime, newTally(a))
		var once, onceMore sync.Once
		session.Hold = func(q faultproxy.Request) {
			switch {
			case q.Resource == "pods":
				once.Do(func() {
					begin.attend()
					time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second)))
				})
			case q.Class == faultproxy.DryRun:
				onceMore.Do(try.attend)
			}
		}
		both.Go(func() { _, errs[i] = r.doctor(ctx, session, r.repairs()...) })
	}
	both.Wait()
	return errors.Join(errs...)
}

// meeting makes several goroutines wait for each other.
type meeting struct {
	missing chan struct{}
	all     chan struct{}
}

func newMeeting(n int) *meeting {
	m := &meeting{make(chan struct{}, n), make(chan struct{})}
	for range n - 1 {
		m.missing <- struct{}{}
	}
	return m
}

// attend returns when all are there, or when it is clear that one does not come.
func (m *meeting) attend() {
	select {
	case <-m.missing:
	default:
		close(m.all)
	}
	select {
	case <-m.all:
	case <-time.After(15 * time.Second):
	}
}
