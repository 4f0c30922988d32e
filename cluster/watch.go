package cluster

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// heartbeat bounds how long an API server may take to answer a ping.
const heartbeat = 5 * time.Second

// Watch follows a cluster: it lists every kind once and watches it from then on. While a kind
// is not watched, it is a gap in the Snapshot: neither the presence nor the absence of an
// object can be trusted then.
type Watch struct {
	*Cluster
	kinds   []*following
	drivers driversFollowed
	now     ticking
	changed chan struct{}
	done    sync.WaitGroup
	version string
}

// Watch begins to follow the cluster until the context ends. An error means that no API
// server can be followed.
func (c *Cluster) Watch(ctx context.Context) (*Watch, error) {
	w := &Watch{Cluster: c, changed: make(chan struct{}, 1)}
	ctx = context.WithValue(ctx, clockKey{}, &w.now)
	var err error
	if w.version, err = c.version(ctx); err != nil {
		return nil, c.Explain(err)
	}
	for _, k := range kinds {
		w.kinds = append(w.kinds, k.follow(w))
	}
	for _, f := range w.kinds {
		w.done.Go(func() {
			if f.meet != nil {
				w.awaitNeeds(ctx)
			}
			f.run(ctx)
		})
		if f.kind == snapshot.CSIDrivers && c.options.Drivers != nil {
			w.done.Go(func() { w.drivers.follow(ctx, w, f) })
		}
	}
	return w, nil
}

// Changed receives once after any number of changes that a report could depend on.
func (w *Watch) Changed() <-chan struct{} { return w.changed }

func (w *Watch) note() {
	select {
	case w.changed <- struct{}{}:
	default: // the receiver has not looked yet
	}
}

// Wait returns once all watches have ended, after the context's end.
func (w *Watch) Wait() { w.done.Wait() }

// Began reports whether everything wanted has been read once, or could not be read.
func (w *Watch) Began() bool {
	if asked, _ := w.drivers.now(); !asked && w.options.Drivers != nil {
		return false
	}
	return !slices.ContainsFunc(w.kinds, func(f *following) bool { return !f.began() })
}

// Ping checks that the API server answers, and takes its time and its release from the
// answer. It reads no object.
func (w *Watch) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, clockKey{}, &w.now), heartbeat)
	defer cancel()
	v, err := w.Cluster.version(ctx)
	if err != nil {
		return w.Explain(err)
	}
	if v != "" { // it answers, but without a version: the last one stays
		w.version = v
	}
	return nil
}

// Snapshot is the cluster as the watches have it now. unanswered is the reason why the API
// server does not answer, if it does not: then everything is a gap. Everything is a gap also
// while the objects contradict the API server's clock.
func (w *Watch) Snapshot(unanswered error) (*snapshot.Snapshot, error) {
	now := w.now.read()
	if now.IsZero() {
		return nil, fmt.Errorf("no answer of the API server at %s has a date, and no age can be told without", w.server)
	}
	s := w.snapshot(now, unanswered)
	if unanswered != nil {
		return s, nil
	}
	moment := time.Now()
	w.renewed.note(s, map[snapshot.Kind]window{snapshot.Leases: {moment, moment}, snapshot.Nodes: {moment, moment}})
	err := snapshot.ClockContradicted(s)
	if err == nil {
		s.TakenAt, err = w.renewed.bound(now, moment)
	}
	if err != nil {
		return w.snapshot(now, w.wrongClock(err)), nil
	}
	return s, nil
}

func (w *Watch) snapshot(now time.Time, unanswered error) *snapshot.Snapshot {
	var o snapshot.Objects
	var gaps []snapshot.Gap
	otherPods := 0
	for _, f := range w.kinds { // pods last, as when they are read
		gap := f.fill(&o)
		if f.kind == snapshot.Pods {
			otherPods = f.store.notKept()
		}
		if unanswered != nil {
			gap = &snapshot.Gap{Kind: f.kind, Reason: snapshot.ReasonUnavailable, Detail: unanswered.Error()}
		}
		if gap != nil && !f.optional {
			gaps = append(gaps, *gap)
		}
	}
	from := snapshot.Source{Context: w.options.Context, Server: w.server, ServerVersion: w.version}
	s := snapshot.New(now, from, o, gaps)
	s.OtherPods = otherPods
	s.Followed = w.followed(s.VolumeAttachments)
	_, lists := w.drivers.now()
	addDrivers(s, lists)
	return s
}

// following is the watch of one kind.
type following struct {
	kind snapshot.Kind
	// fallback is the namespace that is watched where not all may be; "" if the kind has no
	// fallback.
	fallback string
	// optional reports whether the kind leaves no gap.
	optional bool
	store    interface {
		cache.ReflectorStore
		fill(*snapshot.Objects)
		notKept() int
	}
	reflector func(namespace string) *cache.Reflector
	// meet reads the objects of the kind that others have come to need, and lacks is the gap
	// while they are unread; nil for kinds whose choice does not depend on other objects.
	meet    func(context.Context, facts.PodNeeds)
	lacks   func(facts.PodNeeds) *snapshot.Gap
	explain func(error) error
	note    func()
	// witness notes the changes of VolumeAttachments; nil for other kinds.
	witness *witness

	mu sync.Mutex
	// read reports whether the store holds all objects of the list and all changes since.
	read bool
	// allowed reports whether the kind has been watched once: a user who may list may still
	// not be allowed to watch.
	allowed bool
	// failed is the reason why the kind is not watched, if it is not.
	failed error
	// within is the namespace that is watched; "" is all of them.
	within string
	tried  bool
	// paused reports whether the API server ends each watch immediately, so that the next one
	// has to wait.
	paused bool
}

// run watches the kind until the context ends, or until it is refused.
func (f *following) run(ctx context.Context) {
	if f.follow(ctx, ""); ctx.Err() != nil || f.fallback == "" || !apierrors.IsForbidden(f.error()) {
		return
	}
	f.set(func() { f.within, f.failed, f.tried = f.fallback, nil, false })
	f.follow(ctx, f.fallback)
}

// restart is the pause before a kind is read again: all clients of an API server that has
// just come back ask it at the same time.
func restart() wait.Backoff {
	return wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.5, Steps: 5, Cap: 15 * time.Second}
}

func (f *following) follow(ctx context.Context, namespace string) {
	reflector := f.reflector(namespace)
	pause := restart()
	for ctx.Err() == nil {
		err := reflector.ListAndWatchWithContext(ctx)
		f.set(func() {
			f.tried = true
			if f.read {
				pause = restart()
			}
			if f.failed == nil {
				f.failed = err
			}
			if f.failed != nil {
				f.read = false
			}
		})
		if f.refused() {
			return
		}
		f.note()
		select {
		case <-ctx.Done():
		case <-time.After(pause.Step()):
		}
	}
}

func (f *following) set(change func()) {
	f.mu.Lock()
	change()
	f.mu.Unlock()
}

func (f *following) error() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed
}

// refused reports whether another request would change nothing. A kind that has been read
// once and is refused now may be refused by an API server that has just started: it answers
// before its authorizer knows the roles.
func (f *following) refused() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.allowed && (apierrors.IsForbidden(f.failed) || apierrors.IsNotFound(f.failed))
}

func (f *following) began() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	nextIsNamespace := f.fallback != "" && f.within == "" && !f.allowed && apierrors.IsForbidden(f.failed)
	return f.read || f.tried && !nextIsNamespace
}

// fill adds the objects to o, and returns the gap that they leave.
func (f *following) fill(o *snapshot.Objects) *snapshot.Gap {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.store.fill(o)
	switch {
	case f.failed != nil:
		gap := &snapshot.Gap{Kind: f.kind, Reason: snapshot.ReasonUnavailable, Detail: f.explain(f.failed).Error()}
		if apierrors.IsForbidden(f.failed) {
			gap.Reason = snapshot.ReasonForbidden
		}
		return gap
	case !f.read:
		return &snapshot.Gap{Kind: f.kind, Reason: snapshot.ReasonUnavailable, Detail: "not read yet"}
	case f.paused:
		return &snapshot.Gap{Kind: f.kind, Reason: snapshot.ReasonUnavailable, Detail: "the API server ends each watch as soon as it begins"}
	}
	if f.lacks != nil { // the objects that it depends on are filled in before
		if gap := f.lacks(facts.NeedsOf(o)); gap != nil {
			return gap
		}
	}
	if f.within != "" {
		return &snapshot.Gap{Kind: f.kind, Namespace: f.within, Reason: snapshot.ReasonForbidden, Detail: "they may not be watched in all namespaces"}
	}
	return nil
}

// reads reports whether the kind is watched, and in which namespace if not in all.
func (f *following) reads() (read bool, within string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.read, f.within
}

// follow makes the following of the kind.
func (k *kindOf[T, P]) follow(w *Watch) *following {
	f := &following{kind: k.kind, fallback: k.fallback(w.Cluster), optional: snapshot.ResourceOf(k.kind).Optional, explain: w.Explain, note: w.note}
	quiet := w.quiet()
	store := newStore(func(needs facts.PodNeeds) choice[P] { return k.chosen(quiet.options, needs) }, w.note,
		func() { f.set(func() { f.read, f.failed = true, nil }) })
	if seen, ok := any(&store.seen).(*func(before, now *storagev1.VolumeAttachment)); ok {
		f.witness = &witness{}
		*seen, store.began = f.witness.saw, f.witness.began
	}
	store.same = k.same
	if k.narrow != nil {
		f.meet = func(ctx context.Context, needs facts.PodNeeds) { k.meet(ctx, quiet, f, store, needs) }
		f.lacks = store.gap
	}
	f.store = store
	client := w.client[snapshot.ResourceOf(k.kind).Group()]
	f.reflector = func(namespace string) *cache.Reflector {
		lists := cache.NewFilteredListWatchFromClient(client, string(k.kind), namespace, func(o *metav1.ListOptions) { o.FieldSelector = k.choice.fields })
		source := &observed[P]{ListWatch: lists, f: f, kind: reflect.TypeFor[T]().Name(), items: newItems(k.kind, namespace)}
		source.read = func(ctx context.Context) (string, error) {
			if k.narrow != nil {
				store.widen(w.needs())
			}
			chosen, needs := store.choice()
			p := newPages[T, P](quiet, k.kind, namespace, chosen)
			p.held = store.held
			if err := p.read(ctx); err != nil {
				return "", err
			}
			store.ready(p.kept, p.seen, needs)
			return p.version, nil
		}
		return cache.NewReflectorWithOptions(source, P(new(T)), store, cache.ReflectorOptions{Name: string(k.kind)})
	}
	return f
}
