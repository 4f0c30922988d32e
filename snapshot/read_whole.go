package snapshot

import (
	"fmt"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// believe removes the gaps of the kinds in whole, which the user declared complete. It returns an
// error if the input itself shows that one of them is not.
func (c *collector) believe(whole []Kind, gaps []Gap) ([]Gap, error) {
	var believed []string
	for _, kind := range whole {
		i := slices.IndexFunc(gaps, func(g Gap) bool { return g.Kind == kind })
		if i < 0 {
			continue
		}
		against := c.against(gaps[i])
		if against == "" {
			against = c.objects.against(kind, c.counts[kind])
		}
		if against != "" {
			return nil, fmt.Errorf("--whole %s is not so: %s", kind, against)
		}
		gaps = slices.Delete(gaps, i, i+1)
		believed = append(believed, string(kind))
	}
	if len(believed) > 0 {
		c.notes = append(c.notes, Warning("that there are no other "+strings.Join(believed, ", ")+" is your word (--whole)"))
	}
	return gaps, nil
}

// against returns what in the input contradicts that the list is complete; "" if the input only
// lacks a proof that it is.
func (c *collector) against(gap Gap) string {
	said := strings.TrimSuffix(gap.Reason+": "+gap.Detail, ": ")
	switch {
	case c.header != nil && slices.Contains(c.header.Gaps, gap):
		return "the file's header has it as a gap (" + said + ")"
	case gap.Reason == ReasonNotInFile && slices.Contains(c.objects.unbound(), gap):
		return strings.TrimSuffix(gap.Detail, ": was -A given?")
	case gap.Reason == ReasonNotInFile || gap.Reason == ReasonNotInBundle && !strings.HasPrefix(gap.Detail, lacksNamespaces):
		return "" // nothing shows that there is more
	default:
		return said
	}
}

// against returns an object that names a missing object of the kind which a complete list would
// contain; "" if there is none. count is the number of objects that were read.
func (o *Objects) against(kind Kind, count int) string {
	switch kind {
	case Claims:
		there := map[types.NamespacedName]bool{}
		for _, claim := range o.Claims {
			there[types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}] = true
		}
		for _, pv := range o.Volumes {
			if ref := pv.Spec.ClaimRef; ref != nil && pv.Status.Phase == corev1.VolumeBound && !there[types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}] {
				return fmt.Sprintf("persistentvolume %s is Bound to claim %s of namespace %s, which is not there", plain(pv.Name), plain(ref.Name), plain(ref.Namespace))
			}
		}
	case Volumes:
		there := map[string]bool{}
		for _, pv := range o.Volumes {
			there[pv.Name] = true
		}
		for _, claim := range o.Claims {
			if claim.Status.Phase == corev1.ClaimBound && !there[claim.Spec.VolumeName] {
				return fmt.Sprintf("persistentvolumeclaim %s of namespace %s is Bound to volume %s, which is not there", plain(claim.Name), plain(claim.Namespace), plain(claim.Spec.VolumeName))
			}
		}
	case VolumeAttachments, CSINodes:
		for _, node := range o.Nodes {
			for _, v := range node.Status.VolumesAttached {
				// a name with driver and handle; other plugins have no VolumeAttachments
				if count == 0 && strings.Contains(string(v.Name), "^") {
					return fmt.Sprintf("there is none, and node %s has %s in its volumesAttached", plain(node.Name), plain(string(v.Name)))
				}
			}
		}
	default: // no object names one that must exist
	}
	return o.emptyAgainst(kind, count)
}

// emptyAgainst returns the same for an empty list, if no failure of a cluster can explain that it
// is empty. This needs no word of the user. Leases count as empty if none of them is of a node,
// because the nodes' leases have a namespace of their own.
func (o *Objects) emptyAgainst(kind Kind, count int) string {
	if kind != Leases && count > 0 {
		return ""
	}
	switch kind {
	case Nodes:
		for _, pod := range o.Pods {
			if pod.Spec.NodeName != "" && pod.Status.Phase == corev1.PodRunning {
				return fmt.Sprintf("there is none, and pod %s of namespace %s runs on node %s", plain(pod.Name), plain(pod.Namespace), plain(pod.Spec.NodeName))
			}
		}
		for _, va := range o.VolumeAttachments {
			return fmt.Sprintf("there is none, and volumeattachment %s is for node %s", plain(va.Name), plain(va.Spec.NodeName))
		}
	case Pods:
		for _, node := range o.Nodes {
			if len(node.Status.VolumesInUse) > 0 {
				return fmt.Sprintf("there is none, and node %s has %s in its volumesInUse", plain(node.Name), plain(string(node.Status.VolumesInUse[0])))
			}
		}
	case Claims:
		for _, pod := range o.Pods {
			for _, v := range pod.Spec.Volumes {
				if v.PersistentVolumeClaim != nil && pod.Status.Phase == corev1.PodRunning {
					return fmt.Sprintf("there is none, and pod %s of namespace %s runs with claim %s", plain(pod.Name), plain(pod.Namespace), plain(v.PersistentVolumeClaim.ClaimName))
				}
			}
		}
	case Leases:
		if slices.ContainsFunc(o.Leases, func(l *coordinationv1.Lease) bool { return l.Namespace == corev1.NamespaceNodeLease }) {
			return ""
		}
		for _, node := range o.Nodes {
			if ready(node) {
				return fmt.Sprintf("none is of a node, and each node has one, as node %s does", plain(node.Name))
			}
		}
	default: // there may be none
	}
	return ""
}

func ready(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
