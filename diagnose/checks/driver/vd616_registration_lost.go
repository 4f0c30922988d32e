package driver

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/kubeletwords"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/step"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var RegistrationLost = check.Check{
	Code:     "VD616",
	Name:     "registration-lost",
	Title:    "A kubelet does not know a driver that its node lists as registered, and a pod waits",
	Severity: finding.Error,
	Needs:    check.AttachmentKinds(snapshot.CSINodes, snapshot.Events),
	OfDriver: true,
	Never:    "restart the kubelet in a loop: each start forgets all drivers",
	Run:      runRegistrationLost,
}

// lostGrace is how recent the kubelet's last event must be.
const lostGrace = facts.KubeletRetries

func runRegistrationLost(p *check.Run) {
	all := p.Plugins()
	for node, csiNode := range p.RegisteredNodes() {
		waiting := map[string][]*corev1.Pod{}
		for _, pod := range p.PendingOn(facts.NodeName(node)) {
			if driver, _ := unknownTo(p.View, pod); driver != "" && !reconcile.PodTerminated(pod) {
				waiting[driver] = append(waiting[driver], pod)
			}
		}
		for _, d := range csiNode.Spec.Drivers {
			here := all[d.Name][facts.NodeName(node)]
			// registered-but-not-served reports a plugin that is not Ready.
			if len(waiting[d.Name]) > 0 && !slices.ContainsFunc(here, func(pod *corev1.Pod) bool { return !facts.Ready(pod) || !pluginHadTime(p.View, pod) }) {
				registrationLost(p, node, d.Name, here, waiting[d.Name])
			}
		}
	}
}

// unknownTo is the driver that the kubelet has not known for longer than a registration takes; ""
// where it reports none.
func unknownTo(p *facts.View, pod *corev1.Pod) (driver string, said *corev1.Event) {
	events := facts.InOrder(p.EventsOf(pod))
	for i := range pod.Spec.Volumes {
		for _, f := range p.MountFailuresIn(events, pod, p.KubeletName(pod, &pod.Spec.Volumes[i]), pod.Spec.Volumes[i].Name) {
			m := kubeletwords.UnknownDriver.FindStringSubmatch(f.Event.Message)
			if m != nil && p.Lasted(facts.FirstTime(f.Event), facts.RegistrationGrace) && p.Age(snapshot.EventTime(f.Event)) < lostGrace {
				return m[1], f.Event
			}
		}
	}
	return "", nil
}

func registrationLost(p *check.Run, node *corev1.Node, driver string, here, waiting []*corev1.Pod) {
	_, said := unknownTo(p.View, waiting[0])
	f := finding.Finding{
		Subject: p.DriverObject(driver),
		Node:    facts.NodeName(node),
		Pods:    facts.PodNames(waiting),
		Since:   new(facts.FirstTime(said)),
		Message: fmt.Sprintf("Pod %s waits on node %s: its kubelet does not know driver %s", facts.PodName(waiting[0]), node.Name, driver),
		Detail:  finding.Clauses("it waits for a volume of the driver, which the node lists as registered", facts.Alike(waiting)),
		Cause: "the kubelet keeps its drivers in memory: it has restarted, or another plugin of that name went, and the socket that is there was not " +
			"registered again; the entry in the CSINode is the one of before",
		Evidence: append([]finding.Evidence{
			{Object: "csinode/" + node.Name, Field: "spec.drivers", Value: "lists " + driver},
			{Object: "pod/" + facts.PodName(waiting[0]), Field: "event " + said.Reason, Value: said.Message},
			{Object: "node/" + node.Name, Field: "status.nodeInfo.kubeletVersion", Value: cmp.Or(node.Status.NodeInfo.KubeletVersion, "not known")},
		}, pluginEvidence(here)...),
		SelfHeals: finding.SelfHeals{Because: facts.ParseKubelet(node.Status.NodeInfo.KubeletVersion).RegistersAgain()},
	}
	f.Advice = step.RestartNodePlugin.Of(driver) + ": its successor makes a new socket, and the kubelet registers that"
	p.Report(f)
}
