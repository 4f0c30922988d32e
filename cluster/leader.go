package cluster

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

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
	election, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	var working sync.WaitGroup
	var over, ended bool
	var failed error
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &reportedLock{c, e, &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: e.Namespace, Name: LeaseName},
			Client:     coordinationv1.New(c.client[snapshot.ResourceOf(snapshot.Leases).Group()]),
			LockConfig: resourcelock.ResourceLockConfig{Identity: e.Identity},
		}},
		LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
		ReleaseOnCancel: true,
		Name:            LeaseName,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) { // the elector does not wait for it
				mu.Lock()
				if over {
					mu.Unlock()
					return
				}
				working.Add(1)
				mu.Unlock()
				defer working.Done()
				failed = work(ctx)
				ended = ctx.Err() == nil
				cancel()
			},
			OnStoppedLeading: func() {},
			OnNewLeader:      e.Leads,
		},
	})
	if err != nil {
		return err
	}
	elector.Run(election)
	mu.Lock()
	over = true
	mu.Unlock()
	working.Wait()
	if ctx.Err() != nil || ended {
		return failed
	}
	return fmt.Errorf("the Lease %s/%s is lost: it could not be renewed for %s, and another process may lead now", e.Namespace, LeaseName, renewDeadline)
}

// reportedLock tells why the Lease cannot be read or written: the elector itself only
// tries again.
type reportedLock struct {
	cluster  *Cluster
	election Election
	resourcelock.Interface
}

func (l *reportedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	return record, raw, l.reported(ctx, err)
}

func (l *reportedLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.reported(ctx, l.Interface.Create(ctx, record))
}

func (l *reportedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.reported(ctx, l.Interface.Update(ctx, record))
}

func (l *reportedLock) reported(ctx context.Context, err error) error {
	if err != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
		l.election.Failed(l.cluster.explain(err))
	}
	return err
}
