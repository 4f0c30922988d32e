package cluster

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// source is one kind and how to read it.
type source struct {
	kind snapshot.Kind
	// fallback is the namespace to read where the kind may not be listed in all
	// of them; "" where there is none.
	fallback string
	// optional kinds leave no gap.
	optional bool
	// read reads the kind in one namespace, or in all of them for "". It keeps
	// what it has read when it fails, and says how much that is.
	read func(ctx context.Context, namespace string) (objects int, err error)
}

// object is an API object that its generated code decodes from protobuf.
type object interface {
	metav1.Object
	Unmarshal([]byte) error
}

// choice narrows a list to what is wanted.
type choice[P any] struct {
	// fields is a field selector: what it leaves out is not sent.
	fields string
	// keep, where it is not nil, is asked for each object.
	keep func(P) bool
	// peek, where it is not nil, decodes no more than what keep looks at. An
	// object of which it cannot even read that is decoded in full. What it gives
	// is looked at before the next call and not kept.
	peek func(raw []byte) (P, bool)
	// part, where it is not nil, says what of an object is decoded, if it could be
	// peeked at; nil for what could not. Otherwise all is that snapshot.Trim leaves.
	part func(peeked P) *part
}

func (c choice[P]) wants(o P) bool { return c.keep == nil || c.keep(o) }

// from makes the source of a kind. Each object is decoded and trimmed as it
// comes, so that no more than one is ever held in full.
func from[T any, P interface {
	*T
	object
}](c *Cluster, kind snapshot.Kind, client rest.Interface, into *[]P, choose choice[P]) source {
	read := func(ctx context.Context, namespace string) (int, error) {
		p := &pages[T, P]{Cluster: c, kind: kind, client: client, namespace: namespace, choice: choose, sharer: snapshot.NewSharer()}
		err := p.read(ctx)
		*into = p.kept
		return p.seen, err
	}
	return source{kind: kind, read: read}
}

// together is of how many objects the memory is taken at once.
const together = 32

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
	// seen counts those that are not kept, too.
	seen    int
	sharer  *snapshot.Sharer
	reduced []byte
	// room is for the objects to come: one by one they would take up to a tenth
	// more, for what the allocator rounds up to.
	room []T
}

func (p *pages[T, P]) read(ctx context.Context) error {
	// No resourceVersion is given: the list is then as new as the call. "0"
	// would be cheaper for old API servers and may be answered from a cache
	// that lags, and pods that are older than the attachments read before them
	// make an attachment look unwanted.
	options := metav1.ListOptions{Limit: p.options.PageSize, FieldSelector: p.fields}
	restarted, again := false, false
	for {
		kept, seen := p.kept, p.seen
		list, err := p.page(ctx, options)
		var cut *cutError
		switch {
		case err == nil:
			p.progress(p.kind, p.seen)
			if options.Continue = list.Continue; options.Continue == "" {
				return nil
			}
			again = false
		case apierrors.IsResourceExpired(err) && options.Continue != "" && !restarted:
			// The pages so far are of a state that is no longer known. A list is
			// from one moment or it proves nothing: read it anew.
			restarted, options.Continue = true, ""
			p.kept, p.seen = nil, 0
		case errors.As(err, &cut) && ctx.Err() == nil && !again:
			// A connection that breaks in the middle of megabytes is no news; one
			// that does so twice is.
			again = true
			p.kept, p.seen = kept, seen
		default:
			p.kept, p.seen = kept, seen
			return err
		}
	}
}

// cutError is an answer that began well.
type cutError struct{ error }

func (e *cutError) Unwrap() error { return e.error }

func (p *pages[T, P]) page(ctx context.Context, options metav1.ListOptions) (metav1.ListMeta, error) {
	body, err := p.client.Get().NamespaceIfScoped(p.namespace, p.namespace != "").Resource(string(p.kind)).
		VersionedParams(&options, scheme.ParameterCodec).Stream(ctx)
	if err != nil {
		return metav1.ListMeta{}, err
	}
	defer func() { _ = body.Close() }() // it was read to its end, or is of no use
	list, err := listPage(body, p.take, func(o runtime.Object) error {
		typed, ok := o.(P)
		if !ok {
			return fmt.Errorf("a list of %s with a %T in it", p.kind, o)
		}
		p.add(typed)
		return nil
	})
	if err != nil {
		return list, &cutError{err}
	}
	return list, nil
}

// take decodes one object if it is wanted.
func (p *pages[T, P]) take(raw []byte) error {
	var peeked P
	if p.peek != nil {
		var ok bool
		if peeked, ok = p.peek(raw); !ok {
			peeked = nil
		} else if !p.wants(peeked) {
			p.seen++
			return nil
		}
	}
	part := trimmed[p.kind]
	if p.part != nil {
		part = p.part(peeked)
	}
	pod, _ := any(peeked).(*corev1.Pod)
	if reduced, ok := part.of(p.reduced[:0], raw, pod); ok {
		raw, p.reduced = reduced, reduced
	}
	if len(p.room) == 0 {
		p.room = make([]T, together)
	}
	p.room[0] = *new(T) // there may be one in it that was not wanted
	o := P(&p.room[0])
	if err := o.Unmarshal(raw); err != nil {
		return err
	}
	if p.add(o) {
		p.room = p.room[1:]
	}
	return nil
}

func (p *pages[T, P]) add(o P) (kept bool) {
	p.seen++
	if !p.wants(o) {
		return false
	}
	snapshot.Trim(o)
	p.sharer.Share(o)
	p.kept = append(p.kept, o)
	return true
}

func (s source) orIn(namespace string) source {
	s.fallback = namespace
	return s
}

func (s source) onlyIfReadable() source {
	s.optional = true
	return s
}
