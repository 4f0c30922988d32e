package diagnose

import (
	"fmt"
	"regexp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var registrationLost = Check{
	Code:     "VD616",
	Name:     "registration-lost",
	Title:    "A kubelet does not know a driver that its node lists as registered, and a pod waits",
	Severity: Error,
	Needs:    append(slices.Clone(registrationNeeds), snapshot.Events),
	Run:      runRegistrationLost,
}

// lostSettles is how recent the kubelet's last word must be: it tries a mount
// again at most 2m2s after the last one, which may have taken 2 min.
const lostSettles = 5 * time.Minute

var unknownDriver = regexp.MustCompile(`driver name (\S+) not found in the list of registered CSI drivers`)

func runRegistrationLost(p *Pass) {
	all := p.plugins()
	for _, node := range p.Snapshot.Nodes {
		csiNode := p.Snapshot.CSINode(nodeName(node))
		if csiNode == nil || !p.settled(node) {
			continue
		}
		waiting := map[string][]*corev1.Pod{}
		pods := p.pendingOn(nodeName(node))
		longestFirst(pods)
		for _, pod := range pods {
			if driver, _ := p.unknownTo(pod); driver != "" && !reconcile.PodTerminated(pod) {
				waiting[driver] = append(waiting[driver], pod)
			}
		}
		for _, d := range csiNode.Spec.Drivers {
			here := all[d.Name][nodeName(node)]
			// A plugin that is not Ready is registered-but-not-served.
			if len(waiting[d.Name]) > 0 && !slices.ContainsFunc(here, func(pod *corev1.Pod) bool { return !ready(pod) || !p.pluginSettled(pod) }) {
				p.registrationLost(node, d.Name, here, waiting[d.Name])
			}
		}
	}
}

// unknownTo is the driver that the kubelet says it does not know, and has said
// for longer than a registration takes; "" where it does not.
func (p *Pass) unknownTo(pod *corev1.Pod) (driver string, said *corev1.Event) {
	for _, e := range p.Snapshot.EventsOf(pod.UID) {
		m := unknownDriver.FindStringSubmatch(e.Message)
		if m != nil && p.Age(firstTime(e)) >= registrationSettles && p.Age(eventTime(e)) < lostSettles {
			return m[1], e
		}
	}
	return "", nil
}

func (p *Pass) registrationLost(node *corev1.Node, driver string, here, waiting []*corev1.Pod) {
	_, said := p.unknownTo(waiting[0])
	since := firstTime(said)
	f := Finding{
		Subject: p.driverObject(driver),
		Node:    nodeName(node),
		Pods:    podNames(waiting),
		Since:   &since,
		Message: fmt.Sprintf("Pod %s waits on node %s for a volume of %s, which the node lists as registered and its kubelet does not know%s",
			podName(waiting[0]), node.Name, driver, alike(waiting)),
		Cause: "the kubelet keeps its drivers in memory: it has started anew, or another plugin of that name went, and the socket that is there was not " +
			"registered again; the entry in the CSINode is the one of before",
		Evidence: append([]Evidence{
			{"csinode/" + node.Name, "spec.drivers", "lists " + driver},
			{"pod/" + podName(waiting[0]), "event " + said.Reason, said.Message},
			{"node/" + node.Name, "status.nodeInfo.kubeletVersion", kubeletText(node)},
		}, pluginEvidence(here)...),
		SelfHeals: SelfHeals{Because: parseKubelet(node.Status.NodeInfo.KubeletVersion).registersAgain()},
		Advice:    fmt.Sprintf("delete the driver's node plugin pod on %s: its successor makes a new socket, and the kubelet registers that; what is mounted stays mounted", node.Name),
	}
	if len(here) > 0 {
		f.Advice = fmt.Sprintf("kubectl -n %s delete pod %s: its successor makes a new socket, and the kubelet registers that; what is mounted stays mounted",
			here[0].Namespace, here[0].Name)
	}
	p.Report(f)
}
