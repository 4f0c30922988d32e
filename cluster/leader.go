package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// LeaseName is the Lease of the process that leads, in the namespace of its Election.
const LeaseName = "volume-doctor"

// The times of the election. They are longer than those of kube-controller-manager, so
// that a restart of the API server does not change the leader: a finding is minutes old
// before it is one, and can wait for the next leader.
const (
	leaseDuration = 40 * time.Second
	renewDeadline = 30 * time.Second
	retryPeriod   = 5 * time.Second
	releaseTime   = 5 * time.Second // of one that ends
)

// Election says where and as whom a process stands for leader.
type Election struct {
	Namespace string
	// Identity is unique among those that stand.
	Identity string
	// Leads is told the identity of each new leader, of this process too.
	Leads func(identity string)
	// Failed is told, each time, why the Lease could not be read or written.
	Failed func(error)
}

// Lead waits until this process holds the Lease, and then does the work, whose
// context ends when the Lease is lost. It returns the work's error. Where the work had
// to end because the Lease was lost it says so. It returns nil where ctx ends before
// the process leads.
func (c *Cluster) Lead(ctx context.Context, e Election, work func(context.Context) error) error {
	l := &candidate{Election: e, read: c.readLease, write: c.writeLease}
	failed := e.Failed
	l.Failed = func(err error) { failed(c.explain(err)) }
	return l.lead(ctx, work)
}

// candidate is a process that stands for leader. It follows the rules of client-go's
// leaderelection, so that the Lease means to others what they expect. That package links
// the clients of all API groups, 270 packages.
type candidate struct {
	Election
	read  func(ctx context.Context, namespace string) (*coordinationv1.Lease, error) // nil where there is none
	write func(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error)

	// lease is the last one that was read or written, and since is when this process
	// first saw it so. The times in it are by the clocks of others.
	lease *coordinationv1.Lease
	since time.Time
	// told is the leader that Leads was told last.
	told string
}

func (l *candidate) lead(ctx context.Context, work func(context.Context) error) error {
	for !l.try(ctx) {
		if Sleep(ctx, wait.Jitter(retryPeriod, 1.2)) != nil {
			return nil
		}
	}
	election, end := context.WithCancel(ctx)
	defer end()
	worked := make(chan error, 1)
	working, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		worked <- work(working)
		end()
	}()
	held := l.hold(election)
	ended := len(worked) > 0 // by itself
	stop()
	err := <-worked
	if held {
		l.release(ctx)
	}
	if ctx.Err() != nil || ended {
		return err
	}
	return fmt.Errorf("the Lease %s/%s is lost: it could not be renewed for %s, and another process may lead now", l.Namespace, LeaseName, renewDeadline)
}

// hold renews the Lease until ctx ends. It returns false if the Lease is lost before.
func (l *candidate) hold(ctx context.Context) bool {
	for renewed := time.Now(); ; {
		if Sleep(ctx, retryPeriod) != nil {
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

// try takes or renews the Lease, unless another process holds it. It reports whether
// this process holds it now.
func (l *candidate) try(ctx context.Context) bool {
	lease, err := l.read(ctx, l.Namespace)
	if err != nil {
		l.report(ctx, err)
		return false
	}
	if lease == nil {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: LeaseName}}
	}
	if l.lease == nil || !equality.Semantic.DeepEqual(lease.Spec, l.lease.Spec) {
		l.since = time.Now()
	}
	l.lease = lease
	holder := holderOf(lease)
	if seconds := lease.Spec.LeaseDurationSeconds; holder != "" && holder != l.Identity && seconds != nil && time.Since(l.since) < time.Duration(*seconds)*time.Second {
		l.tell(holder)
		return false
	}
	now, seconds := metav1.NowMicro(), int32(leaseDuration/time.Second)
	next := lease.DeepCopy()
	if holder != l.Identity {
		transitions := int32(0)
		if before := lease.Spec.LeaseTransitions; before != nil {
			transitions = *before + 1
		}
		next.Spec.AcquireTime, next.Spec.LeaseTransitions = &now, &transitions
	}
	next.Spec.HolderIdentity, next.Spec.LeaseDurationSeconds, next.Spec.RenewTime = &l.Identity, &seconds, &now
	written, err := l.write(ctx, next)
	if err != nil {
		l.report(ctx, err)
		l.tell(holder)
		return false
	}
	l.lease, l.since = written, time.Now()
	l.tell(l.Identity)
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
		l.Leads(leader)
	}
}

// report calls Failed, unless another process was faster, or the attempt was cancelled.
func (l *candidate) report(ctx context.Context, err error) {
	if !errors.Is(ctx.Err(), context.Canceled) && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
		l.Failed(err)
	}
}

func holderOf(lease *coordinationv1.Lease) string {
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// readLease returns the Lease of the election, nil if there is none.
func (c *Cluster) readLease(ctx context.Context, namespace string) (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{}
	err := c.leases().Get().Namespace(namespace).Resource(string(snapshot.Leases)).Name(LeaseName).Do(ctx).Into(lease)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return lease, err
}

// writeLease creates the Lease, or updates it in the version in which it was read.
func (c *Cluster) writeLease(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	request := c.leases().Post()
	if lease.ResourceVersion != "" {
		request = c.leases().Put().Name(lease.Name)
	}
	written := &coordinationv1.Lease{}
	return written, request.Namespace(lease.Namespace).Resource(string(snapshot.Leases)).Body(lease).Do(ctx).Into(written)
}

func (c *Cluster) leases() rest.Interface {
	return c.client[snapshot.ResourceOf(snapshot.Leases).Group()]
}
