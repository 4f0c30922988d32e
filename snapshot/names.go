package snapshot

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
