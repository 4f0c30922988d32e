package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/version"

	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/backend"
)

// parallel is how many kinds are read at the same time: enough to hide the round trips, few
// enough not to burden the API server.
const parallel = 4

// Snapshot reads every kind that is needed. A kind that may not or cannot be read is a gap in
// the result; an error means that there is no result.
//
// Every list is at least as new as the call, so that repairs can see their own writes, and
// pods are read after the objects that they use (see snapshot.Kinds). Objects that no check
// would look at are left out: see Options.
func (c *Cluster) Snapshot(ctx context.Context) (*snapshot.Snapshot, error) {
	return c.take(ctx, func(ctx context.Context, r *reading) error {
		if err := r.drivers(ctx); err != nil {
			return err
		}
		return r.everything(ctx)
	})
}

// everything reads the kinds that are needed, except CSIDrivers where they were already read
// for the drivers' own objects.
func (r *reading) everything(ctx context.Context) error {
	known := func(k kind) bool { return r.options.Drivers != nil && k.name() == snapshot.CSIDrivers }
	if err := r.all(ctx, r.lists(func(k kind) bool { return k.isAlwaysNeeded() && k.name() != snapshot.Pods && !known(k) })); err != nil {
		return err
	}
	if err := r.all(ctx, r.lists(func(k kind) bool { return k.name() == snapshot.Pods })); err != nil {
		return err
	}
	// Where a list is incomplete, it is unknown which kinds are needed.
	all := r.options.All || len(r.gaps) > 0
	return r.all(ctx, r.lists(func(k kind) bool { return !k.isAlwaysNeeded() && (all || k.isNeeded(&r.objects)) }))
}

// lists are the sources of the wanted kinds.
func (r *reading) lists(wanted func(kind) bool) (sources []source) {
	for _, k := range kinds {
		if wanted(k) {
			sources = append(sources, k.list(r))
		}
	}
	return sources
}

// take makes a snapshot from everything that read reads.
func (c *Cluster) take(ctx context.Context, read func(context.Context, *reading) error) (*snapshot.Snapshot, error) {
	var now clock
	ctx = context.WithValue(ctx, clockKey{}, &now)
	c.spent.reset()
	// The first request also shows whether there is an API server at all.
	serverVersion, err := c.version(ctx)
	if err != nil {
		return nil, c.Explain(err)
	}
	r := &reading{Cluster: c, now: &now}
	var asked *manager
	if c.options.Manager {
		asked = c.askManager(ctx, &now)
	}
	if err := read(ctx, r); err != nil {
		return nil, c.Explain(err)
	}
	if !r.answered {
		return nil, fmt.Errorf("nothing could be read: %w", c.Explain(r.failure))
	}
	if serverVersion == "" {
		// An API server that has just started refuses for a moment.
		if serverVersion, err = c.version(ctx); err != nil {
			return nil, c.Explain(err)
		}
	}
	r.readAgain(ctx, now.read())
	from := snapshot.Source{Context: c.options.Context, Server: c.server, ServerVersion: serverVersion}
	s := snapshot.New(time.Time{}, from, r.objects, r.gaps)
	s.OtherPods = r.otherPods
	c.renewed.note(s, r.windows)
	r.renewedAgain(ctx, s)
	if err := c.setTakenAt(s, &now); err != nil {
		return nil, err
	}
	if c.attachments != nil {
		s.Followed = c.attachments.followed(s.VolumeAttachments)
	}
	addDrivers(s, r.backends)
	if asked != nil {
		if err := asked.finish(ctx, s, &now); err != nil {
			return nil, c.Explain(err)
		}
	}
	return s, nil
}

// version is the API server's version, or "" where it does not give one.
func (c *Cluster) version(ctx context.Context) (string, error) {
	result := c.client[corev1.GroupName].Get().AbsPath("/version").SetHeader("Accept", "application/json").Do(ctx)
	if err := result.Error(); err != nil {
		var status apierrors.APIStatus
		if errors.As(err, &status) && !apierrors.IsUnauthorized(err) {
			return "", nil
		}
		return "", err
	}
	raw, err := result.Raw()
	if err != nil {
		return "", err
	}
	var info version.Info
	if err := json.Unmarshal(raw, &info); err != nil {
		return "", fmt.Errorf("what answers at %s is no API server: %w", c.server, err)
	}
	return info.GitVersion, nil
}

// reading is one Snapshot under way. Each source writes to its own list.
type reading struct {
	*Cluster
	now     *clock
	objects snapshot.Objects
	// otherPods counts the pods that were read and are not kept.
	otherPods int
	// backends are the lists made from the drivers' own objects.
	backends []*backend.List

	mu   sync.Mutex
	gaps []snapshot.Gap
	// windows are the times in which the whole lists were read.
	windows map[snapshot.Kind]window
	// answered reports whether some list was read or refused, which shows that the API server
	// works.
	answered bool
	// failure is the first error that left a gap.
	failure error
}

// all reads the sources side by side. It returns an error only where no further request can
// succeed.
func (r *reading) all(ctx context.Context, sources []source) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	slots := make(chan struct{}, parallel)
	var running sync.WaitGroup
	for _, s := range sources {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			if err := r.read(ctx, s); err != nil {
				cancel(err)
			}
		})
	}
	running.Wait()
	return context.Cause(ctx)
}

func (r *reading) read(ctx context.Context, s source) error {
	asked := time.Now()
	objects, err := s.read(ctx, "")
	gap := snapshot.Gap{Kind: s.kind}
	if apierrors.IsForbidden(err) && s.fallback != "" {
		if _, inner := s.read(ctx, s.fallback); inner == nil {
			gap.Namespace = s.fallback
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.readWithin(s.kind, window{asked, time.Now()})
	var page *pageError
	switch {
	case err == nil:
		r.answered = true
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case apierrors.IsUnauthorized(err):
		return err
	case apierrors.IsForbidden(err):
		r.answered = true
		gap.Reason = snapshot.ReasonForbidden
	case apierrors.IsNotFound(err):
		r.answered = true
		gap.Reason = snapshot.ReasonUnavailable
	case errors.As(err, &page):
		gap.Reason = snapshot.ReasonUndecodable
		r.failure = cmp.Or(r.failure, err)
	case objects > 0 || isLimit(err):
		r.answered = true
		gap.Reason = snapshot.ReasonTruncated
	default:
		gap.Reason = snapshot.ReasonUnavailable
		r.failure = cmp.Or(r.failure, err)
	}
	if !s.optional {
		gap.Detail = r.Explain(err).Error()
		r.gaps = append(r.gaps, gap)
	}
	return nil
}

// readWithin notes when a kind was read. For a kind that is read in several parts it is the
// time from the first to the last.
func (r *reading) readWithin(kind snapshot.Kind, w window) {
	if before, ok := r.windows[kind]; ok && before.asked.Before(w.asked) {
		w.asked = before.asked
	}
	if r.windows == nil {
		r.windows = map[snapshot.Kind]window{}
	}
	r.windows[kind] = w
}

func (c *Cluster) progress(kind snapshot.Kind, objects int) {
	if c.options.Progress == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.options.Progress(kind, objects)
}

// Reads are the rights that a complete Snapshot needs.
func Reads() []repair.Permission {
	var reads []repair.Permission
	for _, r := range snapshot.Resources() {
		if !r.Optional {
			reads = append(reads, repair.RightTo("list", r.Kind, ""))
		}
	}
	return reads
}
