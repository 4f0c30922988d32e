package driver

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var DriverGoneUnderPods = check.Check{
	Code:     "VD614",
	Name:     "driver-gone-under-pods",
	Title:    "Pods have volumes of a driver mounted that is no longer registered on their node",
	Severity: finding.Warning,
	Needs:    check.AttachmentKinds(snapshot.CSINodes),
	OfDriver: true,
	Yields: []check.Yield{
		{To: "VD602", Key: check.OfDriverOnNode},
	},
	Never: "force-delete the pods: that hides the mounts and does not end them",
	Run:   runDriverGoneUnderPods,
}

// unmountGrace is how long the unmounts may take once a pod's containers have ended.
const unmountGrace = facts.KubeletRetries

func runDriverGoneUnderPods(p *check.Run) {
	all := p.Plugins()
	for node, csiNode := range p.RegisteredNodes() {
		users := p.VolumesByDriver(p.Snapshot.PodsOnNode(facts.NodeName(node)), holdsMounts(p.View), func(driver string) bool { return !facts.Registers(csiNode, driver) })
		if len(users) == 0 {
			continue
		}
		for _, driver := range slices.Sorted(maps.Keys(users)) {
			// A plugin on the node makes it plugin-not-registered. During a rollout, or with a
			// young plugin, the driver is about to register.
			if len(all[driver][facts.NodeName(node)]) == 0 && !rolling(p.View, all[driver]) && !p.PluginYoung(node, driver) {
				goneUnderPods(p, node, driver, users[driver], len(all[driver]) > 0)
			}
		}
	}
}

func goneUnderPods(p *check.Run, node *corev1.Node, driver string, volumes []facts.PodVolume, elsewhere bool) {
	pods := facts.PodsOf(volumes)
	first := volumes[0]
	f := finding.Finding{
		Subject:  p.DriverObject(driver),
		Node:     facts.NodeName(node),
		Message:  fmt.Sprintf("Driver %s is no longer registered on node %s, where pods use it", driver, node.Name),
		Detail:   fmt.Sprintf("pod %s has volume %s mounted, and the kubelet cannot unmount it%s", facts.PodName(first.Pod), first.Name, othersLike(pods)),
		Cause:    "the driver's node plugin was taken off the node, by a taint, a node selector or an uninstall, while volumes of it were in use",
		Evidence: []finding.Evidence{p.RegisteredDrivers(node), {Object: "node/" + node.Name, Field: "pods", Value: "none mounts the directory plugins/" + driver}},
		SelfHeals: finding.SelfHeals{Because: "a pod that is deleted stays Terminating; the pods run until then, and the kubelet unmounts within about 5 min after the " +
			"plugin has come back and registered"},
		Advice: fmt.Sprintf("{change} let the driver's node plugin run on %s again until the last pod with one of its volumes has left", node.Name),
	}
	for i, v := range volumes {
		if stuckUnmounting(p.View, v.Pod) {
			first = volumes[i]
			since := *first.Pod.DeletionTimestamp
			f.Severity, f.Since = finding.Error, &since
			f.Message = fmt.Sprintf("Pod %s cannot go from node %s: driver %s is not registered there", facts.PodName(first.Pod), node.Name, driver)
			f.Detail = fmt.Sprintf("its containers have ended, and its volume %s cannot be unmounted, because the driver is no longer registered%s", first.Name, othersLike(pods))
			f.Evidence = append(f.Evidence, finding.Evidence{Object: "pod/" + facts.PodName(first.Pod), Field: "metadata.deletionTimestamp", Value: facts.Stamp(since)})
			break
		}
	}
	// Plugins elsewhere show that this node is the exception. Without any, the driver may be
	// changing its version.
	if f.Severity == "" && !elsewhere {
		f.Severity = finding.Info
	}
	f.Pods = facts.PodNames(pods)
	p.Report(f)
}

// stuckUnmounting reports whether the pod's containers have ended, and the pod stays for longer
// than an unmount takes.
func stuckUnmounting(p *facts.View, pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil && p.Lasted(*pod.DeletionTimestamp, unmountGrace) && reconcile.PodTerminated(pod) && len(pod.Finalizers) == 0
}

// endsInVain makes the finding an error where one of the pods cannot go before the unmount.
func endsInVain(p *facts.View, f *finding.Finding, users []*corev1.Pod) {
	if slices.ContainsFunc(users, func(pod *corev1.Pod) bool { return stuckUnmounting(p, pod) }) {
		f.Severity = finding.Error
	}
}

// holdsMounts reports whether a pod has volumes mounted, or has ended and cannot have them
// unmounted. From 1.27 on a kubelet sets the last phase of a deleted pod before it unmounts.
func holdsMounts(p *facts.View) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool {
		return facts.Mounted(pod) || facts.Started(pod) && stuckUnmounting(p, pod)
	}
}

// othersLike counts the pods except for the first.
func othersLike(pods []*corev1.Pod) string {
	switch len(pods) {
	case 1:
		return ""
	case 2:
		return "; another pod there has volumes of the driver, too"
	default:
		return fmt.Sprintf("; %d other pods there have volumes of the driver, too", len(pods)-1)
	}
}
