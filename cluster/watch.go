package cluster

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// heartbeat bounds how long an API server may take to say that it is there.
const heartbeat = 5 * time.Second

// Watch follows a cluster: it lists every kind once and watches it from then on.
// While a kind is not followed, it is a gap in what Snapshot gives: neither
// what is there nor what is absent can be trusted then.
type Watch struct {
	*Cluster
	kinds   []*following
	now     ticking
	changed chan struct{}
	done    sync.WaitGroup
	version string
}

// Watch begins to follow the cluster until the context ends. An error means that
// there is nobody to follow.
func (c *Cluster) Watch(ctx context.Context) (*Watch, error) {
	w := &Watch{Cluster: c, changed: make(chan struct{}, 1)}
	ctx = context.WithValue(ctx, clockKey{}, &w.now)
	var err error
	if w.version, err = c.version(ctx); err != nil {
		return nil, c.explain(err)
	}
	core, storage, apps := c.client.core, c.client.storage, c.client.apps
	coordination := c.client.coordination
	namespace := c.options.Namespace
	// As in Snapshot; but what is of use among the pods changes with the nodes,
	// so all are kept and chosen from.
	follow(w, snapshot.VolumeAttachments, storage, choice[*storagev1.VolumeAttachment]{}, listOf[*storagev1.VolumeAttachment]{into: func(o *snapshot.Objects, l []*storagev1.VolumeAttachment) { o.VolumeAttachments = l }})
	follow(w, snapshot.Nodes, core, choice[*corev1.Node]{}, listOf[*corev1.Node]{into: func(o *snapshot.Objects, l []*corev1.Node) { o.Nodes = l }})
	follow(w, snapshot.CSINodes, storage, choice[*storagev1.CSINode]{}, listOf[*storagev1.CSINode]{into: func(o *snapshot.Objects, l []*storagev1.CSINode) { o.CSINodes = l }})
	follow(w, snapshot.CSIDrivers, storage, choice[*storagev1.CSIDriver]{}, listOf[*storagev1.CSIDriver]{into: func(o *snapshot.Objects, l []*storagev1.CSIDriver) { o.CSIDrivers = l }})
	follow(w, snapshot.StorageClasses, storage, choice[*storagev1.StorageClass]{}, listOf[*storagev1.StorageClass]{into: func(o *snapshot.Objects, l []*storagev1.StorageClass) { o.StorageClasses = l }})
	follow(w, snapshot.Volumes, core, choice[*corev1.PersistentVolume]{}, listOf[*corev1.PersistentVolume]{into: func(o *snapshot.Objects, l []*corev1.PersistentVolume) { o.Volumes = l }})
	follow(w, snapshot.Claims, core, choice[*corev1.PersistentVolumeClaim]{}, listOf[*corev1.PersistentVolumeClaim]{into: func(o *snapshot.Objects, l []*corev1.PersistentVolumeClaim) { o.Claims = l }}).fallback = namespace
	follow(w, snapshot.Leases, coordination, choice[*coordinationv1.Lease]{keep: keepLease}, listOf[*coordinationv1.Lease]{same: sameHolder, into: func(o *snapshot.Objects, l []*coordinationv1.Lease) { o.Leases = l }}).fallback = metav1.NamespaceSystem
	follow(w, snapshot.Events, core, choice[*corev1.Event]{fields: notFrequent(), keep: keepEvent}, listOf[*corev1.Event]{into: func(o *snapshot.Objects, l []*corev1.Event) { o.Events = l }}).fallback = namespace
	follow(w, snapshot.Deployments, apps, choice[*appsv1.Deployment]{}, listOf[*appsv1.Deployment]{into: func(o *snapshot.Objects, l []*appsv1.Deployment) { o.Deployments = l }}).optionalIn(namespace)
	follow(w, snapshot.Pods, core, choice[*corev1.Pod]{}, listOf[*corev1.Pod]{into: func(o *snapshot.Objects, l []*corev1.Pod) { o.Pods = l }}).fallback = namespace
	for _, f := range w.kinds {
		w.done.Go(func() { f.run(ctx) })
	}
	return w, nil
}

// Changed receives once after something has changed that a report could hang
// on, however much it is.
func (w *Watch) Changed() <-chan struct{} { return w.changed }

func (w *Watch) note() {
	select {
	case w.changed <- struct{}{}:
	default: // whoever looks has not looked yet
	}
}

// Wait returns once nothing is followed any more, after the context's end.
func (w *Watch) Wait() { w.done.Wait() }

// Began says whether every kind has been read once, or could not be.
func (w *Watch) Began() bool {
	return !slices.ContainsFunc(w.kinds, func(f *following) bool { return !f.began() })
}

// Beat asks the API server whether it is there, which also tells its time and
// its release. It reads no object.
func (w *Watch) Beat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, clockKey{}, &w.now), heartbeat)
	defer cancel()
	v, err := w.Cluster.version(ctx)
	if err != nil {
		return w.explain(err)
	}
	if v != "" { // it answers, but not this: what it said before still holds
		w.version = v
	}
	return nil
}

// Snapshot is the cluster as it is followed now; unanswered is why the API
// server does not answer, if it does not: then all of it is a gap.
func (w *Watch) Snapshot(unanswered error) (*snapshot.Snapshot, error) {
	now := w.now.read()
	if now.IsZero() {
		return nil, fmt.Errorf("no answer of the API server at %s has a date, and no age can be told without", w.server)
	}
	var o snapshot.Objects
	var gaps []snapshot.Gap
	for _, f := range w.kinds { // pods last, as when they are read
		gap := f.fill(&o)
		if unanswered != nil {
			gap = &snapshot.Gap{Kind: f.kind, Reason: snapshot.ReasonUnavailable, Detail: unanswered.Error()}
		}
		if gap != nil && !f.optional {
			gaps = append(gaps, *gap)
		}
	}
	ofUse := diagnose.PodsOfUse(&o)
	o.Pods = slices.DeleteFunc(o.Pods, func(pod *corev1.Pod) bool {
		return !ofUse(pod) && (w.options.Asked == nil || !w.options.Asked(pod))
	})
	from := snapshot.Source{Context: w.options.Context, Server: w.server, ServerVersion: w.version}
	return snapshot.New(now, from, o, gaps), nil
}

// ticking is the API server's clock: the last date that it sent, and the time
// that went by since.
type ticking struct {
	mu       sync.Mutex
	date, at time.Time
}

func (c *ticking) see(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// A date has no fractions: one that is a little earlier than the time that
	// went by is the same second once more.
	const late = 2 * time.Second
	now := time.Now()
	if ahead := c.date.Add(now.Sub(c.at)).Sub(t); c.date.IsZero() || ahead < 0 || ahead > late {
		c.date, c.at = t, now
	}
}

func (c *ticking) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.date.IsZero() {
		return time.Time{}
	}
	return c.date.Add(time.Since(c.at))
}

// following is one kind that is followed.
type following struct {
	kind snapshot.Kind
	// fallback is the namespace to follow where not all may be; "" is none.
	fallback string
	// optional kinds leave no gap.
	optional bool
	store    interface {
		cache.ReflectorStore
		fill(*snapshot.Objects)
	}
	reflector func(namespace string) *cache.Reflector
	explain   func(error) error
	note      func()

	mu sync.Mutex
	// read says that the store holds all that there was when the list was read,
	// and that what came since is in it.
	read bool
	// allowed says that it has been read once.
	allowed bool
	// failed is why it is not followed, if it is not.
	failed error
	// within is the namespace that is followed; "" is all of them.
	within string
	tried  bool
}

func (f *following) optionalIn(namespace string) { f.optional, f.fallback = true, namespace }

// run follows the kind until the context ends, or until it is refused.
func (f *following) run(ctx context.Context) {
	if f.follow(ctx, ""); ctx.Err() != nil || f.fallback == "" || !apierrors.IsForbidden(f.error()) {
		return
	}
	f.set(func() { f.within, f.failed, f.tried = f.fallback, nil, false })
	f.follow(ctx, f.fallback)
}

// restart is how long to wait before a kind is read anew: an API server that has
// just come back has everybody at its door.
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

// refused says that to ask again would change nothing. What has been read once
// and is refused now may be refused by an API server that has just started: it
// answers before its authorizer knows the roles.
func (f *following) refused() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.allowed && (apierrors.IsForbidden(f.failed) || apierrors.IsNotFound(f.failed))
}

func (f *following) began() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	nextIsNamespace := f.fallback != "" && f.within == "" && apierrors.IsForbidden(f.failed)
	return f.read || f.tried && !nextIsNamespace
}

// fill gives the objects, and the gap that they leave.
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
	case f.within != "":
		return &snapshot.Gap{Kind: f.kind, Namespace: f.within, Reason: snapshot.ReasonForbidden, Detail: "they may not be watched in all namespaces"}
	}
	return nil
}

// listOf is what is particular about the store of a kind.
type listOf[P any] struct {
	into func(*snapshot.Objects, []P)
	// same says that two versions differ in nothing but the time that goes by,
	// after which a report is made anyway; nil is for kinds that have no such
	// changes.
	same func(before, now P) bool
}

func follow[T any, P interface {
	*T
	object
	runtime.Object
}](w *Watch, kind snapshot.Kind, client rest.Interface, choose choice[P], list listOf[P]) *following {
	f := &following{kind: kind, explain: w.explain, note: w.note}
	store := &store[P]{choice: choose, listOf: list, note: w.note, sharer: snapshot.NewSharer(), objects: map[string]P{}, replaced: func() { f.set(func() { f.read, f.allowed, f.failed = true, true, nil }) }}
	f.store = store
	f.reflector = func(namespace string) *cache.Reflector {
		lists := cache.NewFilteredListWatchFromClient(client, string(kind), namespace, func(o *metav1.ListOptions) { o.FieldSelector = choose.fields })
		return cache.NewReflectorWithOptions(&observed{ListWatch: lists, f: f}, P(new(T)), store, cache.ReflectorOptions{Name: string(kind)})
	}
	w.kinds = append(w.kinds, f)
	return f
}

// observed notes what goes wrong between the reflector, which retries in
// silence, and the API server.
type observed struct {
	*cache.ListWatch
	f *following
}

func (o *observed) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	if err := o.f.error(); apierrors.IsForbidden(err) {
		return nil, err // what may not be watched need not be listed
	}
	list, err := o.ListWatch.ListWithContext(ctx, options)
	return list, o.noted(ctx, err)
}

func (o *observed) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	w, err := o.ListWatch.WatchWithContext(ctx, options)
	if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		return w, err // an API server that cannot stream a list: it is asked for one next
	}
	return w, o.noted(ctx, err)
}

// noted gives the reflector, for what it would retry by itself, an error that it
// does not know: what was missed meanwhile is then read anew, and what is not
// followed is said at once.
func (o *observed) noted(ctx context.Context, err error) error {
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

// store keeps the objects of a kind for the reflector.
type store[P object] struct {
	choice[P]
	listOf[P]
	note     func()
	replaced func()
	sharer   *snapshot.Sharer // of the reflector, which calls from one goroutine

	mu      sync.Mutex
	objects map[string]P
}

// keepShared makes ready to be kept what has just come: afterwards it shares with others
// what earlier snapshots have too, and nobody may write to it.
func (s *store[P]) keepShared(o P) {
	snapshot.Trim(o)
	s.sharer.Share(o)
}

func (s *store[P]) Add(object any) error { return s.put(object) }

func (s *store[P]) Update(object any) error { return s.put(object) }

func (s *store[P]) put(object any) error {
	o, ok := object.(P)
	if !ok {
		return fmt.Errorf("an unexpected %T", object)
	}
	key := cache.MetaObjectToName(o).String()
	s.mu.Lock()
	before, known := s.objects[key]
	switch {
	case !s.wants(o):
		delete(s.objects, key)
	default:
		s.keepShared(o)
		s.objects[key] = o
	}
	_, kept := s.objects[key]
	s.mu.Unlock()
	if known != kept || kept && (s.same == nil || !s.same(before, o)) {
		s.note()
	}
	return nil
}

func (s *store[P]) Delete(object any) error {
	if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	o, ok := object.(P)
	if !ok {
		return fmt.Errorf("an unexpected %T", object)
	}
	s.mu.Lock()
	delete(s.objects, cache.MetaObjectToName(o).String())
	s.mu.Unlock()
	s.note()
	return nil
}

func (s *store[P]) Replace(list []any, _ string) error {
	objects := make(map[string]P, len(list))
	for _, item := range list {
		o, ok := item.(P)
		if !ok {
			return fmt.Errorf("an unexpected %T", item)
		}
		if s.wants(o) {
			s.keepShared(o)
			objects[cache.MetaObjectToName(o).String()] = o
		}
	}
	s.mu.Lock()
	s.objects = objects
	s.mu.Unlock()
	s.replaced()
	s.note()
	return nil
}

// Resync has nothing to do: nobody waits for an object that has not changed.
func (s *store[P]) Resync() error { return nil }

// Transformer trims what arrives before it is collected, so that a list is
// never held in full.
func (s *store[P]) Transformer() cache.TransformFunc {
	return func(object any) (any, error) {
		if o, ok := object.(P); ok {
			snapshot.Trim(o)
		}
		return object, nil
	}
}

// fill gives the objects over; nobody writes to them any more.
func (s *store[P]) fill(o *snapshot.Objects) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]P, 0, len(s.objects))
	for _, object := range s.objects {
		list = append(list, object)
	}
	s.into(o, list)
}

// sameHolder is true of a lease that was renewed and of nothing else: in a large
// cluster that happens hundreds of times in a second.
func sameHolder(before, now *coordinationv1.Lease) bool {
	a, b := before.Spec, now.Spec
	a.RenewTime, b.RenewTime = nil, nil
	return before.UID == now.UID && reflect.DeepEqual(a, b)
}
