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

	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// Options are what a Cluster needs beside the way to the API server.
type Options struct {
	// Context is the kubeconfig's name for the cluster.
	Context string
	// Namespace is read where a kind may not be listed in all of them; "" means
	// that there is none to fall back on.
	Namespace string
	// Progress is told, one call at a time, how many objects of a kind have been
	// read so far.
	Progress func(kind snapshot.Kind, objects int)
	// PageSize is how many objects one request asks for; 0 asks for all of them.
	PageSize int64
	// Asked names pods that are kept although no check looks at them: those that
	// a command is about. It may ask for a pod's name, namespace and node. The
	// others are read and let go (diagnose.PodsOfUse).
	Asked func(*corev1.Pod) bool
	// All keeps every pod, and reads the kinds that nothing asks for here and
	// now: for a file, of which nobody knows yet what it will be asked.
	All bool
}

// PageSize keeps an answer at some megabytes and the reading of 150,000 pods at
// as many round trips as can be waited for. See docs/performance.md.
const PageSize = 5000

// Cluster is one API server. It implements repair.Cluster.
type Cluster struct {
	client groups
	// lists are clients of the same over HTTP/1.1: megabytes come through it for half
	// of what HTTP/2 costs the API server, and a third less than on this side. See
	// docs/performance.md.
	lists   groups
	server  string
	options Options

	mu sync.Mutex // keeps calls of Progress apart
}

var _ repair.Cluster = (*Cluster)(nil)

// New makes a Cluster of a client configuration, which it does not change.
func New(config *rest.Config, options Options) (*Cluster, error) {
	config = rest.CopyConfig(config)
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	// The API server shares itself out fairly (priority and fairness) and says
	// when to wait; a limit on this side would only add to it.
	config.QPS = -1
	config.Burst = 0
	config.RateLimiter = nil
	// To compress takes an API server several times as long as to send.
	config.DisableCompression = true
	// What the API server warns of is for those who choose the requests.
	config.WarningHandler = rest.NoWarnings{}
	config.WarningHandlerWithContext = nil
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &dated{next} })
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("the address of the API server: %w", err)
	}
	client, err := newGroups(config)
	if err != nil {
		return nil, fmt.Errorf("set up the client for %s: %w", server, err)
	}
	config.NextProtos = []string{"http/1.1"}
	lists, err := newGroups(config)
	if err != nil {
		return nil, fmt.Errorf("set up the client for %s: %w", server, err)
	}
	return &Cluster{client: client, lists: lists, server: server.String(), options: options}, nil
}

// clock notes the API server's time. Ages are the distance between timestamps
// that servers wrote, and the clock of the machine that the person sits at has
// no place in it.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

// see keeps the first time seen: that of the moment when reading began.
// Whatever was read later then counts as younger than it is, never as older,
// and drift is always about what is too old.
func (c *clock) see(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now.IsZero() {
		c.now = t
	}
}

func (c *clock) seen() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// clockKey finds the clock of a reading in its context.
type clockKey struct{}

// dated tells the clock of a reading the date of every answer to it.
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

// WrappedRoundTripper lets client-go find what is underneath.
func (d *dated) WrappedRoundTripper() http.RoundTripper { return d.next }
