// Package memory is a storage.Interface of the API server that keeps its objects in
// memory, in place of etcd. It has no sockets and no timers, so that an API server on it
// can run in a testing/synctest bubble.
package memory

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
)

// firstRevision is the revision of an empty store. It is not 0, which means "any" in a
// list or watch.
const firstRevision = 1000

// Store holds the objects of all kinds, and one revision that counts their changes.
type Store struct {
	storage.APIObjectVersioner

	mu       sync.Mutex
	revision uint64
	tables   map[string]*table
}

// table is what there is of one kind.
type table struct {
	objects map[string]runtime.Object
	// history has every change, in order: a watch may begin at any revision.
	history  []change
	watchers map[*watcher]struct{}
}

// changed is the revision of the last change; 0 before the first.
func (t *table) changed() uint64 {
	if len(t.history) == 0 {
		return 0
	}
	return t.history[len(t.history)-1].revision
}

// change is one write. The object is nil where it was deleted, and before is nil where it
// was created.
type change struct {
	key            string
	revision       uint64
	object, before runtime.Object
}

// New returns an empty store.
func New() *Store {
	return &Store{revision: firstRevision, tables: map[string]*table{}}
}

// of is the table of the kind of the object with that key, or of a kind. The lock is held.
func (s *Store) of(key string) *table {
	kind, _, _ := strings.Cut(strings.TrimPrefix(key, "/"), "/")
	t := s.tables[kind]
	if t == nil {
		t = &table{objects: map[string]runtime.Object{}, watchers: map[*watcher]struct{}{}}
		s.tables[kind] = t
	}
	return t
}

// GetRESTOptions implements generic.RESTOptionsGetter: every registry that is made with it
// keeps its objects here.
func (s *Store) GetRESTOptions(resource schema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	codec := legacyscheme.Codecs.LegacyCodec(legacyscheme.Scheme.PrioritizedVersionsAllGroups()...)
	return generic.RESTOptions{
		StorageConfig:           storagebackend.NewDefaultConfig("/registry", codec).ForResource(resource),
		EnableGarbageCollection: true,
		DeleteCollectionWorkers: 1,
		ResourcePrefix:          resource.String(),
		Decorator: func(_ *storagebackend.ConfigForResource, _ string, _ func(runtime.Object) (string, error), empty, _ func() runtime.Object,
			_ storage.AttrFunc, _ storage.IndexerFuncs, _ *cache.Indexers) (storage.Interface, factory.DestroyFunc, error) {
			return &kind{s, empty}, func() {}, nil
		},
	}, nil
}

// kind is the part of the store that has the objects of one kind.
type kind struct {
	*Store
	// empty returns a new object of the kind.
	empty func() runtime.Object
}

var _ storage.Interface = (*kind)(nil)

// Versioner implements storage.Interface.
func (s *Store) Versioner() storage.Versioner { return s.APIObjectVersioner }

// prepare makes the object what etcd would have: the times of its metadata are whole seconds.
func (s *Store) prepare(object runtime.Object) error {
	if err := s.PrepareObjectForStorage(object); err != nil {
		return err
	}
	o, err := meta.Accessor(object)
	if err != nil {
		return err
	}
	o.SetCreationTimestamp(metav1.NewTime(o.GetCreationTimestamp().Truncate(time.Second)))
	fields := o.GetManagedFields()
	for i := range fields {
		if set := fields[i].Time; set != nil {
			set.Time = set.Truncate(time.Second)
		}
	}
	return nil
}

// Create implements storage.Interface.
func (s *Store) Create(_ context.Context, key string, object, into runtime.Object, _ uint64) error {
	object = object.DeepCopyObject()
	if err := s.prepare(object); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, exists := s.of(key).objects[key]; exists {
		return storage.NewKeyExistsError(key, 0)
	}
	written, err := s.write(key, object, nil)
	if err == nil {
		copyInto(written, into)
	}
	return err
}

// Delete implements storage.Interface.
func (s *Store) Delete(ctx context.Context, key string, into runtime.Object, pre *storage.Preconditions, validate storage.ValidateObjectFunc,
	_ runtime.Object, _ storage.DeleteOptions) error {
	for {
		object, exists := s.current(key)
		if !exists {
			return storage.NewKeyNotFoundError(key, 0)
		}
		if err := pre.Check(key, object); err != nil {
			return err
		}
		if err := validate(ctx, object.DeepCopyObject()); err != nil {
			return err
		}
		if done, err := s.replace(key, object, nil, into); done || err != nil {
			return err
		}
	}
}

// Get implements storage.Interface.
func (s *Store) Get(_ context.Context, key string, opts storage.GetOptions, into runtime.Object) error {
	object, exists := s.current(key)
	switch {
	case exists:
		copyInto(object, into)
		return nil
	case opts.IgnoreNotFound:
		return runtime.SetZeroValue(into)
	default:
		return storage.NewKeyNotFoundError(key, 0)
	}
}

// GetList implements storage.Interface. It knows no pages: a limit is ignored, which an
// API server may do, too.
func (s *Store) GetList(_ context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	pointer, err := meta.GetItemsPtr(list)
	if err != nil {
		return err
	}
	items := reflect.ValueOf(pointer).Elem()
	if items.IsNil() {
		items.Set(reflect.MakeSlice(items.Type(), 0, 0))
	}
	objects := s.of(key).objects
	for _, k := range s.keysUnder(key, opts.Recursive) {
		matches, err := opts.Predicate.Matches(objects[k])
		if err != nil {
			return err
		}
		if matches {
			items.Set(reflect.Append(items, reflect.ValueOf(objects[k].DeepCopyObject()).Elem()))
		}
	}
	return s.UpdateList(list, s.revision, "", nil)
}

// GuaranteedUpdate implements storage.Interface. An update that changes nothing keeps the
// revision, as with etcd.
func (s *Store) GuaranteedUpdate(_ context.Context, key string, into runtime.Object, ignoreNotFound bool, pre *storage.Preconditions,
	update storage.UpdateFunc, _ runtime.Object) error {
	for {
		object, exists := s.current(key)
		var response storage.ResponseMeta
		switch {
		case exists:
			revision, err := s.ObjectResourceVersion(object)
			if err != nil {
				return err
			}
			response.ResourceVersion = revision
		case ignoreNotFound:
			object = nil
		default:
			return storage.NewKeyNotFoundError(key, 0)
		}
		before := object
		if before == nil {
			before = reflect.New(reflect.TypeOf(into).Elem()).Interface().(runtime.Object)
		}
		if err := pre.Check(key, before); err != nil {
			return err
		}
		after, _, err := update(before.DeepCopyObject(), response)
		if err != nil {
			return err
		}
		after = after.DeepCopyObject()
		if err := s.prepare(after); err != nil {
			return err
		}
		if exists {
			if err := s.UpdateObject(after, response.ResourceVersion); err != nil {
				return err
			}
			if equality.Semantic.DeepEqual(object, after) {
				copyInto(object, into)
				return nil
			}
		}
		if done, err := s.replace(key, object, after, into); done || err != nil {
			return err
		}
	}
}

// Exchange writes what next makes of the object, without a word from its registry, and
// returns a copy of it as it is now; nil where there is no such object or next
// returns nil. next must change nothing of what it gets.
func (s *Store) Exchange(key string, next func(runtime.Object) runtime.Object) runtime.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, exists := s.of(key).objects[key]
	if !exists {
		return nil
	}
	after := next(before)
	if after == nil {
		return nil
	}
	written, err := s.write(key, after, before)
	if err != nil {
		return nil
	}
	return written.DeepCopyObject()
}

// current returns the object, which must not be changed.
func (s *Store) current(key string) (runtime.Object, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	object, exists := s.of(key).objects[key]
	return object, exists
}

// replace writes after in place of before, unless somebody has written in between: then it
// reports false, and the caller tries again. Either may be nil.
func (s *Store) replace(key string, before, after, into runtime.Object) (done bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of(key).objects[key] != before {
		return false, nil
	}
	written, err := s.write(key, after, before)
	if err == nil {
		copyInto(written, into)
	}
	return true, err
}

// write makes one change with the next revision and tells the watchers. It returns the
// object as it is now, or as it was last. The lock is held.
func (s *Store) write(key string, object, before runtime.Object) (runtime.Object, error) {
	last := object
	if object == nil { // a deletion has a revision of its own
		last = before.DeepCopyObject()
		before = last
	}
	if err := s.UpdateObject(last, s.revision+1); err != nil {
		return nil, err
	}
	s.revision++
	t := s.of(key)
	if object == nil {
		delete(t.objects, key)
	} else {
		t.objects[key] = object
	}
	c := change{key, s.revision, object, before}
	t.history = append(t.history, c)
	for w := range t.watchers {
		w.tell(c)
	}
	return last, nil
}

// keysUnder returns the keys below a key, sorted. The lock is held.
func (s *Store) keysUnder(key string, recursive bool) []string {
	var keys []string
	for k := range s.of(key).objects {
		if isUnder(k, key, recursive) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

func isUnder(k, key string, recursive bool) bool {
	if k == key {
		return true
	}
	folder := strings.TrimSuffix(key, "/")
	return recursive && len(k) > len(folder) && k[len(folder)] == '/' && strings.HasPrefix(k, folder)
}

// Changed is the revision of the last change of an object of the kind.
func (s *Store) Changed(kind schema.GroupResource) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of(kind.String()).changed()
}

// copyInto makes into a copy of the object; into may be nil.
func copyInto(object, into runtime.Object) {
	if into != nil {
		reflect.ValueOf(into).Elem().Set(reflect.ValueOf(object.DeepCopyObject()).Elem())
	}
}

// Revision is the revision of the last change.
func (s *Store) Revision() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revision
}

// GetCurrentResourceVersion implements storage.Interface.
func (s *Store) GetCurrentResourceVersion(context.Context) (uint64, error) { return s.Revision(), nil }

// Stats implements storage.Interface.
func (s *Store) Stats(context.Context) (storage.Stats, error) { return storage.Stats{}, nil }

// ReadinessCheck implements storage.Interface.
func (s *Store) ReadinessCheck() error { return nil }

// RequestWatchProgress implements storage.Interface.
func (s *Store) RequestWatchProgress(context.Context) error { return nil }

// EnableResourceSizeEstimation implements storage.Interface.
func (s *Store) EnableResourceSizeEstimation(storage.KeysFunc) error { return nil }

// CompactRevision implements storage.Interface: nothing is ever compacted.
func (s *Store) CompactRevision() int64 { return 0 }
