package facts

import (
	"iter"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

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

// RegisteredLongEnough reports whether the node has been Ready long enough for its drivers to have
// registered.
func (p *View) RegisteredLongEnough(node *corev1.Node) bool {
	return reconcile.NodeReady(node) && !Virtual(node) && p.Age(node.CreationTimestamp) >= RegistrationGrace &&
		p.Age(ReadyCondition(node).LastTransitionTime) >= RegistrationGrace
}

// RegisteredNodes are the nodes of RegisteredLongEnough that have a CSINode, with it.
func (p *View) RegisteredNodes() iter.Seq2[*corev1.Node, *storagev1.CSINode] {
	return func(yield func(*corev1.Node, *storagev1.CSINode) bool) {
		for _, node := range p.Snapshot.Nodes {
			if csiNode := p.Snapshot.CSINode(NodeName(node)); csiNode != nil && p.RegisteredLongEnough(node) && !yield(node, csiNode) {
				return
			}
		}
	}
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
// them. It has to mount them again where the machine may have restarted (see MountsProven).
func Mounted(pod *corev1.Pod) bool {
	return Started(pod) && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed && !mayHaveRestarted(pod)
}

// mayHaveRestarted reports whether the pod has neither a sandbox nor a container that runs, and is to go on:
// its machine may have restarted.
func mayHaveRestarted(pod *corev1.Pod) bool {
	ready := Condition(pod, corev1.PodReadyToStartContainers)
	return pod.DeletionTimestamp == nil && ready != nil && ready.Status != corev1.ConditionTrue && !slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.State.Running != nil })
}
