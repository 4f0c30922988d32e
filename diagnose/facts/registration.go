package facts

import (
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// fewRestarts is the number of restarts from which a container counts as being in a crash loop;
// with fewer it may just have started.
const fewRestarts = 3

// plugins are the pods that serve CSI drivers on nodes, by driver and node. They are found by
// the directory of the driver's socket, which most drivers name like themselves; of a driver
// that does not, nothing is known.
type plugins map[string]map[types.NodeName][]*corev1.Pod

// Plugins are the node plugins' pods, by driver and node.
func (p *View) Plugins() plugins {
	return p.PodsByRole().plugins
}

func (all plugins) add(pod *corev1.Pod) {
	for _, driver := range SocketDirectories(pod) {
		if all[driver] == nil {
			all[driver] = map[types.NodeName][]*corev1.Pod{}
		}
		all[driver][NodeOf(pod)] = append(all[driver][NodeOf(pod)], pod)
	}
}

// SocketDirectories are the names below the kubelet's plugins directory that the
// pod mounts.
func SocketDirectories(pod *corev1.Pod) []string {
	var names []string
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].HostPath == nil {
			continue // as most volumes
		}
		dir, name := path.Split(hostPath(pod.Spec.Volumes[i]))
		if path.Base(dir) == "plugins" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// hostPath is the directory of the node that the volume mounts, with Linux's separators; "" for
// another kind of volume.
func hostPath(v corev1.Volume) string {
	if v.HostPath == nil {
		return ""
	}
	return strings.TrimRight(strings.ReplaceAll(v.HostPath.Path, `\`, "/"), "/")
}

// Registrar reports whether the pod registers a driver: it belongs to a DaemonSet and mounts the
// directory in which the kubelet looks for sockets.
func Registrar(pod *corev1.Pod) bool {
	return DaemonSet(pod) != "" && RegistrationDirectory(pod) != ""
}

// RegistrationDirectory is the directory of the pod's registration socket; "" where it mounts
// none.
func RegistrationDirectory(pod *corev1.Pod) string {
	for _, v := range pod.Spec.Volumes {
		if dir := hostPath(v); path.Base(dir) == "plugins_registry" {
			return dir
		}
	}
	return ""
}

// DaemonSet is the UID of the DaemonSet that the pod belongs to; "" where it
// belongs to none.
func DaemonSet(pod *corev1.Pod) types.UID {
	if ControlledBy(pod, "DaemonSet") {
		return metav1.GetControllerOfNoCopy(pod).UID
	}
	return ""
}

// Rolling reports whether a node plugin of the driver is being replaced somewhere: one is
// Terminating, or is younger than RolloutGrace and than its node by as much.
func (p *View) Rolling(pods map[types.NodeName][]*corev1.Pod) bool {
	for name, list := range pods {
		node := p.Snapshot.Node(name)
		for _, pod := range list {
			if node != nil && (pod.DeletionTimestamp != nil ||
				p.Age(pod.CreationTimestamp) < RolloutGrace && pod.CreationTimestamp.Sub(node.CreationTimestamp.Time) > RolloutGrace) {
				return true
			}
		}
	}
	return false
}

// RegisteredLongEnough reports whether the node has been Ready long enough for its drivers to have
// registered.
func (p *View) RegisteredLongEnough(node *corev1.Node) bool {
	return reconcile.NodeReady(node) && !Virtual(node) && p.Age(node.CreationTimestamp) >= RegistrationGrace &&
		p.Age(ReadyCondition(node).LastTransitionTime) >= RegistrationGrace
}

// PluginHadTime reports whether the plugin has had the time to register: its Ready condition has
// been the same for long enough, and none of its containers has just started.
func (p *View) PluginHadTime(pod *corev1.Pod) bool {
	grace := PluginDown
	if Ready(pod) {
		grace = RegistrationGrace
	}
	if pod.DeletionTimestamp != nil || p.Age(pod.CreationTimestamp) < grace || p.Age(ReadyChanged(pod)) < grace {
		return false
	}
	return !slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.State.Running != nil && c.RestartCount < fewRestarts && p.Age(c.State.Running.StartedAt) < RegistrationGrace
	})
}

// ReadyChanged is when the pod's Ready condition last changed, or else when the pod was made.
func ReadyChanged(pod *corev1.Pod) metav1.Time {
	if c := Condition(pod, corev1.PodReady); c != nil {
		return c.LastTransitionTime
	}
	return pod.CreationTimestamp
}

// VolumesByDriver are the volumes of the pods that pass the test, by driver, for the wanted
// drivers.
func (p *View) VolumesByDriver(pods []*corev1.Pod, test func(*corev1.Pod) bool, wanted func(driver string) bool) map[string][]PodVolume {
	byDriver := map[string][]PodVolume{}
	for _, pod := range pods {
		for i := range pod.Spec.Volumes {
			v := &pod.Spec.Volumes[i]
			if !reconcile.CanBeAttached(v) && reconcile.ClaimName(pod, v) == "" {
				continue // as most volumes
			}
			if _, spec, err := p.World.PodVolume(pod, v); err == nil {
				if driver, _, _ := spec.CSI(); !wanted(driver) {
					continue // as nearly all volumes
				}
			}
			driver, volume := p.CsiVolume(pod, v)
			if driver != "" && wanted(driver) && test(pod) && Referenced(pod, v.Name) {
				byDriver[driver] = append(byDriver[driver], volume)
			}
		}
	}
	return byDriver
}

// Mounted reports whether the kubelet has mounted the pod's volumes and has yet to unmount
// them.
func Mounted(pod *corev1.Pod) bool {
	return Started(pod) && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// PluginEvidence is the state of the driver's plugins on the node, with the restarts of their
// containers: the API shows nothing else about a refused registration.
func PluginEvidence(pods []*corev1.Pod) []finding.Evidence {
	var list []finding.Evidence
	for _, pod := range pods {
		state := PluginState(pod)
		for _, c := range pod.Status.ContainerStatuses {
			if c.RestartCount > 0 {
				state += fmt.Sprintf(", container %s: %d restarts", c.Name, c.RestartCount)
			}
		}
		list = append(list, finding.Evidence{Object: "pod/" + PodName(pod), Field: "status", Value: state})
	}
	return list
}

// OthersUse is a clause: which pods have volumes of the driver mounted; "" without pods.
func OthersUse(pods []*corev1.Pod) string {
	switch len(pods) {
	case 0:
		return ""
	case 1:
		return "pod " + PodName(pods[0]) + " there has a volume of it mounted"
	default:
		return fmt.Sprintf("pod %s and %d more there have volumes of it mounted", PodName(pods[0]), len(pods)-1)
	}
}
