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

// observed records the failures between the reflector, which retries silently, and the API
// server.
type observed[P object] struct {
	*cache.ListWatch
	f    *following
	kind string // of one object
	// read reads a list, makes it ready for the store, and returns its version.
	read func(ctx context.Context) (string, error)
	// items checks the objects of a watch.
	items *items
	pace  pace
}

// ListWithContext reads the list as Snapshot does, one object at a time, and gives the
// reflector only its version. It ignores the reflector's options, which allow an old list:
// this list is as new as the call.
func (o *observed[P]) ListWithContext(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
	version, err := o.read(ctx)
	if err != nil {
		return nil, o.noted(ctx, err)
	}
	return &metav1.List{ListMeta: metav1.ListMeta{ResourceVersion: version}}, nil
}

// IsWatchListSemanticsUnSupported makes the reflector list: a list that is streamed as a
// watch takes several times as long, because each object comes in a message of its own and is
// decoded in full.
func (o *observed[P]) IsWatchListSemanticsUnSupported() bool { return true }

func (o *observed[P]) belongs(object runtime.Object, check func(metav1.Object) error) error {
	typed, ok := object.(P)
	if !ok {
		return malformed("a %T in place of a %s", object, o.kind)
	}
	return check(typed)
}

// checked turns an event about an object that is not of the kind into the end of the watch:
// the reflector would skip the event, and now reads the list again.
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

// noted replaces the error of a server that cannot be reached, which the reflector would
// retry by itself, with one that the reflector does not know: it then lists again, including
// the missed changes. Until then the kind counts as not read.
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
	// steadyWatch is the shortest life of a watch that works. An API server ends each watch
	// after some minutes.
	steadyWatch = 30 * time.Second
	// quickWatches is the number of short watches in a row without a pause: one for a list as
	// a stream, one after a list, and one after a connection that broke.
	quickWatches = 3
)

// pace lengthens the time between watches while each of them ends soon. client-go itself asks
// again immediately after an expired or a closed watch.
type pace struct {
	began time.Time
	quick int
	pause wait.Backoff
}

// wait returns when the next watch may be requested. It calls pausing where it has to wait.
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
