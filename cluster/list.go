package cluster

import (
	"bufio"
	"context"
	"errors"
	"reflect"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/intern"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/trim"
)

// source is one kind with the way to read it.
type source struct {
	kind snapshot.Kind
	// fallback is the namespace that is read where the kind may not be listed in all; "" if
	// the kind has no fallback.
	fallback string
	// optional reports whether the kind leaves no gap.
	optional bool
	// read reads the kind in one namespace, or in all of them for "". Where it fails, it
	// keeps the objects that it has read, and returns their number.
	read func(ctx context.Context, namespace string) (objects int, err error)
}

// object is an API object that its generated code decodes from protobuf.
type object interface {
	metav1.Object
	Unmarshal([]byte) error
}

// choice narrows a list to the wanted objects.
type choice[P any] struct {
	// fields is a field selector: objects that it excludes are not sent.
	fields string
	// since, where it is not "", is the oldest version that the list may have: the list may
	// then come from the API server's cache.
	since string
	// keep, where it is not nil, reports for each object whether it is kept.
	keep func(P) bool
	// peek, where it is not nil, decodes only the fields that keep looks at. If it fails, the
	// object is decoded in full. The result is valid until the next call.
	peek func(raw []byte) (P, bool)
	// spool, where it is not nil, takes the objects in place of the list.
	spool *snapshot.Spool
}

func (c choice[P]) wants(o P) bool { return c.keep == nil || c.keep(o) }

// from makes the source of a kind. Each object is decoded and trimmed as it
// comes, so that no more than one is ever held in full.
func from[T any, P interface {
	*T
	object
}](c *Cluster, kind snapshot.Kind, into *[]P, choose choice[P]) source {
	read := func(ctx context.Context, namespace string) (int, error) {
		p := newPages[T, P](c, kind, namespace, choose)
		err := p.read(ctx)
		*into = p.kept
		return p.seen, err
	}
	return source{kind: kind, read: read}
}

// pages is the reading of one list.
type pages[T any, P interface {
	*T
	object
}] struct {
	*Cluster
	kind      snapshot.Kind
	client    rest.Interface
	namespace string
	choice[P]

	kept []P
	// held, where it is not nil, returns the same object as it is already held, or nil.
	held func(P) P
	// version is the resourceVersion of the list.
	version string
	// seen counts all objects, also those that are not kept.
	seen   int
	sharer *intern.Interner
	// items refuses objects that do not belong in the list; nil accepts all.
	items *items
	// layout describes the kind; nil until an object is peeked at.
	layout *layout
	// spare is memory for the next object.
	spare P
}

func newPages[T any, P interface {
	*T
	object
}](c *Cluster, kind snapshot.Kind, namespace string, choose choice[P]) *pages[T, P] {
	return &pages[T, P]{Cluster: c, kind: kind, client: c.lists[snapshot.ResourceOf(kind).Group()], namespace: namespace, choice: choose,
		sharer: intern.New(), items: newItems(kind, namespace)}
}

func (p *pages[T, P]) read(ctx context.Context) error {
	// No resourceVersion is given: the list is then as new as the call. "0"
	// would be cheaper for old API servers and may be answered from a cache
	// that lags, and pods that are older than the attachments read before them
	// make an attachment look unwanted.
	options := metav1.ListOptions{Limit: p.limit(), FieldSelector: p.fields}
	if p.since != "" {
		options.ResourceVersion, options.ResourceVersionMatch = p.since, metav1.ResourceVersionMatchNotOlderThan
	}
	p.spool.Reset()
	restarted, again := false, false
	var follows chain
	for {
		kept, seen := p.kept, p.seen
		list, err := p.page(ctx, options)
		if err == nil {
			err = follows.next(list, p.seen-seen)
		}
		var cut *cutError
		switch {
		case err == nil:
			p.progress(p.kind, p.seen)
			if err := p.spool.EndPage(); err != nil {
				return err
			}
			p.version = list.ResourceVersion
			if options.Continue = list.Continue; options.Continue == "" {
				return nil
			}
			again = false
		case apierrors.IsResourceExpired(err) && options.Continue != "" && !restarted:
			// The API server no longer knows the state of the pages so far. A list that is
			// not from one moment proves nothing: read it again.
			restarted, options.Continue = true, ""
			p.kept, p.seen, follows = nil, 0, chain{}
			p.items.rewind(0)
			p.spool.Reset()
		case errors.As(err, &cut) && !again && ctx.Err() == nil && !errors.Is(err, context.DeadlineExceeded):
			// A connection that breaks once in the middle of megabytes is ordinary; one that
			// does so twice is reported.
			again = true
			p.kept, p.seen = kept, seen
			p.items.rewind(seen)
			p.spool.DropPage()
		default:
			p.kept, p.seen = kept, seen
			p.spool.DropPage()
			return err
		}
	}
}

// readers are those of pages that have been read.
var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, pageBuffer) }}

// cutError is the error of an answer that broke off after a good beginning. Another request
// may help.
type cutError struct{ error }

func (e *cutError) Unwrap() error { return e.error }

func (p *pages[T, P]) page(ctx context.Context, options metav1.ListOptions) (metav1.ListMeta, error) {
	// A request may be sent several times; the time-out is for all attempts together.
	ctx, cancel := context.WithTimeout(ctx, p.wait)
	defer cancel()
	body, err := p.client.Get().NamespaceIfScoped(p.namespace, p.namespace != "").Resource(string(p.kind)).
		VersionedParams(&options, scheme.ParameterCodec).Stream(ctx)
	if err != nil {
		return metav1.ListMeta{}, err
	}
	defer func() { _ = body.Close() }() // it was read to its end, or is useless
	in := readers.Get().(*bufio.Reader)
	in.Reset(body)
	defer func() {
		in.Reset(nil)
		readers.Put(in)
	}()
	version := p.client.APIVersion()
	list, err := listPage(in, version.WithKind(reflect.TypeFor[T]().Name()+"List"), p.take, func(text []byte) error {
		return p.takeJSON(text, version)
	})
	if err != nil && !isLimit(err) {
		return list, &cutError{err}
	}
	return list, err
}

// take decodes one object if it is wanted.
func (p *pages[T, P]) take(raw []byte) error {
	if p.peek != nil {
		if p.layout == nil {
			p.layout = layoutOf(reflect.TypeFor[T]())
		}
		// An object that the decoder would refuse must not be skipped: its error would be
		// lost.
		if peeked, ok := p.peek(raw); ok && !p.wants(peeked) && p.layout.accepts(raw) {
			p.seen++
			return p.items.take(peeked)
		}
	}
	o := p.spare
	if o == nil {
		o = new(T)
	} else {
		*o = *new(T) // one that was not wanted
	}
	if err := o.Unmarshal(raw); err != nil {
		return malformed("an object of the list cannot be decoded: %w", err)
	}
	kept, err := p.add(o)
	if p.spare = o; kept {
		p.spare = nil
	}
	return err
}

// takeJSON decodes one object in JSON.
func (p *pages[T, P]) takeJSON(text []byte, version schema.GroupVersion) error {
	var kind metav1.TypeMeta
	o := P(new(T))
	if err := errors.Join(decodeJSON(text, &kind), decodeJSON(text, o)); err != nil {
		return malformed("an object of the list cannot be decoded: %w", err)
	}
	// In a list, objects may omit their kind.
	if want := version.WithKind(reflect.TypeFor[T]().Name()); (kind != metav1.TypeMeta{}) && kind.GroupVersionKind() != want {
		return foreign(want, kind.GroupVersionKind())
	}
	_, err := p.add(o)
	return err
}

func (p *pages[T, P]) add(o P) (kept bool, err error) {
	p.seen++
	if err := p.items.take(o); err != nil || !p.wants(o) {
		return false, err
	}
	trim.Object(o)
	if p.spool != nil {
		pod, _ := any(o).(*corev1.Pod)
		return false, p.spool.Add(pod)
	}
	if err := p.spent.keep(int64(reflect.TypeFor[T]().Size())); err != nil {
		return false, err
	}
	if p.held != nil {
		if held := p.held(o); held != nil {
			p.kept = append(p.kept, held)
			return false, nil
		}
	}
	p.sharer.Share(o)
	p.kept = append(p.kept, o)
	return true, nil
}
