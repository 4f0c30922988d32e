package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
)

// watcher sends the changes below a key to one client. Its queue has no bound, so that a
// slow client never holds up a write.
type watcher struct {
	store     *Store
	key       string
	recursive bool
	predicate storage.SelectionPredicate

	mu     sync.Mutex
	queue  []watch.Event
	wake   chan struct{}
	done   chan struct{}
	once   sync.Once
	events chan watch.Event
}

// Watch implements storage.Interface.
func (k *kind) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	var from uint64
	if opts.ResourceVersion != "" {
		var err error
		if from, err = strconv.ParseUint(opts.ResourceVersion, 10, 64); err != nil {
			return nil, fmt.Errorf("resourceVersion %q: %w", opts.ResourceVersion, err)
		}
	}
	w := &watcher{store: k.Store, key: key, recursive: opts.Recursive, predicate: opts.Predicate,
		wake: make(chan struct{}, 1), done: make(chan struct{}), events: make(chan watch.Event)}
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.of(key)
	initial := opts.SendInitialEvents != nil && *opts.SendInitialEvents
	if initial || from == 0 {
		for _, key := range k.keysUnder(key, opts.Recursive) {
			w.tell(change{key: key, object: t.objects[key]})
		}
	} else {
		after, _ := slices.BinarySearchFunc(t.history, from+1, func(c change, revision uint64) int { return cmp.Compare(c.revision, revision) })
		for _, c := range t.history[after:] {
			w.tell(c)
		}
	}
	if initial {
		bookmark, err := k.endOfInitialEvents()
		if err != nil {
			return nil, err
		}
		w.put(watch.Event{Type: watch.Bookmark, Object: bookmark})
	}
	t.watchers[w] = struct{}{}
	go w.run(ctx)
	return w, nil
}

// endOfInitialEvents is the bookmark behind the objects that there were at the beginning of
// a watch. The lock is held.
func (k *kind) endOfInitialEvents() (runtime.Object, error) {
	bookmark := k.empty()
	if err := k.UpdateObject(bookmark, k.revision); err != nil {
		return nil, err
	}
	object, err := meta.Accessor(bookmark)
	if err != nil {
		return nil, err
	}
	object.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	return bookmark, nil
}

// ResultChan implements watch.Interface.
func (w *watcher) ResultChan() <-chan watch.Event { return w.events }

// Stop implements watch.Interface.
func (w *watcher) Stop() { w.once.Do(func() { close(w.done) }) }

// tell queues what the change is to this client: an object that begins to match its
// selectors is added, one that no longer does is deleted.
func (w *watcher) tell(c change) {
	if !isUnder(c.key, w.key, w.recursive) {
		return
	}
	switch now, before := w.matches(c.object), w.matches(c.before); {
	case now && !before:
		w.put(watch.Event{Type: watch.Added, Object: c.object.DeepCopyObject()})
	case now:
		w.put(watch.Event{Type: watch.Modified, Object: c.object.DeepCopyObject()})
	case before:
		last := c.before.DeepCopyObject()
		if err := w.store.UpdateObject(last, c.revision); err != nil {
			w.put(watch.Event{Type: watch.Error, Object: &metav1.Status{Status: metav1.StatusFailure, Message: err.Error()}})
			return
		}
		w.put(watch.Event{Type: watch.Deleted, Object: last})
	}
}

func (w *watcher) matches(object runtime.Object) bool {
	if object == nil {
		return false
	}
	matches, err := w.predicate.Matches(object)
	return err == nil && matches
}

func (w *watcher) put(e watch.Event) {
	w.mu.Lock()
	w.queue = append(w.queue, e)
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// run hands the events over until the watch is stopped.
func (w *watcher) run(ctx context.Context) {
	defer func() {
		w.store.mu.Lock()
		delete(w.store.of(w.key).watchers, w)
		w.store.mu.Unlock()
		close(w.events)
	}()
	for {
		w.mu.Lock()
		queue := w.queue
		w.queue = nil
		w.mu.Unlock()
		for _, e := range queue {
			select {
			case w.events <- e:
			case <-w.done:
				return
			case <-ctx.Done():
				return
			}
		}
		if len(queue) > 0 {
			continue
		}
		select {
		case <-w.wake:
		case <-w.done:
			return
		case <-ctx.Done():
			return
		}
	}
}
