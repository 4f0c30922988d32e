package facts

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// UnmetAffinity is what the volume asks of a node, if this one does not have it; ""
// where it may be used there.
func UnmetAffinity(pv *corev1.PersistentVolume, node *corev1.Node) string {
	if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return ""
	}
	selector, err := nodeaffinity.NewNodeSelector(pv.Spec.NodeAffinity.Required)
	if err != nil || selector.Match(node) {
		return "" // one that cannot be read proves nothing
	}
	text := ""
	for _, term := range pv.Spec.NodeAffinity.Required.NodeSelectorTerms {
		if text != "" {
			text += " or "
		}
		text += termText(term)
	}
	return text
}

func termText(term corev1.NodeSelectorTerm) string {
	text := ""
	for i, r := range append(append([]corev1.NodeSelectorRequirement{}, term.MatchExpressions...), term.MatchFields...) {
		if i > 0 {
			text += ", "
		}
		text += r.Key + " " + string(r.Operator)
		if len(r.Values) > 0 {
			text += fmt.Sprintf(" %v", r.Values)
		}
	}
	return text
}
