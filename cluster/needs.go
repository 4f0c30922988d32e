package cluster

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	fieldselector "k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// A few pods matter only because of other objects (facts.PodNeeds). Pods that do not matter
// are not held, so that a pod which comes to matter because of another object is read at that
// time: first the store begins to keep what the watch reports of such pods, then they are
// listed, and of the list the store takes only the pods that the watch has not reported
// meanwhile. Until they are read, pods are a gap.

const (
	// latest bounds the reading of the pods that have come to matter, and the wait of the
	// first list of pods for the objects that make them matter.
	latest    = 30 * time.Second
	pollNeeds = 20 * time.Millisecond
)

// widen makes the store keep the pods of these needs from now on, and no others. lists is for
// merge.
func (s *store[P]) widen(needs facts.PodNeeds) (missing facts.PodNeeds, lists int) {
	s.Lock()
	defer s.Unlock()
	s.keep = s.choose(needs).wants
	if former := lacking(needs, s.needs); !isMet(former) { // nobody would keep them up to date
		for _, o := range slices.Clone(s.objects.Items()) {
			if !s.keep(o) {
				s.objects.Delete(nameOf(o))
				s.others++
			}
		}
	}
	s.needs, s.met = needs, both(s.met, needs)
	if missing = lacking(s.met, needs); !isMet(missing) {
		s.left = map[types.NamespacedName]bool{}
	}
	return missing, s.lists
}

// merge adds the objects that were read since widen for the needs, unless some could not be
// read or the store has had another list meanwhile.
func (s *store[P]) merge(needs facts.PodNeeds, lists int, objects []P, err error) {
	s.Lock()
	defer s.Unlock()
	if s.unread = err; err == nil && s.lists == lists {
		for _, o := range objects {
			name := nameOf(o)
			if _, known := s.objects.Get(name); !known && !s.left[name] && s.keep(o) {
				s.objects.Put(o)
				s.others--
			}
		}
		s.met = both(needs, s.needs)
	}
	s.left = nil
}

// gap is the gap for pods that are needed and have not been read.
func (s *store[P]) gap(needs facts.PodNeeds) *snapshot.Gap {
	s.Lock()
	defer s.Unlock()
	missing := lacking(s.met, needs)
	if isMet(missing) {
		return nil
	}
	var of []string
	for node := range missing.Drained {
		of = append(of, "of node "+node)
	}
	for holder := range missing.Holders {
		of = append(of, "by the name of "+holder.String())
	}
	slices.Sort(of)
	const named = 3
	if len(of) > named {
		of = append(of[:named:named], "and others")
	}
	gap := &snapshot.Gap{Kind: snapshot.Pods, Reason: snapshot.ReasonUnavailable, Detail: "not read yet: the pods " + strings.Join(of, ", ")}
	if s.unread != nil {
		gap.Detail += ": " + s.unread.Error()
	}
	return gap
}

// lacking are the needs that are not among those met.
func lacking(met, needs facts.PodNeeds) facts.PodNeeds {
	return facts.PodNeeds{Drained: needs.Drained.Difference(met.Drained), Holders: needs.Holders.Difference(met.Holders)}
}

func both(a, b facts.PodNeeds) facts.PodNeeds {
	return facts.PodNeeds{Drained: a.Drained.Intersection(b.Drained), Holders: a.Holders.Intersection(b.Holders)}
}

func isMet(missing facts.PodNeeds) bool {
	return len(missing.Drained) == 0 && len(missing.Holders) == 0
}

// complete reads the pods that have come to matter because of other objects. Pods that cannot
// be read stay a gap, and are asked for the next time.
func (w *Watch) complete(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, latest)
	defer cancel()
	needs := w.needs()
	for _, f := range w.kinds {
		if f.meet != nil {
			f.meet(ctx, needs)
		}
	}
}

// needs are the needs that follow from the nodes and the leases.
func (w *Watch) needs() facts.PodNeeds {
	var o snapshot.Objects
	for _, f := range w.kinds {
		if f.isAsked() {
			f.store.fill(&o)
		}
	}
	return facts.NeedsOf(&o)
}

// isAsked reports whether facts.NeedsOf looks at the kind.
func (f *following) isAsked() bool { return f.kind == snapshot.Nodes || f.kind == snapshot.Leases }

// awaitNeeds waits until the needed pods are known, so that their list has all of them. The
// wait is bounded: needs that become known later are read later.
func (w *Watch) awaitNeeds(ctx context.Context) {
	unknown := func(f *following) bool { return f.isAsked() && !f.began() }
	for start := time.Now(); slices.ContainsFunc(w.kinds, unknown) && time.Since(start) < latest; {
		if Sleep(ctx, pollNeeds) != nil {
			return
		}
	}
}

// meet reads the pods that are missing for the needs. While the kind is not watched it reads
// nothing: the next list will have them.
func (k *kindOf[T, P]) meet(ctx context.Context, c *Cluster, f *following, s *store[P], needs facts.PodNeeds) {
	missing, lists := s.widen(needs)
	read, within := f.reads()
	if isMet(missing) || !read {
		return
	}
	var lack []*pages[T, P]
	add := func(namespace, fields string) {
		p := newPages[T, P](c, k.kind, namespace, k.chosen(c.options, needs))
		p.fields = fields
		lack = append(lack, p)
	}
	for node := range missing.Drained {
		add(within, fieldselector.OneTermEqualSelector("spec.nodeName", node).String())
	}
	spaces := sets.New[string]()
	for holder := range missing.Holders { // the holder's name is not always the pod's
		if within == "" || within == holder.Namespace {
			spaces.Insert(holder.Namespace)
		}
	}
	for space := range spaces {
		add(space, "")
	}
	errs := make([]error, len(lack))
	slots := make(chan struct{}, parallel)
	var running sync.WaitGroup
	for i, p := range lack {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			errs[i] = p.read(ctx)
		})
	}
	running.Wait()
	var found []P
	for i, p := range lack {
		found = append(found, p.kept...)
		if errs[i] != nil {
			errs[i] = c.Explain(errs[i])
		}
	}
	s.merge(needs, lists, found, errors.Join(errs...))
}
