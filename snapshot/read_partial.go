package snapshot

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// partial are the gaps of claims and pods in a file that does not say which lists are
// complete, and whose volumes show that a namespace is missing: a volume is Bound to a claim
// in a namespace without any claim in the file. "kubectl get" without -A leaves such files.
func (o *Objects) partial() []Gap {
	claims, pods, missing := sets.New[string](), sets.New[string](), sets.New[string]()
	for _, claim := range o.Claims {
		claims.Insert(claim.Namespace)
	}
	for _, pod := range o.Pods {
		pods.Insert(pod.Namespace)
	}
	for _, pv := range o.Volumes {
		if ref := pv.Spec.ClaimRef; ref != nil && pv.Status.Phase == corev1.VolumeBound && !claims.Has(ref.Namespace) {
			missing.Insert(ref.Namespace)
		}
	}
	if len(missing) == 0 || len(claims) == 0 {
		return nil
	}
	first := slices.Sorted(slices.Values(missing.UnsortedList()))[0]
	gap := func(kind Kind, read sets.Set[string]) Gap {
		g := Gap{Kind: kind, Reason: ReasonNotInFile, Detail: fmt.Sprintf(
			"a volume is Bound to a claim of namespace %s, of which no claim is there: was -A given?", first)}
		if len(read) == 1 {
			g.Namespace = read.UnsortedList()[0]
		}
		return g
	}
	gaps := []Gap{gap(Claims, claims)}
	if len(pods) <= 1 && !pods.HasAny(missing.UnsortedList()...) {
		gaps = append(gaps, gap(Pods, pods))
	}
	return gaps
}
