package diagnose

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

var driverGoneUnderPods = Check{
	Code:     "VD614",
	Name:     "driver-gone-under-pods",
	Title:    "Pods have volumes of a driver mounted that is no longer registered on their node",
	Severity: Warning,
	Needs:    registrationNeeds,
	Run:      runDriverGoneUnderPods,
}

// unmountSettles is how long a pod whose containers have ended may take to have
// its volumes unmounted: one call to a driver is given 2 min, and the kubelet
// looks again at most 2m2s later.
const unmountSettles = 5 * time.Minute

func runDriverGoneUnderPods(p *Pass) {
	all := p.plugins()
	for _, node := range p.Snapshot.Nodes {
		csiNode := p.Snapshot.CSINode(nodeName(node))
		if csiNode == nil || !p.settled(node) {
			continue
		}
		users := p.volumesByDriver(p.Snapshot.PodsOnNode(nodeName(node)), mounted, func(driver string) bool { return !registers(csiNode, driver) })
		if len(users) == 0 {
			continue
		}
		missing := p.reportedAsMissing(node)
		for _, driver := range slices.Sorted(maps.Keys(users)) {
			if missing[driver] {
				continue
			}
			// With a plugin there it is plugin-not-registered; while plugins are
			// replaced, or where one has just come, the entry is on its way.
			if len(all[driver][nodeName(node)]) == 0 && !p.rolling(all[driver]) && !p.pluginYoung(node, driver) {
				p.goneUnderPods(node, driver, users[driver], len(all[driver]) > 0)
			}
		}
	}
}

func (p *Pass) goneUnderPods(node *corev1.Node, driver string, volumes []podVolume, elsewhere bool) {
	pods := podsOf(volumes)
	first := volumes[0]
	f := Finding{
		Subject: p.driverObject(driver),
		Node:    nodeName(node),
		Message: fmt.Sprintf("Pod %s on node %s has volume %s mounted, and its driver %s is no longer registered there: the kubelet cannot unmount it%s",
			podName(first.pod), node.Name, first.name, driver, alike(pods)),
		Cause:    "the driver's node plugin was taken off the node, by a taint, a node selector or an uninstall, while volumes of it were in use",
		Evidence: []Evidence{p.registeredDrivers(node), {"node/" + node.Name, "pods", "none mounts the directory plugins/" + driver}},
		SelfHeals: SelfHeals{Because: "the pods run on, and stay Terminating once they are deleted; the kubelet unmounts within about 5 min after the " +
			"plugin has come back and registered"},
		Advice: fmt.Sprintf("let the driver's node plugin run on %s again until the last pod with a volume of it has left; do not force-delete the pods: "+
			"that hides the mounts and does not end them", node.Name),
	}
	for i, v := range volumes {
		if p.stuckUnmounting(v.pod) {
			first = volumes[i]
			since := *first.pod.DeletionTimestamp
			f.Severity, f.Since = Error, &since
			f.Message = fmt.Sprintf("Pod %s on node %s cannot go: its containers have ended, and its volume %s cannot be unmounted, because the driver %s is no "+
				"longer registered there%s", podName(first.pod), node.Name, first.name, driver, alike(pods))
			f.Evidence = append(f.Evidence, Evidence{"pod/" + podName(first.pod), "metadata.deletionTimestamp", stamp(since)})
			break
		}
	}
	// That plugins run elsewhere proves that this node is the exception. Where
	// none is known the driver may be on its way from one version to the next.
	if f.Severity == "" && !elsewhere {
		f.Severity = Info
	}
	f.Pods = podNames(pods)
	p.Report(f)
}

// stuckUnmounting says that the pod's containers have ended and the object stays
// for longer than an unmount takes.
func (p *Pass) stuckUnmounting(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil && p.Age(*pod.DeletionTimestamp) >= unmountSettles && reconcile.PodTerminated(pod) && len(pod.Finalizers) == 0
}
