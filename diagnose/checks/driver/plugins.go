package driver

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// unregistered are the drivers that the node lacks, each with the volumes that wait for it.
func unregistered(p *facts.View, node *corev1.Node) map[string][]facts.PodVolume {
	needs := map[string][]facts.PodVolume{}
	for _, pod := range p.PendingOn(facts.NodeName(node)) {
		if reconcile.PodTerminated(pod) || p.Age(facts.BoundAt(pod)) < facts.ListsGrace {
			continue
		}
		for i := range pod.Spec.Volumes {
			driver, volume := p.CsiVolume(pod, &pod.Spec.Volumes[i])
			if driver == "" || !facts.Referenced(pod, pod.Spec.Volumes[i].Name) || facts.Registers(p.Snapshot.CSINode(facts.NodeName(node)), driver) {
				continue
			}
			// A detach needs no registration, and the volume is not attached until the detach
			// ends.
			if slices.ContainsFunc(p.World.Attachments(reconcile.VolumeNode{Volume: volume.Volume, Node: facts.NodeName(node)}), facts.Deleting) {
				continue
			}
			needs[driver] = append(needs[driver], volume)
		}
	}
	return needs
}

// fewRestarts is the number of restarts from which a container counts as being in a crash loop;
// with fewer it may just have started.
const fewRestarts = 3

// rolling reports whether a node plugin of the driver is being replaced somewhere: one is
// Terminating, or is younger than RolloutGrace and than its node by as much.
func rolling(p *facts.View, pods map[types.NodeName][]*corev1.Pod) bool {
	for name, list := range pods {
		node := p.Snapshot.Node(name)
		for _, pod := range list {
			if node != nil && (pod.DeletionTimestamp != nil ||
				p.Age(pod.CreationTimestamp) < facts.RolloutGrace && pod.CreationTimestamp.Sub(node.CreationTimestamp.Time) > facts.RolloutGrace) {
				return true
			}
		}
	}
	return false
}

// pluginHadTime reports whether the plugin has had the time to register: its Ready condition has
// been the same for long enough, and none of its containers has just started.
func pluginHadTime(p *facts.View, pod *corev1.Pod) bool {
	grace := facts.PluginDown
	if facts.Ready(pod) {
		grace = facts.RegistrationGrace
	}
	if pod.DeletionTimestamp != nil || p.Age(pod.CreationTimestamp) < grace || p.Age(facts.ReadyChanged(pod)) < grace {
		return false
	}
	return !slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.State.Running != nil && c.RestartCount < fewRestarts && p.Age(c.State.Running.StartedAt) < facts.RegistrationGrace
	})
}

// pluginEvidence is the state of the driver's plugins on the node, with the restarts of their
// containers: the API shows nothing else about a refused registration.
func pluginEvidence(pods []*corev1.Pod) []finding.Evidence {
	var list []finding.Evidence
	for _, pod := range pods {
		state := facts.PluginState(pod)
		for _, c := range pod.Status.ContainerStatuses {
			if c.RestartCount > 0 {
				state += fmt.Sprintf(", container %s: %d restarts", c.Name, c.RestartCount)
			}
		}
		list = append(list, finding.Evidence{Object: "pod/" + facts.PodName(pod), Field: "status", Value: state})
	}
	return list
}

// othersUse is a clause: which pods have volumes of the driver mounted; "" without pods.
func othersUse(pods []*corev1.Pod) string {
	switch len(pods) {
	case 0:
		return ""
	case 1:
		return "pod " + facts.PodName(pods[0]) + " there has a volume of it mounted"
	default:
		return fmt.Sprintf("pod %s and %d more there have volumes of it mounted", facts.PodName(pods[0]), len(pods)-1)
	}
}

// crashLoops is the first container of the pod that waits in a crash loop; "" for none.
func crashLoops(pod *corev1.Pod) string {
	for _, c := range pod.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil && strings.HasPrefix(w.Reason, "CrashLoop") {
			return c.Name
		}
	}
	return ""
}
