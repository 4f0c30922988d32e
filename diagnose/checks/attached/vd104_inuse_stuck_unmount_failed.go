package attached

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var InuseStuckUnmountFailed = check.Check{
	Code:        "VD104",
	Name:        "inuse-stuck-unmount-failed",
	Title:       "A kubelet does not unmount a volume that no pod uses any more, which blocks its detach without limit",
	Severity:    finding.Warning,
	Breaks:      check.Uses,
	Needs:       check.AttachmentKinds(),
	OfNamespace: true,
	OfDriver:    true,
	Follows: []check.Relation{
		{From: []finding.Code{"VD602", "VD613", "VD614", "VD615"}, Share: check.OnNode, Match: check.SameDriverOnNode},
		{From: []finding.Code{"VD601", "VD607", "VD612"}, Match: nobodyUnmounts},
		{From: []finding.Code{"VD205"}, Share: check.OfVolume, Match: sameNode},
	},
	Never: "delete the VolumeAttachment: it takes the disk from under a mount",
	Run:   runInuseStuckUnmountFailed,
}

func sameNode(_ *facts.View, cause, effect finding.Finding) bool { return cause.Node == effect.Node }

func runInuseStuckUnmountFailed(p *check.Run) {
	for _, va := range p.Attachments() {
		if !keptAfterUse(p.View, va) {
			continue
		}
		if pods, _ := heldByEnded(p.View, va.VolumeNode); len(pods) > 0 {
			continue // terminated-pod-holds-volume: nothing has failed
		}
		if slices.ContainsFunc(p.EndedPods(va.VolumeNode), func(pod *corev1.Pod) bool { return mayNotBeStopped(p.View, pod) }) {
			continue // pod-does-not-end: the kubelet has not come to the unmount
		}
		if since, long, proven := unused(p.View, va); long {
			f := keptFinding(p.View, va)
			f.Since = &since
			unmountFailed(p, f, va, proven)
		}
	}
}

// mayNotBeStopped reports whether the kubelet fails to stop the pod or to release its claims, or may,
// as the events were not read.
func mayNotBeStopped(v *facts.View, pod *corev1.Pod) bool {
	return v.NotStopped(pod) != nil || v.ClaimsKept(pod) || !v.Snapshot.CompleteIn(snapshot.Events, pod.Namespace)
}

// keptFinding is the common part of the findings about a volume in use by nobody. The caller
// completes its message.
func keptFinding(p *facts.View, va facts.Attachment) finding.Finding {
	f := p.About(va, finding.Finding{
		Evidence: []finding.Evidence{
			{Object: va.Object(), Field: "status.attached", Value: "true, not being deleted"},
			{Object: "node/" + string(va.Node), Field: "status.volumesInUse", Value: string(va.Volume)},
			{Object: "node/" + string(va.Node), Field: "status.conditions[Ready]", Value: facts.ReadyText(p.Snapshot.Node(va.Node))},
		},
	})
	p.AddKeptFrom(&f)
	if node := p.Snapshot.Node(va.Node); node.DeletionTimestamp != nil {
		facts.Also(&f, "node %s has been Terminating for %s", node.Name, facts.Rounded(p.Age(*node.DeletionTimestamp)))
		if len(node.Finalizers) > 0 {
			facts.Also(&f, "its finalizer %s may wait for this volume", node.Finalizers[0])
		}
		f.Evidence = append(f.Evidence, finding.Evidence{Object: "node/" + node.Name, Field: "metadata.finalizers", Value: fmt.Sprint(node.Finalizers)})
	}
	if i := slices.IndexFunc(p.Snapshot.Pods, func(pod *corev1.Pod) bool {
		return facts.IsPending(pod) && pod.Spec.NodeName == "" && p.Mounts(pod, va.Volume)
	}); i >= 0 {
		facts.Also(&f, "pod %s, which has no node yet, wants it, too", facts.PodName(p.Snapshot.Pods[i]))
	}
	return f
}

func unmountFailed(p *check.Run, f finding.Finding, va facts.Attachment, proven bool) {
	driver, _, _ := reconcile.ParseCSI(va.Volume)
	f.Message = fmt.Sprintf("The kubelet of node %s cannot unmount unused volume %s", f.Node, f.PersistentVolume)
	f.Detail = finding.Clauses(fmt.Sprintf("in use there without a pod for at least %s; the controller waits for the unmount", facts.Rounded(p.Age(*f.Since))), f.Detail)
	f.Cause = "the kubelet fails to unmount the volume, and says so only in its log: something else on the node holds it, or the driver's node plugin fails"
	ended := p.EndedPods(va.VolumeNode)
	for _, pod := range ended {
		f.Evidence = append(f.Evidence, finding.Evidence{Object: "pod/" + facts.PodName(pod), Field: "status", Value: endedText(pod)})
		if pod.DeletionTimestamp != nil {
			f.Cause = fmt.Sprintf("the containers of pod %s have ended, but the kubelet fails to unmount the volume for it, or to unstage it after that, and says so only in its log; "+
				"the pod object stays as long as a volume of the pod is mounted", facts.PodName(pod))
			if len(f.Pods) == 0 {
				facts.Also(&f, "pod %s is Terminating, and may wait for that too", facts.PodName(pod))
			}
			f.Pods, f.Severity = slices.Sorted(slices.Values(append(f.Pods, facts.PodName(pod)))), finding.Error // the pod may not be able to end
		}
	}
	needs := "what holds the volume has to be fixed first"
	look := "UnmountDevice or TearDown; find there what holds the mount (findmnt, multipath)"
	if pv := p.Snapshot.Volume(f.PersistentVolume); pv != nil && ptr.Deref(pv.Spec.VolumeMode, "") == corev1.PersistentVolumeBlock {
		look = "UnmapVolume or UnmapDevice; find there what holds the device (lsof, losetup, dmsetup, multipath)"
		f.Never = "delete the VolumeAttachment: it takes the disk from under what still uses it"
	}
	f.Advice = fmt.Sprintf("{note} on node %s read the kubelet's log for %s; {restart-node-plugin}; if that does not help, {drain-node} and {reboot-node}", va.Node, look)
	if !p.Snapshot.Complete(snapshot.CSINodes) {
		f.Cause += "; whether the driver is registered on the node is not known"
	} else if !facts.Registers(p.Snapshot.CSINode(va.Node), driver) {
		f.Cause = fmt.Sprintf("driver %s is not registered on the node: the kubelet has nobody to ask for the unmount", driver)
		needs = "the driver's node plugin has to register there first"
		f.Evidence = append(f.Evidence, p.RegisteredDrivers(p.Snapshot.Node(va.Node)))
		f.Advice = fmt.Sprintf("{fix} bring the node plugin of %s back on node %s, and see it register: the kubelet then unmounts the volume; if it does not, {drain-node} and {reboot-node}",
			driver, va.Node)
		plugins := p.Plugins()[driver][va.Node]
		if i := slices.IndexFunc(plugins, func(pod *corev1.Pod) bool { return !facts.Ready(pod) }); i >= 0 {
			facts.SeeWhyNotReady(&f, plugins[i])
			f.Advice += ": once it registers, the kubelet unmounts the volume"
		} else if len(plugins) > 0 {
			f.Advice = "{restart-node-plugin}, so that it registers: the kubelet then unmounts the volume; if it does not, {drain-node} and {reboot-node}"
		}
	}
	f.SelfHeals.Because = needs + "; the kubelet tries again, at most 2m2s apart; while it fails and the node is Ready, the controller waits without " +
		"limit (up to 1.24.8 it detached after 6 min, mounted or not)"
	if !p.Snapshot.CompleteIn(snapshot.Leases, corev1.NamespaceNodeLease) {
		f.Message = fmt.Sprintf("The kubelet of node %s has not unmounted unused volume %s", f.Node, f.PersistentVolume)
		f.Cause = "the kubelet does not run; or " + f.Cause
		f.SelfHeals.Unknown = true
		f.SelfHeals.Because = "no lease was read to show that the kubelet runs; where the kubelet runs, " + f.SelfHeals.Because
	} else if p.LeaseStale(va.Node) {
		f.Cause = "the kubelet does not run, or does not reach the API server: it no longer renews its lease"
		f.Evidence = append(f.Evidence, p.RenewedLease(va.Node)...)
		f.Advice = fmt.Sprintf("{fix} see to it that machine %s and its kubelet run again: the kubelet then unmounts the volume, or shows why it cannot", va.Node)
		f.AdviceCommands = nil
		f.SelfHeals = finding.SelfHeals{Unknown: true, Because: "nothing is unmounted until the kubelet works again; while the node counts as Ready, the controller waits without limit"}
	}
	if !proven {
		f = f.UntilAgain(p.Snapshot.TakenAt, facts.UnusedGrace, "another pod used the volume there until a moment ago, and the kubelet has not unmounted it yet")
	}
	p.Report(f)
}

func endedText(pod *corev1.Pod) string {
	text := string(pod.Status.Phase) + ", no container runs"
	if pod.DeletionTimestamp != nil {
		text += ", Terminating since " + facts.Stamp(facts.EndAsked(pod))
	}
	return text
}

// nobodyUnmounts reports whether the kubelet has no node plugin to call, because the driver is
// missing.
func nobodyUnmounts(p *facts.View, cause, effect finding.Finding) bool {
	return check.SameDriver(p, cause, effect) && check.UnpluggedDriver(p, effect) != ""
}
