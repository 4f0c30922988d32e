package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/scope"
	"github.com/volume-doctor/kubectl-volume-doctor/evidence/metrics"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

const (
	// managerTakes bounds one request to kube-controller-manager.
	managerTakes = 15 * time.Second
	// managerSays bounds its metrics, and the lists of its pod and its lease. The metrics of
	// a busy one take a few MiB.
	managerSays = 32 << 20
	metricsPath = "/metrics"
	// readingsApart is the shortest time between the two readings of its metrics.
	readingsApart = time.Second
)

// manager is the leading kube-controller-manager, while the objects are read.
type manager struct {
	snapshot.ControllerManager
	port    int
	metrics func(context.Context) (*metrics.Manager, error)
	// first is the first reading, made at the time at; nil if there was none.
	first *metrics.Manager
	at    time.Time
}

// askManager finds the leading kube-controller-manager and reads its metrics for the first
// time. It never fails: a failure becomes its Gap.
func (c *Cluster) askManager(ctx context.Context, now *clock) *manager {
	m := &manager{}
	if err := c.findManager(ctx, m); err != nil {
		m.miss(err)
		return m
	}
	m.metrics = func(ctx context.Context) (*metrics.Manager, error) { return c.managerMetrics(ctx, m.Pod, m.port) }
	at := now.read()
	var err error
	if m.first, err = m.metrics(ctx); err != nil {
		m.miss(err)
		return m
	}
	m.at, m.First = time.Now(), &at
	if m.first.Release != "" {
		m.Release = m.first.Release
	}
	return m
}

// miss records in Gap why the leader cannot be asked, and drops what it has said before.
func (m *manager) miss(err error) {
	m.Gap = safetext.RedactUser(oneLine(err.Error()))
	m.First, m.Last, m.Held = nil, nil, nil
}

// finish reads the metrics again, after the objects, and keeps the numbers that are the same
// in both readings.
func (m *manager) finish(ctx context.Context, s *snapshot.Snapshot, now *clock) error {
	s.Manager = &m.ControllerManager
	if lease := s.Lease(metav1.NamespaceSystem, reconcile.ControllerManager); m.Identity != "" && !metrics.HeldBy(lease, m.Identity) {
		m.ControllerManager = snapshot.ControllerManager{}
		m.miss(errors.New("its lease does not show any more that the kube-controller-manager leads which was asked"))
		return nil
	}
	if m.first == nil {
		return nil
	}
	// An attach that the controller had begun when the objects were read ends within this
	// time.
	apart := readingsApart - time.Since(m.at)
	if scope.AsksForCounts(s) {
		apart = facts.CountsApart
	}
	if err := Sleep(ctx, apart); err != nil {
		return err
	}
	again, err := m.metrics(ctx)
	last := now.read()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		m.miss(err)
		return nil
	}
	m.Last, m.Held = &last, m.first.Same(again)
	if len(m.Held) == 0 {
		m.Gap = "the metrics of " + m.Pod + " do not tell how many volumes its attach/detach controller holds"
	}
	return nil
}

// findManager finds its pod by its lease, and reads the pod's manifest.
func (c *Cluster) findManager(ctx context.Context, m *manager) error {
	var leases coordinationv1.LeaseList
	if err := c.listOne(ctx, coordinationv1.GroupName, "leases", reconcile.ControllerManager, &leases); err != nil {
		return err
	}
	name, identity, err := metrics.Leader(leases.Items)
	if err != nil {
		return err
	}
	var pods corev1.PodList
	if err := c.listOne(ctx, corev1.GroupName, string(snapshot.Pods), name, &pods); err != nil {
		return err
	}
	pod, err := metrics.RunningPod(pods.Items, name)
	if err != nil {
		return err
	}
	m.Pod, m.Identity = name, identity
	m.Release, m.Flags, m.port, err = metrics.Started(pod)
	return err
}

// listOne reads the object of the name in kube-system, with the right to list only.
func (c *Cluster) listOne(ctx context.Context, group, resource, name string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, managerTakes)
	defer cancel()
	body, err := c.client[group].Get().Namespace(metav1.NamespaceSystem).Resource(resource).Param("fieldSelector", "metadata.name="+name).
		MaxRetries(0).SetHeader("Accept", "application/json").Stream(ctx)
	if err != nil {
		return c.Explain(err)
	}
	defer func() { _ = body.Close() }()
	text, err := io.ReadAll(&bounded{body, managerSays, tooMuch("the list of "+resource, managerSays)})
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return &metrics.Undecodable{Err: err}
	}
	return nil
}

// managerMetrics reads the metrics at the pod's port.
func (c *Cluster) managerMetrics(ctx context.Context, pod string, port int) (*metrics.Manager, error) {
	ctx, cancel := context.WithTimeout(ctx, managerTakes)
	defer cancel()
	response, err := c.forwarded(ctx, pod, port, metricsPath)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized, http.StatusForbidden:
		return nil, fmt.Errorf("%s does not let you read its metrics: it takes the right to get /metrics, with a client certificate", pod)
	default:
		return nil, fmt.Errorf("%s answers %s when asked for its metrics", pod, http.StatusText(response.StatusCode))
	}
	return metrics.DecodeManager(&bounded{response.Body, managerSays, tooMuch("what kube-controller-manager answers", managerSays)})
}
