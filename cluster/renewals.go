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

// renewals bound the API server's clock from above. An object can show that a Date is
// behind, since nobody has read what was not yet written. That a Date is ahead shows only
// in what the cluster renews by itself: a renewal that was not there in one reading and is
// there in the next was made in between, so that the time is not much later than it says.
//
// The machine's own clock measures how much time went by, and nothing else.
type renewals struct {
	mu   sync.Mutex
	last map[string]renewal
	// made are the latest renewals of each source that were made between two readings.
	made map[string]proof
	// noted is when a reading was last taken, by the machine's clock.
	noted time.Time
	// demanded reports whether no Date is believed any more that nothing bounds.
	demanded bool
}

// renewal is what a reading showed of one source: of a lease, or of a kubelet's heartbeat.
type renewal struct {
	// at is when it was renewed, by the clock of whoever did.
	at time.Time
	// asked is when that reading began, by the machine's clock.
	asked time.Time
}

// proof is a renewal that was made between two readings.
type proof struct {
	of string
	at time.Time
	// since and until are the earliest and the latest moment at which it was made, by the
	// machine's clock.
	since, until time.Time
}

// earliest is the earliest time that it can be at the moment, and latest the latest.
func (p proof) earliest(moment time.Time) time.Time { return p.at.Add(moment.Sub(p.until)) }
func (p proof) latest(moment time.Time) time.Time   { return p.at.Add(moment.Sub(p.since)) }

// bound returns the Date that was read at the moment, and no more than the proof allows,
// so that nothing looks older than it can be. The error says that the Date cannot be.
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

// window is when a list was asked for and when it was there, by the machine's clock.
type window struct{ asked, answered time.Time }

// slept reports whether the machine stood still within the window: then its clocks do not
// agree on how long that was.
func (w window) slept() bool {
	byDate := w.answered.Round(0).Sub(w.asked.Round(0))
	return (w.answered.Sub(w.asked) - byDate).Abs() > time.Second
}

// note takes what a reading shows. The leases count that no user of a namespace may write.
// Kubelets write the heartbeats of their Nodes far less often, so that those count only
// where the leases could not be read.
func (r *renewals) note(s *snapshot.Snapshot, read map[snapshot.Kind]window) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if r.last == nil || (window{r.noted, now}).slept() { // how long it stood still, nobody knows
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

// bound returns the Date that was read at the moment, as proof.bound does.
func (r *renewals) bound(date, moment time.Time) (time.Time, error) {
	known := r.known()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.demanded && known.of == "" {
		return date, errors.New("this machine has stood still, and nothing was seen to be renewed since")
	}
	return known.bound(date, moment)
}

// demand has bound refuse each Date that nothing bounds, and reports whether something does.
func (r *renewals) demand() bool {
	known := r.known()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.demanded = r.demanded || known.of != ""
	return r.demanded
}

// known returns the renewal that bounds the time; zero before anything was seen to be
// renewed. A minority of the machines may have a clock that is wrong, so that it is the one
// in the middle, and of two that disagree the earlier one: too young harms nobody.
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
	// proofTime is how long ProveClock waits for a renewal: two and a half times the pause
	// between two of a kubelet (facts.NodeLeaseRenew).
	proofTime = 5 * facts.NodeLeaseRenew / 2
	// proofPause is the first pause between two of its readings, and a little more than
	// that between two renewals of kube-controller-manager (RetryPeriod); each further one
	// is twice as long.
	proofPause = 2*time.Second + 500*time.Millisecond
	// longLook is how long a look may take before it reads the lease that is renewed most
	// often once more.
	longLook = 2 * proofPause
)

// ProveClock returns nil once something that the cluster renews has shown that the API
// server's clock is right, and an error that says what was lacking. Every repair rests on
// ages, so that it comes before the first write. Where two looks have shown it already, it
// reads nothing: every look since was held against them.
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

// unproven says why nothing shows whether the clock is right.
func (c *Cluster) unproven(s *snapshot.Snapshot) error {
	text := fmt.Sprintf("nothing shows that the clock of the API server at %s is right, and repairs rest on ages: ", c.server)
	if i := slices.IndexFunc(s.Gaps, func(g snapshot.Gap) bool { return g.Kind == snapshot.Leases }); i >= 0 {
		return errors.New(text + "leases could not be read (" + oneLine(s.Gaps[i].Detail) + "), and no Node had a new heartbeat within " + proofTime.String() +
			"; let the user list leases, as the output of auth does")
	}
	return errors.New(text + "no lease of kube-system or kube-node-lease was renewed within " + proofTime.String() +
		"; kube-controller-manager and the kubelets renew theirs as long as they run: start one of them")
}

// renewedAgain reads the lease again that is renewed most often, at the end of a look that has
// taken long enough for a renewal.
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
		return // without it no more is known than before
	}
	w.answered = time.Now()
	r.renewed.note(snapshot.New(s.TakenAt, s.Source, again, nil), map[snapshot.Kind]window{snapshot.Leases: w})
}
