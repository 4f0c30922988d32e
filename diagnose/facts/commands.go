package facts

import (
	"slices"
	"strings"

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

// ShowWhy is the command that shows why the pod is not Ready: its log where a container has run,
// else its events.
func ShowWhy(pod *corev1.Pod) string {
	ran := NodeOf(pod) != "" && pod.Status.Phase != corev1.PodPending
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if w := c.State.Waiting; w != nil {
			if strings.HasPrefix(w.Reason, "CrashLoop") {
				return Logs(pod)
			}
			ran = false
		}
	}
	if ran {
		return Logs(pod)
	}
	return safetext.Kubectl("describe", "pod/"+pod.Name, "--namespace="+pod.Namespace)
}

// TaintOutOfService is the command that declares the node's machine off.
func TaintOutOfService(node string) string {
	return safetext.Kubectl("taint", "nodes", "node/"+node, corev1.TaintNodeOutOfService+"=nodeshutdown:NoExecute")
}
