package facts

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
)

// CsiVolume is the driver that the kubelet calls to mount the pod's volume, attached or not; ""
// where there is none.
func (p *View) CsiVolume(pod *corev1.Pod, v *corev1.Volume) (driver string, volume PodVolume) {
	if v.CSI != nil {
		return v.CSI.Driver, PodVolume{pod, "", v.Name}
	}
	if name, spec, err := p.World.PodVolume(pod, v); err == nil {
		driver, _, _ = spec.CSI()
		return driver, PodVolume{pod, name, p.ShortVolume(name)}
	}
	claim := p.ClaimOf(pod, v)
	if claim == nil || claim.Status.Phase != corev1.ClaimBound {
		return "", PodVolume{}
	}
	pv := p.Snapshot.Volume(claim.Spec.VolumeName)
	if pv == nil || pv.Spec.CSI == nil {
		return "", PodVolume{}
	}
	return pv.Spec.CSI.Driver, PodVolume{pod, "", pv.Name}
}

// RefusesInline reports whether the volume stands in the pod itself and its driver takes no such
// volumes (supportsVolumeLifecycleMode, pkg/volume/csi/csi_plugin.go).
func (p *View) RefusesInline(v *corev1.Volume) bool {
	if v.CSI == nil {
		return false
	}
	d := p.Snapshot.CSIDriver(v.CSI.Driver)
	return d != nil && len(d.Spec.VolumeLifecycleModes) > 0 && !slices.Contains(d.Spec.VolumeLifecycleModes, storagev1.VolumeLifecycleEphemeral)
}

var keptInstalled KeptBy[string, bool]

// Installed reports whether the cluster has the driver, on any node. A driver that is not
// installed was removed or renamed, or never existed.
func (p *View) Installed(driver string) bool {
	return keptInstalled.Of(p, driver, func(p *View, driver string) bool {
		return p.Snapshot.CSIDriver(driver) != nil || slices.ContainsFunc(p.Snapshot.CSINodes, func(n *storagev1.CSINode) bool {
			return Registers(n, driver)
		})
	})
}

// RegisteredDrivers is the evidence of the drivers that are registered on the node.
func (p *View) RegisteredDrivers(node *corev1.Node) finding.Evidence {
	csiNode := p.Snapshot.CSINode(NodeName(node))
	if csiNode == nil {
		return finding.Evidence{Object: "csinode/" + node.Name, Field: "metadata.name", Value: "there is no such object"}
	}
	names := []string{}
	for _, d := range csiNode.Spec.Drivers {
		names = append(names, d.Name)
	}
	return finding.Evidence{Object: "csinode/" + node.Name, Field: "spec.drivers", Value: fmt.Sprintf("lists %v", names)}
}

// PluginYoung reports whether a node plugin on the node may be about to register. All drivers
// share the directory of the plugins' sockets.
func (p *View) PluginYoung(node *corev1.Node, driver string) bool {
	return slices.ContainsFunc(p.NodePlugins(node, "/plugins/"+driver, "/plugins_registry"), func(pod *corev1.Pod) bool {
		return p.Age(pod.CreationTimestamp) < RegistrationGrace
	})
}

// NodePlugins are the pods on the node that mount one of the kubelet's directories: only that
// shows a node plugin.
func (p *View) NodePlugins(node *corev1.Node, directories ...string) []*corev1.Pod {
	mounts := func(v corev1.Volume) bool {
		return slices.ContainsFunc(directories, func(d string) bool { return strings.HasSuffix(hostPath(v), d) })
	}
	var plugins []*corev1.Pod
	for _, pod := range p.Snapshot.PodsOnNode(NodeName(node)) {
		if slices.ContainsFunc(pod.Spec.Volumes, mounts) {
			plugins = append(plugins, pod)
		}
	}
	return plugins
}

// PluginState describes the state of a node plugin's pod.
func PluginState(pod *corev1.Pod) string {
	state := string(pod.Status.Phase)
	if !Ready(pod) {
		state += ", not Ready"
	}
	for _, c := range pod.Status.ContainerStatuses {
		if c.State.Waiting != nil {
			state += fmt.Sprintf(", container %s: %s", c.Name, c.State.Waiting.Reason)
		}
	}
	return state
}

var keptServed KeptBy[string, bool]

// ServedByDaemonSet reports whether a DaemonSet's pod serves the driver on most of the nodes
// that list it. Some drivers run outside the cluster on some of the nodes.
func (p *View) ServedByDaemonSet(driver string) bool {
	return keptServed.Of(p, driver, func(p *View, driver string) bool {
		listed, served := 0, 0
		for _, csiNode := range p.Snapshot.CSINodes {
			if Registers(csiNode, driver) && p.Snapshot.Node(types.NodeName(csiNode.Name)) != nil {
				listed++
				if slices.ContainsFunc(p.Plugins()[driver][types.NodeName(csiNode.Name)], Registrar) {
					served++
				}
			}
		}
		return 2*served > listed
	})
}

// retriesRegistration is the first release whose kubelet retries a registration that failed
// (kubernetes pull request 133335). An older one counts it as done.
const retriesRegistration KubeletRelease = 36

// RegistersAgain is a clause: when a registration that failed is tried again.
func (k KubeletRelease) RegistersAgain() string {
	const restart = "each attempt fails as long as the cause is there; a registrar that is refused ends, and its next start is a new attempt"
	switch {
	case !k.Known():
		return restart + "; whether the kubelet asks by itself too depends on its release, which is not known"
	case k.Before(retriesRegistration):
		return fmt.Sprintf("%s; a kubelet of 1.%d does not try by itself: to it a registration that failed is done until the socket is recreated", restart, k)
	default:
		return fmt.Sprintf("%s; a kubelet of 1.%d also asks by itself, at most 2m2s apart", restart, k)
	}
}
