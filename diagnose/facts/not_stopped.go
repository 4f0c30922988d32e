package facts

import (
	"fmt"
	"regexp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// NotStopped is the recent event of a living node's kubelet that it fails to stop an ended pod;
// nil where there is none. A pod also has a sandbox with its network: the kubelet unmounts none
// of its volumes before that is stopped (ShouldPodRuntimeBeRemoved in findAndRemoveDeletedPods,
// pkg/kubelet/volumemanager/populator/desired_state_of_world_populator.go).
func (v *View) NotStopped(pod *corev1.Pod) *corev1.Event {
	if !reconcile.PodTerminated(pod) || v.Lost(v.Snapshot.Node(NodeOf(pod))) {
		return nil
	}
	e := v.LastEvent(pod, func(e *corev1.Event) bool { return e.Reason == FailedKillPodReason })
	if e == nil || v.Age(snapshot.EventTime(e)) > EventRepeats || !SaidSince(e, lastFinished(pod)) {
		return nil
	}
	return e
}

// lastFinished is when the last container of the pod ended; zero where none has a time.
func lastFinished(pod *corev1.Pod) metav1.Time {
	var last metav1.Time
	for _, c := range pod.Status.ContainerStatuses {
		if c.State.Terminated != nil {
			last = Latest(last, c.State.Terminated.FinishedAt)
		}
	}
	return last
}

var (
	// networkWords match a kubelet's event about a sandbox whose network cannot be removed, with
	// containerd, CRI-O or the kubelet's own former runtime.
	networkWords = regexp.MustCompile(`(?i)network for (?:pod )?sandbox|plugin type=|\bcni\b`)
	// networkPlugin matches the plug-in's name in them.
	networkPlugin = regexp.MustCompile(`plugin type=\\*"([\w.-]+)\\*"`)
)

// Stops is who keeps a kubelet from stopping a pod.
type Stops struct {
	// Actor has to act, and Network reports that it is a network plug-in, not the runtime. Do is
	// the advice.
	Actor, Do string
	Network   bool
}

// WhoStops is who fails to stop the pod, by the kubelet's event.
func WhoStops(pod *corev1.Pod, said *corev1.Event) Stops {
	node := pod.Spec.NodeName
	if !networkWords.MatchString(said.Message) {
		return Stops{Actor: "the container runtime of " + node, Do: fmt.Sprintf("{do} on node %s see whether the container runtime answers, and {final} start it again where it does not: "+
			"containers go on running meanwhile; if nothing ends the pod, {drain-node} and {reboot-node}", node)}
	}
	s := Stops{Actor: "the network plug-in on " + node, Network: true}
	if m := networkPlugin.FindStringSubmatch(said.Message); m != nil {
		s.Actor = fmt.Sprintf("the network plug-in %s on %s", m[1], node)
	}
	s.Do = fmt.Sprintf("{do} see whether the pod of %s runs, and {fix} do what its log and the message name: the kubelet then stops the sandbox, "+
		"and unmounts the volumes by itself", s.Actor)
	return s
}
