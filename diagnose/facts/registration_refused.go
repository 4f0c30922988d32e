package facts

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RefusedRegistration is the last message with which a node plugin's registrar ended: the
// kubelet's answer to its registration.
type RefusedRegistration struct {
	Pod       *corev1.Pod
	Container string
	Message   string
	At        metav1.Time
}

// LastRefusal is the latest refusal of the plugins, from the status of a container. The
// registrar writes it to its log, which the status shows only with terminationMessagePolicy:
// FallbackToLogsOnError.
func LastRefusal(plugins []*corev1.Pod) (last RefusedRegistration, ok bool) {
	for _, pod := range plugins {
		for _, c := range pod.Status.ContainerStatuses {
			for _, ended := range []*corev1.ContainerStateTerminated{c.State.Terminated, c.LastTerminationState.Terminated} {
				if ended != nil && ended.Message != "" && (!ok || last.At.Before(&ended.FinishedAt)) {
					last, ok = RefusedRegistration{pod, c.Name, ended.Message, ended.FinishedAt}, true
				}
			}
		}
	}
	return last, ok
}

// Who is who has to act so that the registration succeeds, and why; both are "" where the
// message does not tell.
func (r RefusedRegistration) Who() (actor, because string) {
	if d, denied := deniedBy(r.Message); denied {
		return "the cluster admin", "what the kubelet writes for the driver is denied: " + d.Text()
	}
	if ContainsAny(r.Message, "instance metadata", "metadata service", "ec2metadata", "169.254.169.254", "metadata.google.internal") {
		return "whoever runs the platform", "the driver asks the platform's metadata service for the node's identity, and gets none"
	}
	return "", ""
}

// CrashLoops reports whether a container of the pod waits in a crash loop.
func CrashLoops(pod *corev1.Pod) bool {
	for _, c := range pod.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil && strings.HasPrefix(w.Reason, "CrashLoop") {
			return true
		}
	}
	return false
}

// Runs reports whether a container of the pod runs.
func Runs(pod *corev1.Pod) bool {
	for _, c := range pod.Status.ContainerStatuses {
		if c.State.Running != nil {
			return true
		}
	}
	return false
}
