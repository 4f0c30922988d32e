package facts

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/step"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// Workload is the controller that recreates a pod, a Deployment instead of its ReplicaSet.
type Workload struct{ Namespace, Kind, Name string }

// WorkloadOf returns the zero Workload for a bare pod, and for a static one.
func WorkloadOf(pod *corev1.Pod) Workload {
	owner := metav1.GetControllerOfNoCopy(pod)
	switch {
	case owner == nil || owner.Kind == "Node":
		return Workload{}
	case snapshot.DeploymentOf(pod) != "":
		return Workload{pod.Namespace, "Deployment", snapshot.DeploymentOf(pod)}
	}
	return Workload{pod.Namespace, owner.Kind, owner.Name}
}

func (w Workload) String() string { return w.Kind + " " + w.Namespace + "/" + w.Name }

// Scales reports whether the workload has a number of replicas.
func (w Workload) Scales() bool {
	return slices.Contains([]string{"Deployment", "ReplicaSet", "StatefulSet", "ReplicationController"}, w.Kind)
}

// StopWriters is the advice for pods that write to one file system: to end all but one, or all
// where they belong to one workload, which ends whichever it likes.
func StopWriters(pods []*corev1.Pod) string {
	names := PodNames(pods)
	if len(names) == 0 {
		return "{final} stop all writers but one"
	}
	if w := WorkloadOf(pods[0]); w.Kind != "" && !slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return WorkloadOf(pod) != w }) {
		return "{note} stop the writers: " + step.StopPod.Of(names...)
	}
	return "{note} stop all writers but one: " + step.StopPod.Of("any "+strings.Join(names, ","))
}

// stop is the step that ends the named pods so that no controller recreates them: "any " before
// the names means some of them. It has no command, as something that runs ends with it.
func (p *View) stop(f finding.Finding, named string) (finding.Step, string) {
	pods, any := p.podsToEnd(f, named)
	var says []string
	var bare []*corev1.Pod
	ended := slices.Clone(pods)
	for _, pod := range pods {
		w := WorkloadOf(pod)
		clause := ""
		switch {
		case Bare(pod):
			clause = "delete pod " + PodName(pod)
			bare = append(bare, pod)
		case w.Scales():
			clause = "scale " + w.String() + " to 0"
		case w.Kind == "Job":
			clause = "suspend " + w.String()
		case w.Kind == "":
			clause = fmt.Sprintf("take the manifest of static pod %s off node %s", PodName(pod), pod.Spec.NodeName)
		default:
			clause = fmt.Sprintf("end pod %s through %s, which recreates a deleted one", PodName(pod), w)
		}
		if !slices.Contains(says, clause) {
			says = append(says, clause)
		}
		if w.Scales() || w.Kind == "Job" {
			for _, other := range p.Snapshot.Pods {
				if WorkloadOf(other) == w && !endedForGood(other) {
					ended = append(ended, other)
				}
			}
		}
	}
	ended = EachOnce(ended)
	s, running := deletionOf(ended)
	s.Object, s.Told = "", false
	switch {
	case len(ended) == 0:
		return s, "end the pods of one, and scale what recreates them to 0"
	case !p.Snapshot.Complete(snapshot.Pods):
		s.Hits, s.Pods, s.Says = nil, nil, "this ends an unknown number of pods, as not all were read"
	case any:
		s.Says = fmt.Sprintf("this ends at most %s: %s", amount(s.Pods), runs(running))
	default:
		s.Says = fmt.Sprintf("this ends %s: %s", amount(s.Pods), runs(running))
	}
	join := " and "
	if any {
		join = ", or "
	}
	text := strings.Join(says, join)
	if _, lost, found := strings.Cut(goneForGood(bare), "; "); found {
		text += " (" + lost + ")"
	}
	return s, text
}
