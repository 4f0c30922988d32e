package snapshot

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// DeploymentOf is the name of the pod's Deployment, from its ReplicaSet's name; "" where it has
// none.
func DeploymentOf(pod *corev1.Pod) string {
	owner, hash := metav1.GetControllerOfNoCopy(pod), pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
	if owner == nil || owner.Kind != "ReplicaSet" || hash == "" {
		return ""
	}
	name, ok := strings.CutSuffix(owner.Name, "-"+hash)
	if !ok {
		return ""
	}
	return name
}

// uniqueName is the name of a CSI volume in a node's status.
func uniqueName(driver, handle string) string { return "kubernetes.io/csi/" + driver + "^" + handle }

// ShareNames makes each reference to a volume or a claim use the string of that object's own name,
// so that the text is in memory only once. It must be called before a snapshot holds the objects.
func (o *Objects) ShareNames() {
	volumes, claims := byName(o.Volumes), byNamespacedName(o.Claims)
	for _, claim := range o.Claims {
		if pv := named(volumes, claim.Spec.VolumeName); pv != nil {
			claim.Spec.VolumeName = pv.Name
		}
	}
	for _, va := range o.VolumeAttachments {
		if name := va.Spec.Source.PersistentVolumeName; name != nil {
			if pv := named(volumes, *name); pv != nil {
				va.Spec.Source.PersistentVolumeName = &pv.Name
			}
		}
	}
	for _, pv := range o.Volumes {
		if ref := pv.Spec.ClaimRef; ref != nil {
			if claim := named(claims, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}); claim != nil {
				ref.Name = claim.Name
				if ref.UID == claim.UID {
					ref.UID = claim.UID
				}
			}
		}
	}
	for _, pod := range o.Pods {
		for i := range pod.Spec.Volumes {
			if source := pod.Spec.Volumes[i].PersistentVolumeClaim; source != nil {
				if claim := named(claims, types.NamespacedName{Namespace: pod.Namespace, Name: source.ClaimName}); claim != nil {
					source.ClaimName = claim.Name
				}
			}
		}
	}
}
