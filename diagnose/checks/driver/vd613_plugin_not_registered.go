package driver

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/step"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var PluginNotRegistered = check.Check{
	Code:     "VD613",
	Name:     "plugin-not-registered",
	Title:    "A driver's node plugin runs on a node and is not registered with its kubelet",
	Severity: finding.Warning,
	Needs:    check.AttachmentKinds(snapshot.CSINodes),
	OfDriver: true,
	Never:    "add the driver to the CSINode: the kubelet still has no plugin to call",
	Run:      runPluginNotRegistered,
}

func runPluginNotRegistered(p *check.Run) {
	all := p.Plugins()
	for _, node := range p.Snapshot.Nodes {
		if !p.RegisteredLongEnough(node) {
			continue
		}
		for _, driver := range slices.Sorted(maps.Keys(all)) {
			here := slices.DeleteFunc(slices.Clone(all[driver][facts.NodeName(node)]), func(pod *corev1.Pod) bool { return !facts.Registrar(pod) })
			if len(here) == 0 || !p.Installed(driver) || facts.Registers(p.Snapshot.CSINode(facts.NodeName(node)), driver) {
				continue
			}
			if !slices.ContainsFunc(here, func(pod *corev1.Pod) bool { return !pluginHadTime(p.View, pod) }) {
				users := p.VolumesByDriver(p.Snapshot.PodsOnNode(facts.NodeName(node)), holdsMounts(p.View), func(d string) bool { return d == driver })
				waiting := unregistered(p.View, node)[driver]
				if len(waiting) > 0 && !slices.ContainsFunc(here, facts.Ready) {
					continue // csinode-driver-missing reports how the plugin fails
				}
				notRegistered(p, node, driver, here, facts.PodsOf(users[driver]), waiting)
			}
		}
	}
}

func notRegistered(p *check.Run, node *corev1.Node, driver string, here, users []*corev1.Pod, waiting []facts.PodVolume) {
	plugin := here[0]
	kubelet := facts.ParseKubelet(node.Status.NodeInfo.KubeletVersion)
	cannot := "can neither mount nor unmount"
	ids, _ := facts.NodeIDs(node)
	if !facts.Ready(plugin) || ids[driver] != "" {
		// While it tries to register, the node has the driver for a moment. A kubelet that has
		// taken a driver off the CSINode takes its id off the node's annotation next.
		cannot = "may be unable to mount or unmount"
	}
	f := finding.Finding{
		Subject: p.DriverObject(driver),
		Node:    facts.NodeName(node),
		Pods:    facts.PodNames(users),
		Since:   new(facts.ReadyChanged(plugin)),
		Message: fmt.Sprintf("The kubelet of node %s has not registered the node plugin of %s", node.Name, driver),
		Detail:  finding.Clauses(fmt.Sprintf("the plugin, pod %s, runs there; the kubelet %s volumes of it", facts.PodName(plugin), cannot), othersUse(users)),
		Cause: "the kubelet has not found the plugin's socket, as in another directory, or has refused it: no id for the node, another zone than its label says, " +
			"or a second plugin of the driver",
		Evidence: append([]finding.Evidence{
			p.RegisteredDrivers(node),
			{Object: "pod/" + facts.PodName(plugin), Field: "spec.volumes", Value: "registers in " + facts.RegistrationDirectory(plugin)},
			{Object: "node/" + node.Name, Field: "status.nodeInfo.kubeletVersion", Value: cmp.Or(node.Status.NodeInfo.KubeletVersion, "not known")},
		}, pluginEvidence(here)...),
		SelfHeals: finding.SelfHeals{Because: kubelet.RegistersAgain()},
	}
	readLog(&f, driver, plugin)
	if attachedSince(p.View, node, driver, *f.Since) {
		f.Since = nil // it had registered, and no object shows when the registration was lost
	}
	if len(waiting) > 0 {
		pods := facts.PodsOf(waiting)
		f.Severity, f.Pods = finding.Error, facts.PodNames(pods)
		f.Since = new(facts.Latest(facts.ReadyChanged(plugin), facts.BoundAt(facts.LongestFirst(slices.Clone(pods))[0]))) // since the pod waits
		f.Message = fmt.Sprintf("Pod %s waits on node %s: the plugin of %s is not registered", facts.PodName(waiting[0].Pod), node.Name, driver)
		f.Detail = finding.Clauses(fmt.Sprintf("it waits for volume %s; the plugin, pod %s, runs there",
			waiting[0].Name, facts.PodName(plugin)), facts.Alike(pods))
	}
	if p.Snapshot.CSINode(facts.NodeName(node)) == nil && ids[driver] != "" && p.AttachRequired(driver) {
		lostCSINode(&f, node, driver, len(waiting) > 0)
	} else {
		endsInVain(p.View, &f, users)
		refused(&f, here)
	}
	p.Report(f)
}

// lostCSINode says that the CSINode of a node is missing, although the kubelet has registered the driver: it
// writes the driver's id into the node's annotation right before it writes the CSINode, and takes it out
// where it cannot (InstallCSIDriver and UninstallCSIDriver, nodeinfomanager.go).
func lostCSINode(f *finding.Finding, node *corev1.Node, driver string, waits bool) {
	f.Detail = "the node's annotation has the driver's id for it; without a CSINode no volume of the driver is attached there; the kubelet needs none to mount and unmount"
	if waits {
		f.Detail = finding.Clauses("the node has no CSINode", f.Detail)
	} else {
		f.Message = fmt.Sprintf("Node %s has no CSINode, though its kubelet has registered the node plugin of %s", node.Name, driver)
	}
	f.Since, f.Cause = nil, "somebody deleted the CSINode, or it went with a former Node of this name"
	f.Evidence = append(f.Evidence, finding.Evidence{Object: "node/" + node.Name, Field: "metadata.annotations[" + reconcile.NodeIDsAnnotation + "]", Value: node.Annotations[reconcile.NodeIDsAnnotation]})
	f.SelfHeals.Because = "kubelets make a CSINode only at a start or registration"
	f.Advice = fmt.Sprintf("{check} see whether CSINode %s is there now; if not, %s: its successor registers again", node.Name, step.RestartNodePlugin.Of(driver))
	f.AdviceCommands = []string{safetext.Kubectl("get", "csinode/"+node.Name)}
}

// attachedSince reports whether the attacher has attached a volume of the driver to the node
// since that moment. It does so only where the driver is registered.
func attachedSince(p *facts.View, node *corev1.Node, driver string, since metav1.Time) bool {
	return slices.ContainsFunc(p.AttachmentsOn(facts.NodeName(node)), func(va *storagev1.VolumeAttachment) bool {
		return va.Spec.Attacher == driver && va.Status.Attached && va.CreationTimestamp.After(since.Time)
	})
}

// readLog is the advice about a plugin that is not registered: read the kubelet's answer in the
// registrar's log, and restart it. One that crashes restarts by itself, and its log tells why; one
// that has not started has no log.
func readLog(f *finding.Finding, driver string, plugin *corev1.Pod) {
	if container := crashLoops(plugin); container != "" {
		f.Advice = fmt.Sprintf("{check} read why container %s of pod %s ends again and again", container, facts.PodName(plugin))
		f.AdviceCommands = []string{logsOfLastRun(plugin, container)}
		return
	}
	if !facts.HasLog(plugin) {
		facts.SeeWhyNotReady(f, plugin)
		return
	}
	f.Advice = fmt.Sprintf("{check} read the log of the registrar in pod %s, which has the kubelet's message; %s: its successor registers again",
		facts.PodName(plugin), step.RestartNodePlugin.Of(driver))
	f.AdviceCommands = []string{facts.Logs(plugin)}
}

// refused adds the kubelet's last answer to one of the plugins, where a container's status has
// it, and who has to act.
func refused(f *finding.Finding, plugins []*corev1.Pod) {
	last, ok := facts.LastWordsOf(plugins)
	if !ok {
		return
	}
	facts.Also(f, "its %s has ended", last.Who())
	f.Said = &finding.Quote{Text: last.Message, By: "the plugin's " + last.Who() + ", at its end"}
	if !last.At.IsZero() {
		f.Said.At = &last.At
	}
	f.Evidence = append(f.Evidence, finding.Evidence{Object: "pod/" + facts.PodName(last.Pod), Field: "status.containerStatuses[" + last.Container + "].lastState.terminated.message",
		Value: fmt.Sprintf("%s at %s", last.Message, facts.Stamp(last.At))})
	if blame := last.Blames(); blame.Actor != "" {
		f.Actor, f.Cause, f.Advice = blame.Actor, facts.Acting(blame.Because, blame.Actor), blame.Do
		f.AdviceCommands = nil
	}
}

// logsOfLastRun is the command that shows how the last run of the pod's container ended.
func logsOfLastRun(pod *corev1.Pod, container string) string {
	return safetext.Kubectl("logs", "pod/"+pod.Name, "--namespace="+pod.Namespace, "--container="+container, "--previous", "--tail=50")
}
