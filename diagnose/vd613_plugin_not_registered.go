package diagnose

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var pluginNotRegistered = Check{
	Code:     "VD613",
	Name:     "plugin-not-registered",
	Title:    "A driver's node plugin runs on a node and is not registered with its kubelet",
	Severity: Warning,
	Needs:    registrationNeeds,
	Run:      runPluginNotRegistered,
}

// registrationNeeds are the kinds that show whether a driver is registered on a
// node, what serves it there and what needs it.
var registrationNeeds = []snapshot.Kind{
	snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSIDrivers, snapshot.CSINodes,
}

func runPluginNotRegistered(p *Pass) {
	all := p.plugins()
	for _, node := range p.Snapshot.Nodes {
		if !p.settled(node) {
			continue
		}
		missing := p.reportedAsMissing(node)
		for _, driver := range slices.Sorted(maps.Keys(all)) {
			here := slices.DeleteFunc(slices.Clone(all[driver][nodeName(node)]), func(pod *corev1.Pod) bool { return !registrar(pod) })
			if len(here) == 0 || missing[driver] || !p.installed(driver) || registers(p.Snapshot.CSINode(nodeName(node)), driver) {
				continue // csinode-driver-missing tells of the pods that wait for it
			}
			if !slices.ContainsFunc(here, func(pod *corev1.Pod) bool { return !p.pluginSettled(pod) }) {
				users := p.volumesByDriver(p.Snapshot.PodsOnNode(nodeName(node)), mounted, func(d string) bool { return d == driver })
				p.notRegistered(node, driver, here, podsOf(users[driver]))
			}
		}
	}
}

func (p *Pass) notRegistered(node *corev1.Node, driver string, here, users []*corev1.Pod) {
	plugin := here[0]
	since := readyChanged(plugin)
	kubelet := parseKubelet(node.Status.NodeInfo.KubeletVersion)
	p.Report(Finding{
		Subject: p.driverObject(driver),
		Node:    nodeName(node),
		Pods:    podNames(users),
		Since:   &since,
		Message: fmt.Sprintf("The node plugin of %s, pod %s, runs on node %s and is not registered with the kubelet, which can neither mount nor unmount "+
			"volumes of it there%s", driver, podName(plugin), node.Name, othersUse(users)),
		Cause: "the kubelet has not found the plugin's socket, or has refused it: the plugin gives no id for the node or another zone than the node's " +
			"label says, a second plugin has the driver's name, or the registrar uses another directory than the kubelet",
		Evidence: append([]Evidence{
			p.registeredDrivers(node),
			{"pod/" + podName(plugin), "spec.volumes", "registers in " + registrationDirectory(plugin)},
			{"node/" + node.Name, "status.nodeInfo.kubeletVersion", kubeletText(node)},
		}, pluginEvidence(here)...),
		SelfHeals: SelfHeals{Because: kubelet.registersAgain()},
		Advice: fmt.Sprintf("read the log of the plugin's registrar: kubectl -n %s logs %s --all-containers --tail=50; it has the kubelet's words. Then "+
			"delete that pod: its successor registers anew, and what is mounted stays mounted", plugin.Namespace, plugin.Name),
	})
}

// retriesRegistration: a kubelet forgets a registration that failed, and so
// tries again (kubernetes pull request 133335). An older one takes it for done.
const retriesRegistration kubeletRelease = 36

// registersAgain says when a kubelet comes back to a registration that failed.
func (k kubeletRelease) registersAgain() string {
	const restart = "a registrar that is refused ends, and its next start is a new attempt"
	switch {
	case !k.known():
		return restart + "; whether the kubelet asks by itself too depends on its release, which is not known"
	case k.before(retriesRegistration):
		return fmt.Sprintf("%s; a kubelet of 1.%d makes none besides: a registration that failed counts as done until the socket is made anew", restart, k)
	default:
		return fmt.Sprintf("%s; a kubelet of 1.%d also asks by itself, at most 2m2s apart, and fails as long as the cause is there", restart, k)
	}
}

func kubeletText(node *corev1.Node) string {
	if v := node.Status.NodeInfo.KubeletVersion; v != "" {
		return v
	}
	return "not known"
}
