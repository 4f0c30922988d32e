package facts

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
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
	if HasLog(pod) {
		return Logs(pod)
	}
	return safetext.Kubectl("describe", "pod/"+pod.Name, "--namespace="+pod.Namespace)
}

// SeeWhyNotReady makes it the finding's advice to find out why the node plugin is not Ready.
func SeeWhyNotReady(f *finding.Finding, plugin *corev1.Pod) {
	f.Advice = fmt.Sprintf("{check} see why pod %s, the driver's node plugin on %s, is not Ready (%s)", PodName(plugin), f.Node, PluginState(plugin))
	f.AdviceCommands = []string{ShowWhy(plugin)}
}

// HasLog reports whether the log of the pod may say what is wrong: all its containers have run.
func HasLog(pod *corev1.Pod) bool {
	ran := NodeOf(pod) != "" && pod.Status.Phase != corev1.PodPending
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if w := c.State.Waiting; w != nil {
			if strings.HasPrefix(w.Reason, "CrashLoop") {
				return true
			}
			ran = false
		}
	}
	return ran
}

// TaintOutOfService is the command that declares the node's machine off.
func TaintOutOfService(node string) string {
	return safetext.Kubectl("taint", "nodes", "node/"+node, corev1.TaintNodeOutOfService+"=nodeshutdown:NoExecute")
}
