// Package standing is the standing mode: it follows a cluster, and answers over HTTP with the
// findings of the last look at any time. It writes nothing but its Lease and, where asked to,
// events and OpenReports.
package standing

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/cluster"
	"github.com/volume-doctor/kubectl-volume-doctor/output"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// Options say what to serve, and how.
type Options struct {
	// Listen is the address of the HTTP server, such as ":8080".
	Listen string
	// LeaderElect lets one process of several look, the one that holds the Lease in
	// Namespace. Identity is unique among them.
	LeaderElect         bool
	Namespace, Identity string
	// ReportPage serves the HTML report to users who may get cluster.PagePath.
	ReportPage bool
	// Local serves it without a token, to clients that call this machine by a name of its
	// own: a page elsewhere that leads a browser here uses another name.
	Local bool
	// Events writes an event about each finding's subject, once an hour.
	Events bool
	// Reports writes OpenReports about the standing findings.
	Reports bool
	// Version is the version of the binary.
	Version string
	// Look makes a report about a snapshot; first reports whether there was none before.
	Look func(s *snapshot.Snapshot, first bool) (*repair.View, error)
	// Log gets a line for each event that an operator should know of.
	Log io.Writer
	// Now is the clock of the process. Ages in reports come from the API server's clock.
	Now func() time.Time
}

const (
	// shutdownTime bounds the wait for requests under way at the end.
	shutdownTime = 5 * time.Second
	// eventPause is how long no event is written after a write has failed.
	eventPause = time.Minute
)

// Run serves until the context ends, and then returns nil; an error says why it had to end
// earlier.
func Run(ctx context.Context, c *cluster.Cluster, o Options) error {
	s := newServer(o, func(ctx context.Context, token, path string) (access, error) { return review(ctx, c, token, path) })
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.Listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	s.logf("listening on http://%s", listener.Addr())
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	web, ended := s.web(), make(chan error, 1)
	go func() {
		ended <- web.Serve(&boundedListener{Listener: listener, most: maxConnections})
		cancel()
	}()
	err = s.lead(ctx, c)
	select {
	case failed := <-ended:
		return errors.Join(err, fmt.Errorf("the HTTP server ended: %w", failed))
	default:
	}
	late, stop := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
	defer stop()
	if web.Shutdown(late) != nil {
		_ = web.Close() // readers have had enough time
	}
	return err
}

// lead looks as long as this process leads.
func (s *server) lead(ctx context.Context, c *cluster.Cluster) error {
	if !s.LeaderElect {
		return s.follow(ctx, c)
	}
	var last string
	return lead(ctx, c, election{
		namespace: s.Namespace, identity: s.Identity,
		leads: func(identity string) {
			switch identity {
			case s.Identity:
				s.logf("leading as %s", identity)
			case "":
				s.logf("nobody leads")
			default:
				s.logf("standing by: %s leads", identity)
			}
		},
		failed: func(err error) {
			if text := err.Error(); text != last {
				last = text
				s.logf("cannot use the Lease %s/%s: %s", s.Namespace, leaseName, text)
			}
		},
	}, func(ctx context.Context) error { return s.follow(ctx, c) })
}

// follow looks again and again.
func (s *server) follow(ctx context.Context, c *cluster.Cluster) error {
	s.state.begin(s.Now())
	defer s.state.end()
	events := eventWriter{Recorder: cluster.Recorder{Cluster: c}}
	reports := reportWriter{store: reportStore{c}, serve: s.Namespace, logf: s.logf}
	first := true
	err := c.Follow(ctx, func(taken *snapshot.Snapshot) error {
		start := s.Now()
		view, err := s.Look(taken, first)
		if err != nil {
			return err
		}
		first = false
		end := s.Now()
		s.metrics.took(end.Sub(start))
		s.state.saw(view, end)
		if s.Events {
			events.write(ctx, s)
		}
		if _, _, l := s.state.now(); s.Reports {
			reports.write(ctx, l, end)
		}
		return nil
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// eventWriter writes events, and stops for a while after one could not be written.
type eventWriter struct {
	cluster.Recorder
	pause time.Time
}

func (w *eventWriter) write(ctx context.Context, s *server) {
	_, _, l := s.state.now()
	if s.Now().Before(w.pause) {
		return
	}
	errs := w.Record(ctx, l.found())
	if len(errs) == 0 || ctx.Err() != nil {
		return
	}
	w.pause = s.Now().Add(eventPause)
	s.logf("%d events were not written, the first because: %v", len(errs), errs[0])
}

func (s *server) logf(format string, args ...any) {
	fmt.Fprintln(s.Log, output.Safe(fmt.Sprintf(format, args...)))
}

// server answers requests while the cluster is followed.
type server struct {
	Options
	state   *state
	metrics *metrics
	review  func(ctx context.Context, token, path string) (access, error)
	// reviews and pages have a place for each that may be under way.
	reviews, pages chan struct{}
	// scrapes serves the metrics.
	scrapes *exposition
}

func newServer(o Options, review func(context.Context, string, string) (access, error)) *server {
	s := &server{Options: o, state: &state{}, review: review, reviews: make(chan struct{}, maxReviews), pages: make(chan struct{}, maxPages)}
	s.metrics = newMetrics(s.state, o.Version)
	s.scrapes = &exposition{gatherer: s.metrics.Registry, state: s.state}
	return s
}

// web is the HTTP server, with a bound on everything for which a client can make it wait.
func (s *server) web() *http.Server {
	return &http.Server{
		Handler:           s.handler(),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      time.Minute,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
}
