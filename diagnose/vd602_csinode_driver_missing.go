package diagnose

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var csiNodeDriverMissing = Check{
	Code:     "VD602",
	Name:     "csinode-driver-missing",
	Title:    "A pod needs a CSI driver that is not registered on its node",
	Severity: Error,
	Needs: []snapshot.Kind{
		snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSIDrivers, snapshot.CSINodes,
	},
	Run: runCSINodeDriverMissing,
}

// registrationSettles is how long a node plugin may take to register its driver
// after the node or the plugin has started: images are pulled, and the kubelet
// looks for sockets and retries with a growing delay.
const registrationSettles = 3 * time.Minute

func runCSINodeDriverMissing(p *Pass) {
	for _, node := range p.Snapshot.Nodes {
		if !reconcile.NodeReady(node) || p.Age(node.CreationTimestamp) < registrationSettles || virtual(node) {
			continue
		}
		if c := readyCondition(node); p.Age(c.LastTransitionTime) < registrationSettles {
			continue
		}
		needs := p.unregistered(node)
		for _, driver := range slices.Sorted(maps.Keys(needs)) {
			if p.installed(driver) && !p.pluginYoung(node, driver) {
				p.driverMissing(node, driver, needs[driver])
			}
		}
	}
}

// unregistered are the drivers that the node lacks, with what waits for them.
func (p *Pass) unregistered(node *corev1.Node) map[string][]podVolume {
	needs := map[string][]podVolume{}
	pods := p.pendingOn(nodeName(node))
	longestFirst(pods)
	for _, pod := range pods {
		if reconcile.PodTerminated(pod) || p.Age(boundAt(pod)) < listsSettle {
			continue
		}
		for i := range pod.Spec.Volumes {
			driver, volume := p.csiVolume(pod, &pod.Spec.Volumes[i])
			if driver == "" || registers(p.Snapshot.CSINode(nodeName(node)), driver) {
				continue
			}
			// A detach needs no registration; until it ends there is no attach.
			if slices.ContainsFunc(p.World.Attachments(reconcile.VolumeNode{Volume: volume.volume, Node: nodeName(node)}), deleting) {
				continue
			}
			needs[driver] = append(needs[driver], volume)
		}
	}
	return needs
}

// csiVolume is the driver that the kubelet must ask to mount the pod's volume,
// whether or not it attaches it too; "" where there is none.
func (p *Pass) csiVolume(pod *corev1.Pod, v *corev1.Volume) (driver string, volume podVolume) {
	if name, spec, err := p.World.PodVolume(pod, v); err == nil {
		driver, _, _ = spec.CSI()
		return driver, podVolume{pod, name, p.shortVolume(name)}
	}
	claim := p.Snapshot.Claim(claimKey(pod, reconcile.ClaimName(pod, v)))
	if claim == nil || claim.Status.Phase != corev1.ClaimBound {
		return "", podVolume{}
	}
	pv := p.Snapshot.Volume(claim.Spec.VolumeName)
	if pv == nil || pv.Spec.CSI == nil {
		return "", podVolume{}
	}
	return pv.Spec.CSI.Driver, podVolume{pod, "", pv.Name}
}

// installed says that the cluster has the driver: what is missing is this node.
// A driver that nobody knows was uninstalled, renamed or never there.
func (p *Pass) installed(driver string) bool {
	return p.remember().installed.get(driver, func(driver string) bool {
		return p.Snapshot.CSIDriver(driver) != nil || slices.ContainsFunc(p.Snapshot.CSINodes, func(n *storagev1.CSINode) bool {
			return registers(n, driver)
		})
	})
}

func (p *Pass) driverMissing(node *corev1.Node, driver string, waiting []podVolume) {
	first := waiting[0]
	since := boundAt(first.pod)
	subject := Object{Kind: "CSIDriver", Name: driver}
	if d := p.Snapshot.CSIDriver(driver); d != nil {
		subject.UID = d.UID
	}
	f := Finding{
		Subject: subject,
		Node:    nodeName(node),
		Since:   &since,
		Message: fmt.Sprintf("Pod %s waits on node %s for volume %s, whose driver %s is not registered on that node",
			podName(first.pod), node.Name, first.name, driver),
		Cause:    "the driver's node plugin does not run on the node, or has not been able to register with the kubelet",
		Evidence: []Evidence{p.registeredDrivers(node)},
		SelfHeals: SelfHeals{Because: "the attach follows within about 5 min once the node plugin has registered; " +
			"until then the attacher has no name for the node, and the kubelet nobody to mount"},
		Advice: fmt.Sprintf("look at the driver's node plugin on %s: is its pod there (taints, node selector), Ready, and does its registrar use the "+
			"kubelet's own directory? Deleting that pod is harmless and makes it register anew", node.Name),
	}
	plugins := p.nodePlugins(node, "/plugins/"+driver)
	for _, plugin := range plugins {
		f.Evidence = append(f.Evidence, Evidence{"pod/" + podName(plugin), "status", pluginState(plugin)})
	}
	if len(plugins) == 0 {
		f.Evidence = append(f.Evidence, Evidence{"node/" + node.Name, "pods", "none mounts the directory plugins/" + driver})
	}
	var pods []*corev1.Pod
	for _, w := range waiting {
		if !slices.Contains(pods, w.pod) {
			pods = append(pods, w.pod)
		}
	}
	f.Pods = podNames(pods)
	f.Message += alike(pods)
	p.Report(f)
}

func (p *Pass) registeredDrivers(node *corev1.Node) Evidence {
	csiNode := p.Snapshot.CSINode(nodeName(node))
	if csiNode == nil {
		return Evidence{"csinode/" + node.Name, "metadata.name", "there is no such object"}
	}
	names := []string{}
	for _, d := range csiNode.Spec.Drivers {
		names = append(names, d.Name)
	}
	return Evidence{"csinode/" + node.Name, "spec.drivers", fmt.Sprintf("lists %v", names)}
}

// pluginYoung says that a node plugin on the node may be about to register. The
// directory of plugins' sockets is common to all drivers.
func (p *Pass) pluginYoung(node *corev1.Node, driver string) bool {
	return slices.ContainsFunc(p.nodePlugins(node, "/plugins/"+driver, "/plugins_registry"), func(pod *corev1.Pod) bool {
		return p.Age(pod.CreationTimestamp) < registrationSettles
	})
}

// nodePlugins are the pods on the node that mount one of the kubelet's
// directories; that is all by which a node plugin can be told.
func (p *Pass) nodePlugins(node *corev1.Node, directories ...string) []*corev1.Pod {
	mounts := func(v corev1.Volume) bool {
		return slices.ContainsFunc(directories, func(d string) bool { return strings.HasSuffix(hostPath(v), d) })
	}
	var plugins []*corev1.Pod
	for _, pod := range p.Snapshot.PodsOnNode(nodeName(node)) {
		if slices.ContainsFunc(pod.Spec.Volumes, mounts) {
			plugins = append(plugins, pod)
		}
	}
	return plugins
}

func pluginState(pod *corev1.Pod) string {
	state := string(pod.Status.Phase)
	if !ready(pod) {
		state += ", not Ready"
	}
	for _, c := range pod.Status.ContainerStatuses {
		if c.State.Waiting != nil {
			state += fmt.Sprintf(", container %s: %s", c.Name, c.State.Waiting.Reason)
		}
	}
	return state
}
