package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fieldselector "k8s.io/apimachinery/pkg/fields"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// renewals bound the API server's clock from above. An object can show that a Date is behind,
// since nobody can read an object before it is written. That a Date is ahead shows only in
// objects that the cluster renews by itself: a renewal that was absent in one reading and is
// present in the next was made in between, so that the time is not much later than the
// renewal says.
//
// The machine's own clock only measures how much time went by.
type renewals struct {
	mu   sync.Mutex
	last map[string]renewal
	// made are, for each source, its latest renewal that was made between two readings.
	made map[string]proof
	// noted is the time of the last reading, by the machine's clock.
	noted time.Time
	// demanded reports whether a Date that no renewal bounds is refused from now on.
	demanded bool
}

// renewal is the state of one source in a reading: of a lease, or of a kubelet's heartbeat.
type renewal struct {
	// at is the time of the renewal, by the clock of the component that renewed.
	at time.Time
	// asked is the time at which that reading began, by the machine's clock.
	asked time.Time
}

// proof is a renewal that was made between two readings.
type proof struct {
	of string
	at time.Time
	// since and until are the earliest and the latest moment at which the renewal was made,
	// by the machine's clock.
	since, until time.Time
}

// earliest and latest bound the true time at the moment.
func (p proof) earliest(moment time.Time) time.Time { return p.at.Add(moment.Sub(p.until)) }
func (p proof) latest(moment time.Time) time.Time   { return p.at.Add(moment.Sub(p.since)) }

// bound returns the Date that was read at the moment, or the latest time that the proof
// allows where that is earlier, so that nothing looks older than it can be. The error says
// that the Date cannot be right.
func (p proof) bound(date, moment time.Time) (time.Time, error) {
	if p.of == "" {
		return date, nil
	}
	off := date.Sub(p.earliest(moment))
	if off.Abs() > snapshot.ClockTolerance {
		word := "ahead of"
		if off < 0 {
			word = "behind"
		}
		return date, fmt.Errorf("the time %s is contradicted: it is %s %s what %s shows, which was renewed between two readings",
			stamp(date), off.Abs().Round(time.Second), word, p.of)
	}
	if latest := p.latest(moment); date.After(latest) {
		date = latest.UTC()
	}
	return date, nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// window is the time from the request for a list to its answer, by the machine's clock.
type window struct{ asked, answered time.Time }

// slept reports whether the machine stood still within the window: then its two clocks
// disagree about the window's length.
func (w window) slept() bool {
	byDate := w.answered.Round(0).Sub(w.asked.Round(0))
	return (w.answered.Sub(w.asked) - byDate).Abs() > time.Second
}

// note takes the renewals from a reading. Only leases count that no user of a namespace may
// write. Kubelets write the heartbeats of their Nodes far less often, so that those count
// only where the leases could not be read.
func (r *renewals) note(s *snapshot.Snapshot, read map[snapshot.Kind]window) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if r.last == nil || (window{r.noted, now}).slept() { // how long it stood still is unknown
		r.last, r.made = map[string]renewal{}, map[string]proof{}
	}
	r.noted = now
	take := func(of string, at time.Time, w window) {
		before, known := r.last[of]
		if known && !at.Equal(before.at) {
			r.made[of] = proof{of, at, before.asked, w.answered}
		}
		r.last[of] = renewal{at, w.asked}
	}
	if w, ok := read[snapshot.Leases]; ok {
		for _, lease := range s.Leases {
			if strings.HasPrefix(lease.Namespace, "kube-") && lease.Spec.RenewTime != nil {
				take("Lease "+lease.Namespace+"/"+lease.Name, lease.Spec.RenewTime.Time, w)
			}
		}
	}
	if w, ok := read[snapshot.Nodes]; ok && !s.Complete(snapshot.Leases) {
		for _, node := range s.Nodes {
			if ready := facts.ReadyCondition(node); ready != nil && ready.Status == corev1.ConditionTrue && !ready.LastHeartbeatTime.IsZero() {
				take("the heartbeat of Node "+node.Name, ready.LastHeartbeatTime.Time, w)
			}
		}
	}
}

// bound returns the Date that was read at the moment, limited by what is known as in
// proof.bound.
func (r *renewals) bound(date, moment time.Time) (time.Time, error) {
	known := r.known()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.demanded && known.of == "" {
		return date, errors.New("this machine has stood still, and nothing was seen to be renewed since")
	}
	return known.bound(date, moment)
}

// demand makes bound refuse each Date that no renewal bounds, and reports whether there is a
// renewal that does.
func (r *renewals) demand() bool {
	known := r.known()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.demanded = r.demanded || known.of != ""
	return r.demanded
}

// known returns the renewal that bounds the time; zero before a renewal was seen. A minority
// of the machines may have a wrong clock, so that it is the one in the middle, and of two
// that disagree the earlier one: ages that are too young harm nobody.
func (r *renewals) known() proof {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.made) == 0 {
		return proof{}
	}
	all := slices.Collect(maps.Values(r.made))
	moment := all[0].until
	slices.SortFunc(all, func(a, b proof) int {
		return cmp.Or(a.earliest(moment).Compare(b.earliest(moment)), cmp.Compare(a.of, b.of))
	})
	return all[(len(all)-1)/2]
}

const (
	// proofTime is how long ProveClock waits for a renewal: two and a half times a kubelet's
	// interval (facts.NodeLeaseRenew).
	proofTime = 5 * facts.NodeLeaseRenew / 2
	// proofPause is the first pause between two readings of ProveClock, a little more than
	// kube-controller-manager's interval between two renewals (RetryPeriod); each further
	// pause is twice as long.
	proofPause = 2*time.Second + 500*time.Millisecond
	// longLook is the duration from which on a look reads the most often renewed lease once
	// more at its end.
	longLook = 2 * proofPause
)

// ProveClock returns nil once an object that the cluster renews has shown that the API
// server's clock is right, and otherwise an error that says what was lacking. Every repair
// rests on ages, so that it comes before the first write. Where two looks have shown it
// already, it reads nothing: every look since was checked against them.
func (c *Cluster) ProveClock(ctx context.Context) error {
	var s *snapshot.Snapshot
	began := time.Now()
	for pause := proofPause; ; pause *= 2 {
		if c.renewed.demand() {
			return nil
		}
		if left := proofTime - time.Since(began); s != nil && left <= 0 {
			return c.unproven(s)
		} else if s != nil {
			if err := Sleep(ctx, min(pause, left)); err != nil {
				return err
			}
		}
		var err error
		s, err = c.take(ctx, func(ctx context.Context, r *reading) error {
			if err := r.all(ctx, r.lists(func(k kind) bool { return k.name() == snapshot.Leases })); err != nil || len(r.gaps) == 0 {
				return err
			}
			return r.all(ctx, r.lists(func(k kind) bool { return k.name() == snapshot.Nodes }))
		})
		if err != nil {
			return err
		}
	}
}

// unproven says why no object shows whether the clock is right.
func (c *Cluster) unproven(s *snapshot.Snapshot) error {
	text := fmt.Sprintf("nothing shows that the clock of the API server at %s is right, and repairs rest on ages: ", c.server)
	if i := slices.IndexFunc(s.Gaps, func(g snapshot.Gap) bool { return g.Kind == snapshot.Leases }); i >= 0 {
		return errors.New(text + "leases could not be read (" + oneLine(s.Gaps[i].Detail) + "), and no Node had a new heartbeat within " + proofTime.String() +
			"; let the user list leases, as the output of auth does")
	}
	return errors.New(text + "no lease of kube-system or kube-node-lease was renewed within " + proofTime.String() +
		"; kube-controller-manager and the kubelets renew theirs as long as they run: start one of them")
}

// renewedAgain reads the most often renewed lease again, at the end of a look that took long
// enough for a renewal.
func (r *reading) renewedAgain(ctx context.Context, s *snapshot.Snapshot) {
	w, ok := r.windows[snapshot.Leases]
	if !ok || time.Since(w.asked) < longLook || s.Lease(metav1.NamespaceSystem, reconcile.ControllerManager) == nil {
		return
	}
	var again snapshot.Objects
	quiet := &reading{Cluster: r.quiet()}
	quiet.whole = true
	named := fieldselector.Set{"metadata.name": reconcile.ControllerManager}
	w = window{asked: time.Now()}
	if _, err := kindNamed(snapshot.Leases).few(quiet, named, "", &again).read(ctx, metav1.NamespaceSystem); err != nil {
		return // without it nothing more is known
	}
	w.answered = time.Now()
	r.renewed.note(snapshot.New(s.TakenAt, s.Source, again, nil), map[snapshot.Kind]window{snapshot.Leases: w})
}
