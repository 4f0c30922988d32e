package standing

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

const leasePath = "/apis/coordination.k8s.io/v1/namespaces/here/leases"

// leaseAPI holds the one Lease as an API server does: it refuses a write that does not follow
// the last one. A renewal whose context has ended may still arrive, after the release.
type leaseAPI struct {
	mu     sync.Mutex
	lease  *coordinationv1.Lease
	writes int
}

func (l *leaseAPI) handle(a *api) {
	answer := func(r *http.Request) (int, runtime.Object) {
		l.mu.Lock()
		defer l.mu.Unlock()
		switch {
		case r.Method != http.MethodGet:
			var body bytes.Buffer
			if _, err := body.ReadFrom(r.Body); err != nil {
				a.t.Error(err)
			}
			object, _, err := scheme.Codecs.UniversalDeserializer().Decode(body.Bytes(), nil, nil)
			if err != nil {
				a.t.Error(err)
			}
			lease, leases := object.(*coordinationv1.Lease), schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
			switch {
			case r.Method == http.MethodPost && l.lease != nil:
				return http.StatusConflict, &apierrors.NewAlreadyExists(leases, leaseName).ErrStatus
			case r.Method == http.MethodPut && (l.lease == nil || lease.ResourceVersion != l.lease.ResourceVersion):
				return http.StatusConflict, &apierrors.NewConflict(leases, leaseName, errors.New("the object has been modified")).ErrStatus
			}
			l.writes++
			lease.ResourceVersion = strconv.Itoa(l.writes)
			l.lease = lease
		case l.lease == nil:
			status := apierrors.NewNotFound(schema.GroupResource{Resource: "leases"}, leaseName)
			return http.StatusNotFound, &status.ErrStatus
		}
		return http.StatusOK, l.lease.DeepCopy()
	}
	a.handle(leasePath, answer)
	a.handle(leasePath+"/"+leaseName, answer)
}

func (l *leaseAPI) holder() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lease == nil || l.lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.lease.Spec.HolderIdentity
}

func quiet(identity string) election {
	return election{namespace: "here", identity: identity, leads: func(string) {}, failed: func(error) {}}
}

// TestLead: work begins with the Lease, and the Lease is released when the work ends, as
// asked or by an error of its own.
func TestLead(t *testing.T) {
	a, l := newAPI(t), &leaseAPI{}
	l.handle(a)
	ctx, cancel := context.WithCancel(t.Context())
	err := lead(ctx, a.cluster(), quiet("me"), func(ctx context.Context) error {
		if h := l.holder(); h != "me" {
			t.Errorf("%q holds the Lease while I work", h)
		}
		cancel()
		<-ctx.Done()
		return nil
	})
	if err != nil || l.holder() != "" {
		t.Errorf("%v; %q holds the Lease afterwards", err, l.holder())
	}
	broken := errors.New("broken")
	if err := lead(t.Context(), a.cluster(), quiet("me"), func(context.Context) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("the work's own failure: %v", err)
	}
	if h := l.holder(); h != "" {
		t.Errorf("%q holds the Lease afterwards", h)
	}
}

// TestLeadStandsBy: a process that does not hold the Lease does no work, and knows the
// leader.
func TestLeadStandsBy(t *testing.T) {
	a, l := newAPI(t), &leaseAPI{}
	l.handle(a)
	other, seconds, now := "other", int32(3600), metav1.NowMicro()
	l.lease = &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "here", Name: leaseName},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &other, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now},
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	e := quiet("me")
	var leader string
	e.leads = func(identity string) {
		leader = identity
		cancel()
	}
	err := lead(ctx, a.cluster(), e, func(context.Context) error {
		t.Error("it works without the Lease")
		return nil
	})
	if err != nil || leader != "other" || l.holder() != "other" {
		t.Errorf("%v; %q leads, and %q holds the Lease", err, leader, l.holder())
	}
}

// TestLeadSaysWhatIsRefused: the candidate tries for ever, and reports each refusal.
func TestLeadSaysWhatIsRefused(t *testing.T) {
	a := newAPI(t)
	a.fail(leasePath+"/"+leaseName, apierrors.NewForbidden(schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}, leaseName, errors.New("no RBAC policy matched")))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	e := quiet("me")
	var why error
	e.failed = func(err error) {
		why = err
		cancel()
	}
	if err := lead(ctx, a.cluster(), e, func(context.Context) error { return nil }); err != nil {
		t.Error(err)
	}
	if why == nil || !strings.Contains(why.Error(), "no RBAC policy matched") {
		t.Errorf("why: %v", why)
	}
}

// memoryLease holds the one Lease in memory, with an API server's versions.
type memoryLease struct {
	mu      sync.Mutex
	lease   *coordinationv1.Lease
	version int
}

func (l *memoryLease) read(context.Context, string) (*coordinationv1.Lease, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lease.DeepCopy(), nil
}

func (l *memoryLease) write(_ context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if there := l.lease; there != nil && there.ResourceVersion != lease.ResourceVersion || there == nil && lease.ResourceVersion != "" {
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: "leases"}, leaseName, errors.New("changed"))
	}
	l.version++
	l.lease = lease.DeepCopy()
	l.lease.ResourceVersion = strconv.Itoa(l.version)
	return l.lease.DeepCopy(), nil
}

// TestLeadersInTurn: of three processes only one works at a time. When it ends, the next
// leads within a retry; when it is cut off, within the Lease's duration, and not before it
// has stopped.
func TestLeadersInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &memoryLease{}
		var mu sync.Mutex
		var order []string
		var cut sync.Map
		working := ""
		stand := func(ctx context.Context, name string) (ended chan error) {
			reach := func() error {
				if _, is := cut.Load(name); is {
					return errors.New("no route to host")
				}
				return nil
			}
			l := &candidate{election: quiet(name),
				read: func(ctx context.Context, namespace string) (*coordinationv1.Lease, error) {
					if err := reach(); err != nil {
						return nil, err
					}
					return store.read(ctx, namespace)
				},
				write: func(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
					if err := reach(); err != nil {
						return nil, err
					}
					return store.write(ctx, lease)
				}}
			ended = make(chan error, 1)
			go func() {
				ended <- l.lead(ctx, func(ctx context.Context) error {
					mu.Lock()
					if working != "" {
						t.Errorf("%s begins while %s works", name, working)
					}
					working, order = name, append(order, name)
					mu.Unlock()
					<-ctx.Done()
					mu.Lock()
					working = ""
					mu.Unlock()
					return nil
				})
			}()
			return ended
		}
		leads := func(name string, within time.Duration) {
			t.Helper()
			time.Sleep(within)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if working != name {
				t.Errorf("%q works after %s, want %q", working, within, name)
			}
		}
		first, stop := context.WithCancel(t.Context())
		defer stop()
		a := stand(first, "a")
		leads("a", time.Second)
		rest, end := context.WithCancel(t.Context())
		b := stand(rest, "b")
		leads("a", 10*time.Minute)
		stop()
		if err := <-a; err != nil {
			t.Error(err)
		}
		leads("b", 3*retryPeriod)

		c := stand(rest, "c")
		leads("b", time.Minute)
		cut.Store("b", true)
		leads("b", renewDeadline-retryPeriod-time.Second)
		leads("c", leaseDuration)
		if err := <-b; err == nil || !strings.Contains(err.Error(), "the Lease here/volume-doctor is lost") {
			t.Errorf("the one that was cut off: %v", err)
		}
		end()
		if err := <-c; err != nil {
			t.Error(err)
		}
		if got := strings.Join(order, " "); got != "a b c" {
			t.Errorf("in turn: %s", got)
		}
		if lease := store.lease; holderOf(lease) != "" || *lease.Spec.LeaseTransitions != 2 {
			t.Errorf("the Lease afterwards: %+v", lease.Spec)
		}
	})
}
