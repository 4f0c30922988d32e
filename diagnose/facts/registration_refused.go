package facts

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/kubeletwords"
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

// RegistrationBlame is who has to act so that a registration succeeds, why, and the advice.
type RegistrationBlame struct{ Actor, Because, Do string }

// Blames reads the message; the result is zero where it does not show who has to act.
func (r LastWords) Blames() RegistrationBlame {
	if d, denied := DeniedBy(r.Message); denied {
		return RegistrationBlame{kubeletwords.ClusterAdmin, "what the kubelet writes for the driver is denied: " + d.Text(),
			fmt.Sprintf("{fix} see to it that %s lets the kubelet of %s write its CSINode: the registrar then registers by itself", d.Actor(), r.Pod.Spec.NodeName)}
	}
	if ContainsAny(r.Message, "instance metadata", "metadata service", "ec2metadata", "169.254.169.254", "metadata.google.internal") {
		return RegistrationBlame{"whoever runs the platform", "the driver asks the platform's metadata service for the node's identity, and gets none",
			fmt.Sprintf("{fix} see to it that the platform's metadata service answers pods on %s: the registrar then registers by itself", r.Pod.Spec.NodeName)}
	}
	return RegistrationBlame{}
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
