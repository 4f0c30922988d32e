package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/volume-doctor/kubectl-volume-doctor/cluster/metrics"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/scope"
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
	// managerPort is its port unless --secure-port says otherwise.
	managerPort = 10257
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
	m := &manager{port: managerPort}
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

// miss records as its Gap why no more can be asked.
func (m *manager) miss(err error) {
	m.Gap = safetext.RedactUser(oneLine(err.Error()))
	m.First, m.Last, m.Held = nil, nil, nil
}

// finish reads the metrics again, after the objects, and keeps the numbers that are the same
// in both readings.
func (m *manager) finish(ctx context.Context, s *snapshot.Snapshot, now *clock) error {
	s.Manager = &m.ControllerManager
	if lease := s.Lease(metav1.NamespaceSystem, reconcile.ControllerManager); m.Identity != "" && !heldBy(lease, m.Identity) {
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

func heldBy(lease *coordinationv1.Lease, identity string) bool {
	return lease != nil && lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity == identity
}

// findManager finds its pod by the holder of its lease, whose identity is the host's name and
// something random. The name of a static pod ends in the name of its node.
func (c *Cluster) findManager(ctx context.Context, m *manager) error {
	var leases coordinationv1.LeaseList
	if err := c.listOne(ctx, coordinationv1.GroupName, "leases", reconcile.ControllerManager, &leases); err != nil {
		return err
	}
	leases.Items = slices.DeleteFunc(leases.Items, func(l coordinationv1.Lease) bool { return l.Name != reconcile.ControllerManager })
	if len(leases.Items) != 1 || leases.Items[0].Spec.HolderIdentity == nil || *leases.Items[0].Spec.HolderIdentity == "" {
		return errors.New("no lease shows which kube-controller-manager leads, as in most managed clusters")
	}
	holder := *leases.Items[0].Spec.HolderIdentity
	host := strings.ToLower(holder[:max(0, strings.LastIndexByte(holder, '_'))])
	name := reconcile.ControllerManager + "-" + host
	if host == "" || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return fmt.Errorf("the holder of its lease, %s, is not named as kube-controller-manager names itself", safetext.Quote(holder))
	}
	var pods corev1.PodList
	if err := c.listOne(ctx, corev1.GroupName, string(snapshot.Pods), name, &pods); err != nil {
		return err
	}
	at := slices.IndexFunc(pods.Items, func(p corev1.Pod) bool { return p.Name == name && p.Status.Phase == corev1.PodRunning })
	if at < 0 {
		return fmt.Errorf("no pod kube-system/%s runs, of the kube-controller-manager that leads", name)
	}
	m.Pod, m.Identity = name, holder
	return m.takePod(&pods.Items[at])
}

// takePod reads the release and the settings from the pod's manifest.
func (m *manager) takePod(pod *corev1.Pod) error {
	var line []string
	for _, container := range pod.Spec.Containers {
		for _, word := range slices.Concat(container.Command, container.Args) {
			line = append(line, strings.Fields(word)...) // some are started through a shell
		}
		_, tag, _ := strings.Cut(container.Image[strings.LastIndexByte(container.Image, '/')+1:], ":")
		if tag, _, _ = strings.Cut(tag, "@"); strings.HasPrefix(tag, "v1.") && reconcile.IsRelease(tag) {
			m.Release = tag
		}
	}
	m.Flags = map[string]string{}
	for _, name := range snapshot.Settings {
		if value, ok := setting(line, name); ok {
			m.Flags[name] = value
		}
	}
	if value, ok := setting(line, "secure-port"); ok {
		port, err := strconv.ParseUint(value, 10, 16)
		if err != nil || port == 0 {
			return fmt.Errorf("%s has no secure port (--secure-port=%s)", m.Pod, oneLine(value))
		}
		m.port = int(port)
	}
	return nil
}

// setting is the value of a flag in a command line. The last value counts, except for feature
// gates, which add up. A flag without a value is a switch.
func setting(line []string, name string) (value string, ok bool) {
	const longest, mostGates = 100, 10_000
	for _, word := range line {
		flag, text, has := strings.Cut(strings.TrimLeft(word, "-"), "=")
		if !strings.HasPrefix(word, "--") || strings.ReplaceAll(flag, "_", "-") != name {
			continue
		}
		before := value
		if value, ok = strings.Trim(text, `"'`), true; !has {
			value = "true"
		}
		if name == reconcile.FeatureGatesFlag {
			value = strings.TrimPrefix(before+","+value, ",")
			value = value[:min(len(value), mostGates)]
			continue
		}
		value = value[:min(len(value), longest)]
	}
	return value, ok
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
