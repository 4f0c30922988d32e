package standing

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilwait "k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"github.com/volume-doctor/kubectl-volume-doctor/cluster"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// leaseName is the Lease of the process that leads, in the namespace of its Election.
const leaseName = cluster.OwnName

// The times of the election. They are longer than those of kube-controller-manager, so that a
// restart of the API server does not change the leader: a finding takes minutes to become
// one, and can wait for the next leader.
const (
	leaseDuration = 40 * time.Second
	renewDeadline = 30 * time.Second
	retryPeriod   = 5 * time.Second
	releaseTime   = 5 * time.Second // for a process that ends
)

// election is the place and the identity with which a process stands for leader.
type election struct {
	namespace string
	// identity is unique among the candidates.
	identity string
	// leads is called with the identity of each new leader, also where that is this process.
	leads func(identity string)
	// failed is called with each error of reading or writing the Lease.
	failed func(error)
}

// lead waits until this process holds the Lease, and then does the work, whose context ends
// when the Lease is lost. It returns the work's error, which says so where the work had to
// end because the Lease was lost. It returns nil where ctx ends before the process leads.
func lead(ctx context.Context, c *cluster.Cluster, e election, work func(context.Context) error) error {
	store := leaseStore{c.Client(snapshot.ResourceOf(snapshot.Leases).Group())}
	l := &candidate{election: e, read: store.read, write: store.write}
	l.failed = func(err error) { e.failed(c.Explain(err)) }
	return l.lead(ctx, work)
}

// candidate is a process that stands for leader. It follows the rules of client-go's
// leaderelection, so that the Lease means what other programs expect. That package itself
// would link the clients of all API groups, 270 packages.
type candidate struct {
	election
	read  func(ctx context.Context, namespace string) (*coordinationv1.Lease, error) // nil where there is none
	write func(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error)

	// lease is the last one that was read or written, and since is when this process first
	// saw that state. The times in the lease are by the clocks of others.
	lease *coordinationv1.Lease
	since time.Time
	// told is the leader with which leads was last called.
	told string
}

func (l *candidate) lead(ctx context.Context, work func(context.Context) error) error {
	for !l.try(ctx) {
		if cluster.Sleep(ctx, utilwait.Jitter(retryPeriod, 1.2)) != nil {
			return nil
		}
	}
	holding, end := context.WithCancel(ctx)
	defer end()
	worked := make(chan error, 1)
	working, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		worked <- work(working)
		end()
	}()
	held := l.hold(holding)
	ended := len(worked) > 0 // the work ended by itself
	stop()
	err := <-worked
	if held {
		l.release(ctx)
	}
	if ctx.Err() != nil || ended {
		return err
	}
	return fmt.Errorf("the Lease %s/%s is lost: it could not be renewed for %s, and another process may lead now", l.namespace, leaseName, renewDeadline)
}

// hold renews the Lease until ctx ends. It returns false if the Lease is lost before.
func (l *candidate) hold(ctx context.Context) bool {
	for renewed := time.Now(); ; {
		if cluster.Sleep(ctx, retryPeriod) != nil {
			return true
		}
		attempt, cancel := context.WithDeadline(ctx, renewed.Add(renewDeadline))
		holds := l.try(attempt)
		cancel()
		switch {
		case ctx.Err() != nil:
			return true
		case holds:
			renewed = time.Now()
		case time.Since(renewed) >= renewDeadline:
			return false
		}
	}
}

// try takes or renews the Lease, unless another process holds it. It reports whether this
// process now holds it.
func (l *candidate) try(ctx context.Context) bool {
	lease, err := l.read(ctx, l.namespace)
	if err != nil {
		l.report(ctx, err)
		return false
	}
	if lease == nil {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: leaseName}}
	}
	if l.lease == nil || !equality.Semantic.DeepEqual(lease.Spec, l.lease.Spec) {
		l.since = time.Now()
	}
	l.lease = lease
	holder := holderOf(lease)
	if seconds := lease.Spec.LeaseDurationSeconds; holder != "" && holder != l.identity && seconds != nil && time.Since(l.since) < time.Duration(*seconds)*time.Second {
		l.tell(holder)
		return false
	}
	now, seconds := metav1.NowMicro(), int32(leaseDuration/time.Second)
	next := lease.DeepCopy()
	if holder != l.identity {
		transitions := int32(0)
		if before := lease.Spec.LeaseTransitions; before != nil {
			transitions = *before + 1
		}
		next.Spec.AcquireTime, next.Spec.LeaseTransitions = &now, &transitions
	}
	next.Spec.HolderIdentity, next.Spec.LeaseDurationSeconds, next.Spec.RenewTime = &l.identity, &seconds, &now
	written, err := l.write(ctx, next)
	if err != nil {
		l.report(ctx, err)
		l.tell(holder)
		return false
	}
	l.lease, l.since = written, time.Now()
	l.tell(l.identity)
	return true
}

// release lets another process lead immediately.
func (l *candidate) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
	defer cancel()
	now, nobody, seconds := metav1.NowMicro(), "", int32(1)
	free := l.lease.DeepCopy()
	free.Spec.HolderIdentity, free.Spec.LeaseDurationSeconds, free.Spec.RenewTime = &nobody, &seconds, &now
	if _, err := l.write(ctx, free); err != nil {
		l.report(ctx, err)
	}
}

func (l *candidate) tell(leader string) {
	if leader != l.told {
		l.told = leader
		l.leads(leader)
	}
}

// report calls failed, unless another process was faster, or the attempt was cancelled.
func (l *candidate) report(ctx context.Context, err error) {
	if !errors.Is(ctx.Err(), context.Canceled) && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
		l.failed(err)
	}
}

func holderOf(lease *coordinationv1.Lease) string {
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// leaseStore reads and writes the Lease.
type leaseStore struct{ client rest.Interface }

// read returns the Lease of the election, nil if there is none.
func (s leaseStore) read(ctx context.Context, namespace string) (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{}
	err := s.client.Get().Namespace(namespace).Resource(string(snapshot.Leases)).Name(leaseName).Do(ctx).Into(lease)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return lease, err
}

// write creates the Lease, or updates it in the version in which it was read.
func (s leaseStore) write(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	request := s.client.Post()
	if lease.ResourceVersion != "" {
		request = s.client.Put().Name(lease.Name)
	}
	written := &coordinationv1.Lease{}
	return written, request.Namespace(lease.Namespace).Resource(string(snapshot.Leases)).Body(lease).Do(ctx).Into(written)
}
