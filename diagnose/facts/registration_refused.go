package facts

import (
	"fmt"
	"regexp"

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

// unanswered matches a write of the kubelet for a driver to which the API server did not answer.
var unanswered = regexp.MustCompile(`error updating (?:CSINode|Node) object.*(?:Get|Put|Post|Patch) "https://`)

// Blames reads the message; the result is zero where it does not show who has to act.
func (r LastWords) Blames() RegistrationBlame {
	what := "its CSINode"
	if ContainsAny(r.Message, "error updating Node object") {
		what = "its Node"
	}
	if d, denied := DeniedBy(r.Message); denied {
		do := "{fix} see to it that %[1]s lets the kubelet of %[2]s write %[3]s: the registrar then registers by itself"
		if d.Kind == DeniedByRole {
			do = "{fix} give the kubelet of %[2]s the right to write %[3]s, in the role or the authorizer that the message names: the registrar then registers by itself"
		}
		return RegistrationBlame{kubeletwords.ClusterAdmin, "what the kubelet writes for the driver is denied: " + d.Text(), fmt.Sprintf(do, d.Actor(), r.Pod.Spec.NodeName, what)}
	}
	if ContainsAny(r.Message, "topology value collision") {
		return RegistrationBlame{kubeletwords.ClusterAdmin, "the driver reports another topology than the labels of the Node have",
			fmt.Sprintf("{check} see which of the two values in the message is right for %[1]s; {change} correct the label of the Node, or the topology in the driver's configuration: the registrar then registers by itself", r.Pod.Spec.NodeName)}
	}
	if unanswered.MatchString(r.Message) {
		return RegistrationBlame{"the kubelet of " + r.Pod.Spec.NodeName, "the kubelet got no answer of the API server when it wrote " + what + " for the driver",
			fmt.Sprintf("{check} see whether %s reaches the API server now: the registrar then registers by itself", r.Pod.Spec.NodeName)}
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
