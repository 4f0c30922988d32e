package driver

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/kubeletwords"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var RegisteredButNotServed = check.Check{
	Code:     "VD615",
	Name:     "registered-but-not-served",
	Title:    "A node lists a CSI driver as registered whose node plugin does not work there",
	Severity: finding.Warning,
	Needs:    check.AttachmentKinds(snapshot.CSINodes),
	OfDriver: true,
	Never:    "edit the CSINode by hand: the kubelet writes it",
	Run:      runRegisteredButNotServed,
}

// runRegisteredButNotServed reports a plugin that fails. A missing plugin proves little, as a
// driver may run beside the cluster: the proof is a kubelet that gets no answer, or a pod that
// cannot go.
func runRegisteredButNotServed(p *check.Run) {
	all := p.Plugins()
	for node, csiNode := range p.RegisteredNodes() {
		for _, d := range csiNode.Spec.Drivers {
			here := all[d.Name][facts.NodeName(node)]
			if slices.ContainsFunc(here, func(pod *corev1.Pod) bool { return facts.Ready(pod) || !pluginHadTime(p.View, pod) }) {
				continue
			}
			its := func(driver string) bool { return driver == d.Name }
			users := p.VolumesByDriver(p.Snapshot.PodsOnNode(facts.NodeName(node)), holdsMounts(p.View), its)
			waiting := p.VolumesByDriver(p.PendingOn(facts.NodeName(node)), func(pod *corev1.Pod) bool { return waitsForMount(p.View, pod) }, its)
			waits, uses := attachedOf(p.View, waiting[d.Name], node), facts.PodsOf(users[d.Name])
			if len(here) == 0 {
				waits = facts.LongestFirst(facts.PodsOf(slices.DeleteFunc(waiting[d.Name], func(v facts.PodVolume) bool { return nobodyAnswers(p.View, v) == nil })))
				stuck := slices.ContainsFunc(uses, func(pod *corev1.Pod) bool { return stuckUnmounting(p.View, pod) }) && p.ServedByDaemonSet(d.Name) && !rolling(p.View, all[d.Name])
				if len(waits) == 0 && !stuck {
					continue
				}
			}
			notServed(p, node, d.Name, here, waits, uses)
		}
	}
}

// nobodyAnswers is the kubelet's recent and repeated event that it cannot reach the driver's
// socket for the volume; nil where there is none.
func nobodyAnswers(p *facts.View, v facts.PodVolume) *corev1.Event {
	for _, f := range p.MountFailures(v.Pod, v.Name) {
		if facts.ContainsAny(f.Reason, kubeletwords.NobodyListens, kubeletwords.SocketMissing) &&
			p.Lasted(facts.FirstTime(f.Event), facts.RegistrationGrace) && p.Age(snapshot.EventTime(f.Event)) < lostGrace {
			return f.Event
		}
	}
	return nil
}

// waitsForMount reports whether the pending pod has waited on its node for longer than a mount
// takes.
func waitsForMount(p *facts.View, pod *corev1.Pod) bool {
	return !reconcile.PodTerminated(pod) && p.Lasted(facts.BoundAt(pod), facts.PluginDown)
}

// attachedOf are the pods whose volume waits for nothing but the mount.
func attachedOf(p *facts.View, volumes []facts.PodVolume, node *corev1.Node) []*corev1.Pod {
	return facts.LongestFirst(facts.PodsOf(slices.DeleteFunc(slices.Clone(volumes), func(v facts.PodVolume) bool {
		return v.Volume != "" && !slices.ContainsFunc(p.World.Attachments(reconcile.VolumeNode{Volume: v.Volume, Node: facts.NodeName(node)}),
			facts.Holds)
	})))
}

func notServed(p *check.Run, node *corev1.Node, driver string, here, waiting, users []*corev1.Pod) {
	f := finding.Finding{
		Subject:  p.DriverObject(driver),
		Node:     facts.NodeName(node),
		Evidence: append([]finding.Evidence{{Object: "csinode/" + node.Name, Field: "spec.drivers", Value: "lists " + driver}}, pluginEvidence(here)...),
		SelfHeals: finding.SelfHeals{Because: "nothing takes the entry off while the kubelet lives; the scheduler and the attacher go by it; mounts and unmounts go " +
			"on within about 5 min after the plugin has come back"},
		Advice: fmt.Sprintf("{fix} bring the driver's node plugin on %s back: see why its pod is not there or not Ready", node.Name),
	}
	f.Cause = "the plugin's pod went without a word to the kubelet: it was killed, its node crashed, or its DaemonSet no longer wants it there"
	what, not := "no pod serves there", "not"
	if len(here) > 0 {
		since := facts.ReadyChanged(here[0])
		f.Since = &since
		f.Cause = "the plugin's containers fail; its socket is still registered, and calls to it end in refused connections"
		if facts.Runs(here[0]) { // the container may be the driver's own
			not, f.SelfHeals.Unknown = "may not be", true
			f.SelfHeals.Because = "mounts go on if the driver's own container runs; " + f.SelfHeals.Because
			f.Cause = "a container of the plugin fails; its socket is still registered, and where that container is the driver's own, calls to it end in refused connections"
		}
		f.Advice = fmt.Sprintf("{fix} bring the driver's node plugin on %s back: see why pod %s is not Ready", node.Name, facts.PodName(here[0]))
		f.AdviceCommands = []string{facts.Logs(here[0])}
		what = fmt.Sprintf("its pod %s has not been Ready there for %s", facts.PodName(here[0]), facts.Rounded(p.Age(since)))
	} else {
		f.Evidence = append(f.Evidence, finding.Evidence{Object: "node/" + node.Name, Field: "pods", Value: "none mounts the directory plugins/" + driver})
	}
	if len(waiting) > 0 {
		f.Severity, f.Pods = finding.Error, facts.PodNames(waiting)
		f.Message = fmt.Sprintf("Pod %s waits on node %s: driver %s is registered and %s served", facts.PodName(waiting[0]), node.Name, driver, not)
		f.Detail = finding.Clauses("it waits for a volume of the driver; "+what, facts.Alike(waiting))
	} else {
		f.Pods = facts.PodNames(users)
		cannot := "can be neither mounted nor unmounted"
		if len(here) > 0 && facts.Runs(here[0]) {
			cannot = "may be neither mounted nor unmounted: a container of it still runs"
		}
		f.Message = fmt.Sprintf("Driver %s is registered on node %s and %s served there", driver, node.Name, not)
		f.Detail = finding.Clauses(what, "volumes of it "+cannot, othersUse(users))
		endsInVain(p.View, &f, users)
	}
	p.Report(f)
}
