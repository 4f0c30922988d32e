package cluster

import (
	"context"
	"errors"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
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
	// items and follows check the list that is being read; belongs checks the objects
	// of a watch.
	items   *items
	follows chain
	pace    pace
}

func (o *observed[P]) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	if err := o.f.error(); apierrors.IsForbidden(err) {
		return nil, err // what may not be watched need not be listed
	}
	list, err := o.ListWatch.ListWithContext(ctx, options)
	if err == nil {
		err = o.check(list, options)
	}
	return list, o.noted(ctx, err)
}

// check looks at a page as pages does.
func (o *observed[P]) check(list runtime.Object, options metav1.ListOptions) error {
	if got, want := reflect.TypeOf(list).Elem().Name(), o.kind+"List"; got != want {
		return malformed("a %s in place of a %s", got, want)
	}
	if options.Continue == "" {
		o.follows = chain{}
		o.items.rewind(0)
	}
	about, err := meta.ListAccessor(list)
	if err != nil {
		return &pageError{err}
	}
	before := len(o.items.hashes)
	if err := meta.EachListItem(list, func(item runtime.Object) error { return o.belongs(item, o.items.take) }); err != nil {
		return err
	}
	return o.follows.next(metav1.ListMeta{ResourceVersion: about.GetResourceVersion(), Continue: about.GetContinue(),
		RemainingItemCount: about.GetRemainingItemCount()}, len(o.items.hashes)-before)
}

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
		o.f.set(func() { o.f.paused = false })
		return watch.Filter(w, o.checked), nil
	}
	if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		return w, err // an API server that cannot stream a list: it is asked for one next
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
	// quickWatches are free in a row: that of a list as a stream, one after a list, and
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
		if err := sleep(ctx, p.pause.Step()); err != nil {
			return err
		}
	}
	p.began = time.Now()
	return nil
}
