package cluster

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// observed notes what goes wrong between the reflector, which retries in
// silence, and the API server.
type observed[P object] struct {
	*cache.ListWatch
	f    *following
	kind string // of one object
	// read reads a list, which the store then has ready, and returns its version.
	read func(ctx context.Context) (string, error)
	// items checks the objects of a watch.
	items *items
	pace  pace
}

// ListWithContext reads the list as Snapshot does, one object at a time, and gives the
// reflector its version alone. The options are the reflector's for a list that may be
// old: this one is as new as the call.
func (o *observed[P]) ListWithContext(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
	version, err := o.read(ctx)
	if err != nil {
		return nil, o.noted(ctx, err)
	}
	return &metav1.List{ListMeta: metav1.ListMeta{ResourceVersion: version}}, nil
}

// IsWatchListSemanticsUnSupported has the reflector list: a list that is streamed as a
// watch takes several times as long, because each object comes in a message of its own
// and is decoded in full.
func (o *observed[P]) IsWatchListSemanticsUnSupported() bool { return true }

func (o *observed[P]) belongs(object runtime.Object, check func(metav1.Object) error) error {
	typed, ok := object.(P)
	if !ok {
		return malformed("a %T in place of a %s", object, o.kind)
	}
	return check(typed)
}

// checked turns an event that is about no object of the kind into the end of the watch:
// the reflector would leave it out, and now reads the list again.
func (o *observed[P]) checked(event watch.Event) (watch.Event, bool) {
	var err error
	switch event.Type {
	case watch.Error:
	case watch.Bookmark:
		err = o.belongs(event.Object, func(metav1.Object) error { return nil })
	default:
		err = o.belongs(event.Object, o.items.plausible)
	}
	if err != nil {
		o.f.set(func() { o.f.failed, o.f.read = err, false })
		o.f.note()
		status := apierrors.NewResourceExpired(err.Error()).Status()
		event = watch.Event{Type: watch.Error, Object: &status}
	}
	return event, true
}

func (o *observed[P]) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if err := o.pace.wait(ctx, func() { o.f.set(func() { o.f.paused = true }); o.f.note() }); err != nil {
		return nil, err
	}
	w, err := o.ListWatch.WatchWithContext(ctx, options)
	if err == nil {
		o.f.set(func() { o.f.paused, o.f.allowed = false, true })
		return watch.Filter(w, o.checked), nil
	}
	return w, o.noted(ctx, err)
}

// noted gives the reflector, for what it would retry by itself, an error that it
// does not know: what was missed meanwhile is then read again, and what is not
// followed is said at once.
func (o *observed[P]) noted(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
		return err // the reflector knows what to do, and nothing is missed
	}
	o.f.set(func() { o.f.failed, o.f.read = err, false })
	o.f.note()
	if unreachable(err) {
		return errors.New(err.Error())
	}
	return err
}

func unreachable(err error) bool {
	return utilnet.IsConnectionRefused(err) || apierrors.IsTooManyRequests(err) || apierrors.IsInternalError(err)
}

const (
	// steadyWatch is how long a watch that works is open at least. An API server ends
	// each after some minutes.
	steadyWatch = 30 * time.Second
	// quickWatches are free in a row: one for a list as a stream, one after a list, and
	// one after a connection that broke.
	quickWatches = 3
)

// pace makes the time between watches longer while each of them ends soon. client-go
// asks again at once for what expired, and for what was closed.
type pace struct {
	began time.Time
	quick int
	pause wait.Backoff
}

// wait returns when the next watch may be asked for. It calls pausing if that is not
// now.
func (p *pace) wait(ctx context.Context, pausing func()) error {
	if p.quick++; p.began.IsZero() || time.Since(p.began) >= steadyWatch {
		p.quick, p.pause = 1, restart()
	}
	if p.quick > quickWatches {
		pausing()
		if err := Sleep(ctx, p.pause.Step()); err != nil {
			return err
		}
	}
	p.began = time.Now()
	return nil
}
