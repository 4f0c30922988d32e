package diagnose

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

var registeredButNotServed = Check{
	Code:     "VD615",
	Name:     "registered-but-not-served",
	Title:    "A node lists a CSI driver as registered whose node plugin does not work there",
	Severity: Warning,
	Needs:    registrationNeeds,
	Run:      runRegisteredButNotServed,
}

// runRegisteredButNotServed reports a plugin that fails as such. That there is
// none proves little, as a driver may run beside the cluster: what proves it is
// the kubelet's word that nobody answers, or a pod that cannot go.
func runRegisteredButNotServed(p *Pass) {
	all := p.plugins()
	for _, node := range p.Snapshot.Nodes {
		csiNode := p.Snapshot.CSINode(nodeName(node))
		if csiNode == nil || !p.settled(node) {
			continue
		}
		for _, d := range csiNode.Spec.Drivers {
			here := all[d.Name][nodeName(node)]
			if slices.ContainsFunc(here, func(pod *corev1.Pod) bool { return ready(pod) || !p.pluginSettled(pod) }) {
				continue
			}
			its := func(driver string) bool { return driver == d.Name }
			users := p.volumesByDriver(p.Snapshot.PodsOnNode(nodeName(node)), mounted, its)
			waiting := p.volumesByDriver(p.pendingOn(nodeName(node)), p.waitsForMount, its)
			waits, uses := p.attachedOf(waiting[d.Name], node), podsOf(users[d.Name])
			if len(here) == 0 {
				waits = podsOf(slices.DeleteFunc(slices.Clone(waiting[d.Name]), func(v podVolume) bool { return p.nobodyAnswers(v) == nil }))
				longestFirst(waits)
				stuck := slices.ContainsFunc(uses, p.stuckUnmounting) && p.servedByDaemonSet(d.Name) && !p.rolling(all[d.Name])
				if len(waits) == 0 && !stuck {
					continue
				}
			}
			p.notServed(node, d.Name, here, waits, uses)
		}
	}
}

// nobodyAnswers is the kubelet's word, recent and not the first, that it cannot
// reach the driver's socket for the volume; nil where there is none.
func (p *Pass) nobodyAnswers(v podVolume) *corev1.Event {
	for _, e := range p.Snapshot.EventsOf(v.pod.UID) {
		m := mountFailed.FindStringSubmatch(e.Message)
		if m != nil && m[2] == v.name && containsAny(m[3], "connect: connection refused", "connect: no such file or directory") &&
			p.Age(firstTime(e)) >= registrationSettles && p.Age(eventTime(e)) < lostSettles {
			return e
		}
	}
	return nil
}

// servedByDaemonSet says that most nodes that list the driver have a pod of a
// DaemonSet for it. Some drivers run beside the cluster on some of the nodes.
func (p *Pass) servedByDaemonSet(driver string) bool {
	return p.remember().served.get(driver, func(driver string) bool {
		listed, served := 0, 0
		for _, csiNode := range p.Snapshot.CSINodes {
			if registers(csiNode, driver) && p.Snapshot.Node(types.NodeName(csiNode.Name)) != nil {
				listed++
				if slices.ContainsFunc(p.plugins()[driver][types.NodeName(csiNode.Name)], registrar) {
					served++
				}
			}
		}
		return 2*served > listed
	})
}

// waitsForMount says that the pod, which is pending, has waited on its node for longer than a mount
// takes.
func (p *Pass) waitsForMount(pod *corev1.Pod) bool {
	return !reconcile.PodTerminated(pod) && p.Age(boundAt(pod)) >= pluginDown
}

// attachedOf are those of the volumes that wait for nothing but the mount.
func (p *Pass) attachedOf(volumes []podVolume, node *corev1.Node) []*corev1.Pod {
	pods := podsOf(slices.DeleteFunc(slices.Clone(volumes), func(v podVolume) bool {
		return v.volume != "" && !slices.ContainsFunc(p.World.Attachments(reconcile.VolumeNode{Volume: v.volume, Node: nodeName(node)}),
			func(va *storagev1.VolumeAttachment) bool { return holds(va) })
	}))
	longestFirst(pods)
	return pods
}

func (p *Pass) notServed(node *corev1.Node, driver string, here, waiting, users []*corev1.Pod) {
	f := Finding{
		Subject:  p.driverObject(driver),
		Node:     nodeName(node),
		Evidence: append([]Evidence{{"csinode/" + node.Name, "spec.drivers", "lists " + driver}}, pluginEvidence(here)...),
		SelfHeals: SelfHeals{Because: "nothing takes the entry off while the kubelet lives, and the scheduler and the attacher go by it; mounts and unmounts go " +
			"on within about 5 min after the plugin has come back"},
		Advice: fmt.Sprintf("bring the driver's node plugin on %s back: see why its pod is not there or not Ready; leave the CSINode alone", node.Name),
	}
	f.Cause = "the plugin's pod went without a word to the kubelet: it was killed, its node crashed, or its DaemonSet no longer wants it there"
	what := "no pod serves there"
	if len(here) > 0 {
		since := readyChanged(here[0])
		f.Since = &since
		f.Cause = "the plugin's containers fail; its socket is still registered, and calls to it end in refused connections"
		what = fmt.Sprintf("its pod %s has not been Ready there for %s", podName(here[0]), rounded(p.Age(since)))
	} else {
		f.Evidence = append(f.Evidence, Evidence{"node/" + node.Name, "pods", "none mounts the directory plugins/" + driver})
	}
	if len(waiting) > 0 {
		f.Severity, f.Pods = Error, podNames(waiting)
		f.Message = fmt.Sprintf("Pod %s waits on node %s for a volume of %s, which the node lists as registered, and %s%s",
			podName(waiting[0]), node.Name, driver, what, alike(waiting))
	} else {
		f.Pods = podNames(users)
		f.Message = fmt.Sprintf("Node %s lists %s as registered, and %s: volumes of it can be neither mounted nor unmounted%s", node.Name, driver, what, othersUse(users))
	}
	p.Report(f)
}
