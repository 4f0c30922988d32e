package snapshot

import (
	"regexp"
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

// ofDeployment matches the name of a Deployment's pod: its own, the hash of its ReplicaSet, and five
// characters (SafeEncodeString in k8s.io/apimachinery/pkg/util/rand).
var ofDeployment = regexp.MustCompile(`^(.+)-[bcdfghjklmnpqrstvwxz2456789]{1,10}-[bcdfghjklmnpqrstvwxz2456789]{5}$`)

// DeploymentByName is the Deployment whose pod has a name of this form; "" where it is no such name.
func DeploymentByName(pod string) string {
	if parts := ofDeployment.FindStringSubmatch(pod); parts != nil {
		return parts[1]
	}
	return ""
}

// HolderNames are the names by which a process that sees the host name of the node's machine holds a
// lease; none without a node. CSI sidecars write a dash for each dot (sanitizeName in
// csi-lib-utils/leaderelection).
func HolderNames(node *corev1.Node) []string {
	if node == nil {
		return nil
	}
	short, _, _ := strings.Cut(node.Name, ".")
	names := []string{node.Name, short}
	if host := node.Labels[corev1.LabelHostname]; host != "" {
		names = append(names, host)
	}
	for i, name := range names {
		names[i] = strings.ReplaceAll(name, ".", "-")
	}
	return names
}

// IsSidecar reports whether the container is the CSI sidecar of the name, such as csi-attacher, by its
// image or its own name.
func IsSidecar(c corev1.Container, name string) bool {
	return strings.Contains(c.Image, name) || strings.Contains(c.Name, name)
}
