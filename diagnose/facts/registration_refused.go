package facts

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/trim"
)

// LastWords is the last message with which a container of a node plugin ended.
type LastWords struct {
	Pod       *corev1.Pod
	Container string
	Message   string
	At        metav1.Time
}

// LastWordsOf is the latest message with which a container of the plugins ended, where the
// kubelet refused its registration or it no longer runs. A status has the end of the log only
// with terminationMessagePolicy: FallbackToLogsOnError.
func LastWordsOf(plugins []*corev1.Pod) (last LastWords, ok bool) {
	for _, pod := range plugins {
		for _, c := range pod.Status.ContainerStatuses {
			for _, ended := range []*corev1.ContainerStateTerminated{c.State.Terminated, c.LastTerminationState.Terminated} {
				if ended == nil || ended.Message == "" || c.State.Running != nil && !trim.RefusesRegistration(ended.Message) {
					continue
				}
				if !ok || last.At.Before(&ended.FinishedAt) {
					last, ok = LastWords{pod, c.Name, ended.Message, ended.FinishedAt}, true
				}
			}
		}
	}
	return last, ok
}

// Who is the container that ended: the registrar, where the kubelet has refused its driver, or
// else the container's name.
func (r LastWords) Who() string {
	if trim.RefusesRegistration(r.Message) {
		return "registrar"
	}
	return "container " + r.Container
}

// Blames is who has to act so that the registration succeeds, and why; both are "" where the
// message does not show it.
func (r LastWords) Blames() (actor, because string) {
	if d, denied := deniedBy(r.Message); denied {
		return "the cluster admin", "what the kubelet writes for the driver is denied: " + d.Text()
	}
	if ContainsAny(r.Message, "instance metadata", "metadata service", "ec2metadata", "169.254.169.254", "metadata.google.internal") {
		return "whoever runs the platform", "the driver asks the platform's metadata service for the node's identity, and gets none"
	}
	return "", ""
}

// CrashLoops is the first container of the pod that waits in a crash loop; "" for none.
func CrashLoops(pod *corev1.Pod) string {
	for _, c := range pod.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil && strings.HasPrefix(w.Reason, "CrashLoop") {
			return c.Name
		}
	}
	return ""
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
