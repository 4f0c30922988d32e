package snapshot

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
)

// gaps returns the gaps of all kinds whose absent objects may exist. If the header calls a list
// partial, it is a gap even if the file has objects of the kind.
func (c *collector) gaps(now time.Time) []Gap {
	var gaps []Gap
	var complete []Kind
	if c.header != nil {
		gaps = slices.Clone(c.header.Gaps)
		complete = c.header.Complete
	}
	partial := slices.Concat(c.dumpGaps(), c.partial(now), c.workloads.partial(&c.objects))
	for _, kind := range Kinds() {
		told, isTold := c.told[kind]
		i := slices.IndexFunc(partial, func(g Gap) bool { return g.Kind == kind })
		switch {
		case slices.ContainsFunc(gaps, func(g Gap) bool { return g.Kind == kind }):
		case c.flaw(kind) != nil:
			gaps = append(gaps, *c.flaw(kind))
		case isTold && told != nil:
			gaps = append(gaps, *told)
		case slices.Contains(complete, kind):
		case !isTold && c.counts[kind] == 0 && c.lists[kind] == 0: // an empty list that names its kind is complete
			gaps = append(gaps, Gap{Kind: kind, Reason: ReasonNotInFile})
		case i >= 0 && isTold:
			gaps = append(gaps, ofBundle(partial[i]))
		case i >= 0:
			gaps = append(gaps, partial[i])
		case c.header == nil && c.isByName(kind):
			gaps = append(gaps, c.byName(kind))
		default:
			gap := c.notEmpty(kind, now)
			if gap != nil && isTold {
				gap = new(ofBundle(*gap))
			}
			if gap != nil && c.header == nil {
				gaps = append(gaps, *gap)
			}
		}
	}
	return gaps
}

// ofBundle returns the gap as one of a bundle, for which nobody chose the flags of kubectl.
func ofBundle(g Gap) Gap {
	g.Reason = ReasonNotInBundle
	g.Detail, _, _ = strings.Cut(g.Detail, ": was ")
	return g
}

// flaw returns the gap of a kind whose objects are missing or may be; nil if there is no sign of
// that.
func (c *collector) flaw(kind Kind) *Gap {
	for _, gaps := range []map[Kind]Gap{c.refused, c.broken} {
		if gap, ok := gaps[kind]; ok {
			gap.Namespace = c.readBeside(gap)
			return &gap
		}
	}
	if gap := c.altered.gap(kind); gap != nil {
		return gap
	}
	switch {
	case c.isTruncated(kind):
		return &Gap{Kind: kind, Reason: ReasonTruncated, Detail: "the list says that more objects follow"}
	case c.unread[kind] != "":
		return &Gap{Kind: kind, Reason: ReasonUndecodable, Detail: c.unread[kind]}
	}
	return nil
}

// partial returns the gaps that the objects themselves show, for a file that does not say which
// lists are complete. For example, "kubectl get" without -A leaves a file that lacks other
// namespaces.
func (c *collector) partial(now time.Time) []Gap {
	gaps := c.objects.unbound()
	for _, g := range c.hinted(now) {
		if !slices.ContainsFunc(gaps, func(proven Gap) bool { return proven.Kind == g.Kind }) {
			gaps = append(gaps, g)
		}
	}
	return gaps
}

// hinted returns the gaps that other objects suggest, for example if all pods are of one namespace
// and an object names a pod of another. The hint may be out of date, because a deleted pod leaves
// its events. So the user may declare the list complete nevertheless.
func (c *collector) hinted(now time.Time) []Gap {
	var gaps []Gap
	o := &c.objects
	pods, claims := namespacesOf(o.Pods), namespacesOf(o.Claims)
	namespace, what := o.podElsewhere(pods, c.singleNamespaces(Pods))
	if what == "" {
		namespace, what = c.holderElsewhere(pods, now)
	}
	if what != "" {
		gaps = o.noPodsOf(namespace, what)
	}
	if namespace, what := o.claimElsewhere(claims, c.singleNamespaces(Claims)); len(claims) > 0 && what != "" {
		gaps = append(gaps, notAll(Claims, claims, fmt.Sprintf("%s of namespace %s, of which no claim is there", what, plain(namespace))))
	}
	if why := cmp.Or(suffixed(cmp.Or(o.ofOneNode(), c.onlyRunning(now)), ": was --field-selector given?"), suffixed(cmp.Or(o.usedWithoutPods(), o.nodeWithoutPods(), o.usedByMissing(now)), ": was -l or --field-selector given?")); why != "" && !slices.ContainsFunc(gaps, func(g Gap) bool { return g.Kind == Pods }) {
		gaps = append(gaps, Gap{Kind: Pods, Reason: ReasonNotInFile, Detail: why})
	}
	if why := o.nodeElsewhere(); why != "" {
		gaps = append(gaps, Gap{Kind: Nodes, Reason: ReasonNotInFile, Detail: why + ": was -l given?"})
	}
	if why := o.csiNodeElsewhere(); why != "" && c.lists[CSINodes] == 0 { // a list of the kind has all
		gaps = append(gaps, Gap{Kind: CSINodes, Reason: ReasonNotInFile, Detail: why + ": was a name or -l given?"})
	}
	if why := o.against(Claims, len(o.Claims)); why != "" && len(claims) > 0 && !slices.ContainsFunc(gaps, func(g Gap) bool { return g.Kind == Claims }) {
		gaps = append(gaps, Gap{Kind: Claims, Reason: ReasonNotInFile, Detail: why + ": was a name or -l given?"})
	}
	if why := o.volumeElsewhere(); why != "" {
		gaps = append(gaps, Gap{Kind: Volumes, Reason: ReasonNotInFile, Detail: why + ": was a name or -l given?"})
	}
	gaps = withoutMany(gaps)
	read := namespacesOf(o.Events)
	if why := o.eventDue(now, read); why != "" && len(read) > 0 && !slices.ContainsFunc(gaps, func(g Gap) bool { return g.Kind == Events }) {
		gaps = append(gaps, notAll(Events, read, why+", and no event of its namespace is there"))
	}
	return gaps
}

// suffixed returns the reason with the question what may have led to it; "" if there is no reason.
func suffixed(why, question string) string {
	if why == "" {
		return ""
	}
	return why + question
}

const wasAllGiven = ": was -A given?"

// notAll returns the gap of a kind that was read in some namespaces only.
func notAll(kind Kind, read sets.Set[string], why string) Gap {
	g := Gap{Kind: kind, Reason: ReasonNotInFile, Detail: why}
	if resourceOf(kind).Namespaced {
		g.Detail += wasAllGiven
	}
	g.Namespace = ofNamespaces(read.UnsortedList())
	return g
}

// withoutMany removes the gap of events unless they are of one namespace: others may have none left.
func withoutMany(gaps []Gap) []Gap {
	return slices.DeleteFunc(gaps, func(g Gap) bool { return g.Kind == Events && len(g.Namespaces()) != 1 })
}

func namespacesOf[T interface{ GetNamespace() string }](list []T) sets.Set[string] {
	names := sets.New[string]()
	for _, object := range list {
		names.Insert(object.GetNamespace())
	}
	return names
}
