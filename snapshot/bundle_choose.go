package snapshot

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// heldList is a part that chooseLists chose.
type heldList struct {
	*part
	partKey
	root *root
}

// chooseLists chooses each list of the kind from the first folder that has it, and there in its
// best form.
func chooseLists(roots []*root, kind Kind) []heldList {
	chosen := map[string]heldList{}
	for _, r := range roots {
		for _, key := range slices.SortedFunc(maps.Keys(r.parts), comparePartKeys) {
			if _, ok := chosen[key.namespace]; !ok && key.kind == kind {
				chosen[key.namespace] = heldList{r.parts[key], key, r}
			}
		}
	}
	var lists []heldList
	for _, namespace := range slices.Sorted(maps.Keys(chosen)) {
		lists = append(lists, chosen[namespace])
	}
	return lists
}

func comparePartKeys(a, b partKey) int {
	return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.form, b.form))
}

// wholeness returns the gap that the lists leave, or nil if they are complete. A refusal in one
// namespace is no reason to doubt the lists of the others.
func wholeness(kind Kind, roots []*root, held []heldList) *Gap {
	rest := heldGap(kind, roots, held)
	for _, r := range roots {
		said := r.said[kind]
		if len(said) == 0 {
			continue
		}
		namespace := slices.Sorted(maps.Keys(said))[0]
		gap := Gap{Kind: kind, Reason: reasonOf(said[namespace]), Detail: said[namespace]}
		if namespace != "" && resourceOf(kind).Namespaced && (rest == nil || rest.Namespace != "") {
			var read []string
			for _, l := range held {
				if said[l.namespace] == "" {
					read = append(read, l.namespace)
				}
			}
			gap.Namespace = ofNamespaces(read)
		}
		return &gap
	}
	return rest
}

// heldGap returns the gap of the lists that were read.
func heldGap(kind Kind, roots []*root, held []heldList) *Gap {
	gap := func(reason, format string, args ...any) *Gap {
		return &Gap{Kind: kind, Reason: reason, Detail: fmt.Sprintf(format, args...)}
	}
	for _, r := range roots {
		if r.narrowed {
			return gap(ReasonNotInBundle, "the %s has those that its settings select", r.name)
		}
	}
	if len(held) == 0 && !slices.ContainsFunc(roots, func(r *root) bool { return r.hasAsked(kind) }) {
		return gap(ReasonNotInBundle, "the %s is without them", roots[0].name)
	}
	for _, l := range held {
		switch {
		case l.err != nil:
			return gap(ReasonUndecodable, "%s", l.err)
		case l.form == oneFile && l.flaw(kind) != nil:
			return l.flaw(kind)
		case l.root.selects:
			return gap(ReasonNotInBundle, "the %s has those that its settings select", l.root.name)
		case !l.root.ended:
			return gap(ReasonTruncated, "nothing in the %s says that its gathering came to an end", l.root.name)
		case l.form == besidePod:
			return gap(ReasonTruncated, "the pods of namespace %s are there, but not their list", plain(l.namespace))
		}
	}
	if s := resourceOf(kind); !s.Namespaced {
		return nil
	}
	return partial(kind, roots, held)
}

// hasAsked reports whether the tool has asked for a list of the kind, and got one.
func (r *root) hasAsked(kind Kind) bool {
	for key, answered := range r.asked {
		if key.kind == kind && answered {
			return true
		}
	}
	return false
}

// lacksNamespaces is the beginning of a gap's detail if the bundle knows all namespaces, and lacks
// objects of some of them.
const lacksNamespaces = "without those of "

// partial returns the gap of a kind that was read namespace by namespace.
func partial(kind Kind, roots []*root, held []heldList) *Gap {
	if kind == Leases && ofAllNamespaces(held) {
		return nil
	}
	have := make([]string, 0, len(held))
	lacks := map[string]bool{}
	known := false
	for _, r := range roots {
		known = known || r.namespaces != nil
		for _, namespace := range r.namespaces {
			lacks[namespace] = !r.asked[partKey{kind: kind, namespace: namespace}]
		}
	}
	for _, l := range held {
		have = append(have, l.namespace)
		delete(lacks, l.namespace)
	}
	maps.DeleteFunc(lacks, func(_ string, without bool) bool { return !without })
	switch {
	case known && len(lacks) == 0:
		return nil
	case known:
		return &Gap{Kind: kind, Namespace: ofNamespaces(have), Reason: ReasonNotInBundle, Detail: lacksNamespaces + namespaces(slices.Sorted(maps.Keys(lacks)))}
	default:
		return &Gap{Kind: kind, Namespace: ofNamespaces(have), Reason: ReasonNotInBundle, Detail: "nothing says that there are no other namespaces"}
	}
}

// ofAllNamespaces reports whether an inspection asked for the leases of all namespaces. It did if
// it has the nodes' leases, because nothing inspects their namespace for another reason.
func ofAllNamespaces(held []heldList) bool {
	nodes := false
	for _, l := range held {
		if !l.root.singles || l.root != held[0].root || l.form != oneEach {
			return false
		}
		nodes = nodes || l.namespace == corev1.NamespaceNodeLease
	}
	return nodes && len(held) > 1
}

func namespaces(names []string) string {
	shown := make([]string, 0, len(names))
	for _, n := range names {
		shown = append(shown, plain(n))
	}
	if len(names) == 1 {
		return "namespace " + shown[0]
	}
	return "namespaces " + some(shown)
}

// some names the first few and counts the rest.
func some(names []string) string {
	const most = 5
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// reasonOf returns the reason for a gap from the message of an API server.
func reasonOf(said string) string {
	if strings.Contains(said, "forbidden") {
		return ReasonForbidden
	}
	return ReasonUnavailable
}
