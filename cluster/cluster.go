// Package cluster reads an API server into a snapshot and makes the writes of a
// repair. It is the only package that talks to an API server.
package cluster

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
	"github.com/volume-doctor/kubectl-volume-doctor/repair/apply"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// Options are what a Cluster needs beside the way to the API server.
type Options struct {
	// Context is the name of the kubeconfig context.
	Context string
	// Namespace is the one that is read for a kind that may not be listed in all namespaces;
	// "" means that there is none.
	Namespace string
	// Progress is called, one call at a time, with the number of objects of a kind that have
	// been read so far.
	Progress func(kind snapshot.Kind, objects int)
	// PageSize is how many objects one request asks for; 0 asks for all of them.
	PageSize int64
	// Asked reports whether a command is about the pod, which is then kept although no
	// check needs it (facts.PodNeeds). It may look at the pod's name, namespace and
	// node.
	Asked func(*corev1.Pod) bool
	// All disables every choice: all pods are kept, and all kinds are read. It is for files,
	// about which any question may be asked later.
	All bool
	// Spool, with All, takes the pods; the snapshot's own list of pods is then empty.
	Spool *snapshot.Spool
	// Manager asks also for the numbers of the leading kube-controller-manager
	// (snapshot.Manager).
	Manager bool
	// Drivers, where it is not nil, asks also for the installed drivers' own objects
	// (backend.Kinds). It is called with a note for each that cannot be used.
	Drivers func(note string)
	// Budget bounds each reading; nil is no bound. A list that would exceed it is a gap.
	Budget *Budget
}

// PageSize keeps an answer at some megabytes, and the number of round trips for 150,000 pods
// small enough to wait for. See docs/evidence/performance.md.
const PageSize = 5000

// Cluster is one API server. It implements apply.Cluster.
type Cluster struct {
	client groups
	// lists uses HTTP/1.1: large lists cost the API server half the CPU of HTTP/2, and
	// this side a third less. See docs/evidence/performance.md.
	lists   groups
	server  string
	options Options
	// config is the given configuration, for connections that are not requests.
	config *rest.Config
	// wait bounds each request with its answer.
	wait time.Duration
	// whole reads each list in one page.
	whole bool
	// spent counts what the present reading has used of the Budget; nil without one.
	spent *spending
	// renewed bounds the API server's clock, from one reading to the next.
	renewed *renewals

	// attachments is nil unless they are watched beside the readings.
	attachments *Watch

	mu sync.Mutex // serialises calls of Progress
}

var _ apply.Cluster = (*Cluster)(nil)

// New makes a Cluster of a client configuration, which it does not change.
func New(config *rest.Config, options Options) (*Cluster, error) {
	given := rest.CopyConfig(config)
	config = rest.CopyConfig(config)
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	// The API server shares its capacity fairly (priority and fairness) and says when to
	// wait; a limit on this side would only add to that.
	config.QPS = -1
	config.Burst = 0
	config.RateLimiter = nil
	// Compression takes an API server several times as long as sending.
	config.DisableCompression = true
	// The API server's warnings are for those who choose the requests.
	config.WarningHandler = rest.NoWarnings{}
	config.WarningHandlerWithContext = nil
	wait := config.Timeout
	if wait <= 0 {
		wait = maxWait
	}
	var spent *spending
	if options.Budget != nil {
		spent = &spending{Budget: *options.Budget}
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &boundedAnswers{next, wait, spent} })
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &dated{next} })
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("the address of the API server: %s", safetext.Redact(err.Error()))
	}
	// The address goes into reports and journals. The requests keep the parts that are
	// removed here.
	server.User, server.RawQuery, server.Fragment = nil, "", ""
	client, lists, err := clients(config)
	if err != nil {
		return nil, fmt.Errorf("set up the client for %s: %w", server, err)
	}
	return &Cluster{client: client, lists: lists, server: server.String(), options: options, config: given, wait: wait, spent: spent, renewed: new(renewals)}, nil
}

// Context is the name of the kubeconfig context of the cluster.
func (c *Cluster) Context() string { return c.options.Context }

// Client is the client of an API group that is read or written here, for a program with
// requests of its own: serve uses it for leader election, for example.
func (c *Cluster) Client(group string) rest.Interface { return c.client[group] }

// Server is the address of the API server, as snapshots and journals name it.
func (c *Cluster) Server() string { return c.server }

// clients are the clients for everything, and those for lists.
func clients(config *rest.Config) (all, lists groups, err error) {
	preferred, err := rest.TransportFor(config)
	if err != nil {
		return all, lists, err
	}
	config.NextProtos = []string{"http/1.1"}
	http1, err := rest.TransportFor(config)
	if err != nil {
		return all, lists, err
	}
	if all, err = newGroups(config, preferred); err != nil {
		return all, lists, err
	}
	lists, err = newGroups(config, &preferHTTP1{http1: http1, any: preferred})
	return all, lists, err
}

// clockKey finds the clock of a reading in its context.
type clockKey struct{}

// dated passes the date of every answer to the clock of its reading.
type dated struct{ next http.RoundTripper }

func (d *dated) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := d.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if c, ok := request.Context().Value(clockKey{}).(interface{ see(time.Time) }); ok {
		if t, err := http.ParseTime(response.Header.Get("Date")); err == nil {
			c.see(t)
		}
	}
	return response, nil
}

// WrappedRoundTripper lets client-go find the wrapped transport.
func (d *dated) WrappedRoundTripper() http.RoundTripper { return d.next }

// quiet is the cluster without Progress.
func (c *Cluster) quiet() *Cluster {
	q := &Cluster{client: c.client, lists: c.lists, server: c.server, options: c.options, wait: c.wait, spent: c.spent, renewed: c.renewed}
	q.options.Progress = nil
	return q
}

// limit is the number of objects that one request asks for; 0 asks for all of them.
func (c *Cluster) limit() int64 {
	if c.whole {
		return 0
	}
	return c.options.PageSize
}
