package output

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

func planController(m *reconcile.Memory) *PlanController {
	if m == nil {
		return nil
	}
	return &PlanController{Started: utc(m.Started), Last: metav1.NewTime(m.Last.UTC()), Leads: m.Leads}
}

func planRemembered(m *reconcile.Memory, pair reconcile.VolumeNode) *PlanRemembered {
	known := m.Pair(pair)
	if known == nil {
		return nil
	}
	r := &PlanRemembered{States: known.States, Since: utc(known.Since), Running: known.Running, RunningSince: utc(known.RunningSince),
		LastError: known.LastError, LastErrorAt: utc(known.LastErrorAt)}
	if next := m.NextAttempt(pair, snapshot.AttachOperation); !next.IsZero() {
		r.NextAttach = utc(&next)
	}
	if next := m.NextAttempt(pair, snapshot.DetachOperation); !next.IsZero() {
		r.NextDetach = utc(&next)
	}
	return r
}

func utc(t *time.Time) *metav1.Time {
	if t == nil {
		return nil
	}
	u := metav1.NewTime(t.UTC())
	return &u
}

// text describes what the controller's log adds for a reader who waits; "" if it adds nothing.
func (r *PlanRemembered) text() string {
	if r == nil {
		return ""
	}
	clock := func(t *metav1.Time) string { return t.UTC().Format("15:04:05") }
	var work, failed string
	switch {
	case r.Running != "":
		work = fmt.Sprintf("the controller at work tries to %s since %s", r.Running, clock(r.RunningSince))
	case r.NextAttach != nil:
		work = "the controller at work retries to attach at " + clock(r.NextAttach)
	case r.NextDetach != nil:
		work = "the controller at work retries to detach at " + clock(r.NextDetach)
	}
	if r.LastErrorAt != nil {
		failed = fmt.Sprintf("its last error, at %s: %s", clock(r.LastErrorAt), Safe(r.LastError))
	}
	return strings.Join(said(work, failed), "; ")
}
