package snapshot

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/trim"
)

// nodeElsewhere returns a reason if a node is missing while its CSINode is present. When a Node is
// deleted, its CSINode is removed within seconds and its pods within minutes.
func (o *Objects) nodeElsewhere() string {
	nodes, csi := sets.New[string](), sets.New[string]()
	for _, node := range o.Nodes {
		nodes.Insert(node.Name)
	}
	for _, n := range o.CSINodes {
		csi.Insert(n.Name)
	}
	for _, pod := range o.Pods {
		if name := pod.Spec.NodeName; len(nodes) > 0 && csi.Has(name) && !nodes.Has(name) && pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
			return fmt.Sprintf("pod %s of namespace %s runs on node %s, which is not there, though its CSINode is", plain(pod.Name), plain(pod.Namespace), plain(name))
		}
	}
	for _, n := range o.CSINodes {
		if len(nodes) > 0 && !nodes.Has(n.Name) {
			return fmt.Sprintf("node %s is not there, though its CSINode is", plain(n.Name))
		}
	}
	return ""
}

// csiNodeElsewhere returns a reason if a node whose annotation names a driver has no CSINode, which its
// kubelet writes right after the annotation, or if several Ready nodes have none. A kubelet creates its
// CSINode when it starts; a single node may have lost it.
func (o *Objects) csiNodeElsewhere() string {
	csi, without := sets.New[string](), []string{}
	for _, n := range o.CSINodes {
		csi.Insert(n.Name)
	}
	for _, node := range o.Nodes {
		var ids map[string]string
		if !csi.Has(node.Name) && json.Unmarshal([]byte(node.Annotations[trim.NodeIDs]), &ids) == nil && len(ids) > 0 {
			return fmt.Sprintf("node %s has no CSINode, though its annotation %s names a driver", plain(node.Name), trim.NodeIDs)
		}
		if ready(node) && !csi.Has(node.Name) {
			without = append(without, plain(node.Name))
		}
	}
	if len(without) < 2 {
		return ""
	}
	return fmt.Sprintf("nodes %s and %s are Ready and have no CSINode", without[0], without[1])
}

// volumeElsewhere returns a reason if a claim is Bound to a volume that is missing beside others. If
// the volume really were gone, the claim would be Lost.
func (o *Objects) volumeElsewhere() string {
	volumes, attached := sets.New[string](), o.attachedVolumes()
	for _, pv := range o.Volumes {
		volumes.Insert(pv.Name)
	}
	for _, claim := range o.Claims {
		if name := claim.Spec.VolumeName; claim.Status.Phase == corev1.ClaimBound && len(volumes) > 0 && !volumes.Has(name) {
			is := ""
			if attached.Has(name) {
				is = "attached and "
			}
			return fmt.Sprintf("claim %s of namespace %s is Bound to volume %s, which is %snot there", plain(claim.Name), plain(claim.Namespace), plain(name), is)
		}
	}
	return ""
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
				if count == 0 && o.hadAttachment(string(v.Name)) {
					return fmt.Sprintf("there is none, and node %s has %s in its volumesAttached", plain(node.Name), plain(string(v.Name)))
				}
			}
		}
	default: // no object names one that must exist
	}
	return o.emptyAgainst(kind, count)
}
