package cluster

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// lister is the List method of a typed client.
type lister[L metav1.ListInterface] func(context.Context, metav1.ListOptions) (L, error)

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

// from makes the source of a kind. Each object is trimmed as it comes, so that
// no more than a page is ever held in full.
func from[T any, P interface {
	*T
	metav1.Object
}, L metav1.ListInterface](
	c *Cluster, kind snapshot.Kind, in func(namespace string) lister[L], items func(L) []T, into *[]P, choose choice[P],
) source {
	read := func(ctx context.Context, namespace string) (int, error) {
		list := in(namespace)
		options := metav1.ListOptions{Limit: c.options.PageSize, FieldSelector: choose.fields}
		restarted := false
		*into = nil
		for {
			// No resourceVersion is given: the list is then as new as the call.
			// "0" would be cheaper and may be answered from a cache that lags,
			// and pods that are older than the attachments read before them
			// make an attachment look unwanted.
			page, err := list(ctx, options)
			if apierrors.IsResourceExpired(err) && options.Continue != "" && !restarted {
				// The pages so far are of a state that is no longer known. A
				// list is from one moment or it proves nothing: read it anew.
				restarted, options.Continue, *into = true, "", nil
				continue
			}
			if err != nil {
				return len(*into), err
			}
			read := items(page)
			for i := range read {
				if choose.keep != nil && !choose.keep(&read[i]) {
					continue
				}
				object := P(new(T)) // of its own, so that it does not hold the page
				*object = read[i]
				snapshot.Trim(object)
				*into = append(*into, object)
			}
			c.progress(kind, len(*into))
			if options.Continue = page.GetContinue(); options.Continue == "" {
				return len(*into), nil
			}
		}
	}
	return source{kind: kind, read: read}
}

// choice narrows a list to what is wanted.
type choice[P any] struct {
	// fields is a field selector: what it leaves out is not sent.
	fields string
	// keep, where it is not nil, is asked for each object.
	keep func(P) bool
}

// everywhere is the lister of a kind that has no namespaces.
func everywhere[L metav1.ListInterface](list lister[L]) func(string) lister[L] {
	return func(string) lister[L] { return list }
}

func (s source) orIn(namespace string) source {
	s.fallback = namespace
	return s
}

func (s source) onlyIfReadable() source {
	s.optional = true
	return s
}
