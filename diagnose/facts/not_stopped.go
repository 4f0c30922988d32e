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

// lastPhaseLate is the first release whose kubelet writes the last phase of a deleted pod only when
// it has ended its containers and released its claims.
const lastPhaseLate KubeletRelease = 27

// ClaimsKept reports whether the resource claims of a Terminating pod are not released although its
// containers have ended: its living kubelet has not written the last phase, which comes after that
// and before the unmounts (Kubelet.SyncTerminatingPod). A pod that never ran gets its last phase
// only at the very end, and shows nothing.
func (v *View) ClaimsKept(pod *corev1.Pod) bool {
	node := v.Snapshot.Node(NodeOf(pod))
	return len(pod.Spec.ResourceClaims) > 0 && pod.DeletionTimestamp != nil && pod.Status.Phase == corev1.PodRunning && len(RunningContainers(pod)) == 0 &&
		node != nil && !v.Lost(node) && ParseKubelet(node.Status.NodeInfo.KubeletVersion) >= lastPhaseLate
}

// WhoReleases is who does not release the pod's resource claims.
func WhoReleases(pod *corev1.Pod) Stops {
	node := pod.Spec.NodeName
	return Stops{Actor: "the driver of the pod's resource claims on " + node,
		Do: fmt.Sprintf("{check} look at the log of the kubelet of %s for the pod's resource claims, and at the node plugin of their driver there", node)}
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

// Stops is who keeps a kubelet from stopping a pod, and so from unmounting its volumes.
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
