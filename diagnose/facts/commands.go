package facts

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
)

// deletePod is the command that deletes the pod.
func deletePod(pod *corev1.Pod) string {
	return safetext.Kubectl("delete", "pod/"+pod.Name, "--namespace="+pod.Namespace)
}

// Logs is the command that shows the end of the pod's logs.
func Logs(pod *corev1.Pod) string {
	return safetext.Kubectl("logs", "pod/"+pod.Name, "--namespace="+pod.Namespace, "--all-containers", "--tail=50")
}

// TaintOutOfService is the command that declares the node's machine off.
func TaintOutOfService(node string) string {
	return safetext.Kubectl("taint", "nodes", "node/"+node, corev1.TaintNodeOutOfService+"=nodeshutdown:NoExecute")
}
