package driver

import (
	"fmt"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/step"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var AttacherDown = check.Check{
	Code:     "VD604",
	Name:     "attacher-down",
	Title:    "A driver's external-attacher does not run, and attachments wait for it",
	Severity: finding.Error,
	Needs:    check.AttachmentKinds(snapshot.CSINodes, snapshot.Leases),
	OfDriver: true,
	Yields: []check.Yield{
		{To: "VD605", Key: (*facts.View).DriverOf},
	},
	Never: "delete VolumeAttachments or finalizers: they are its list of work",
	Run:   runAttacherDown,
}

func runAttacherDown(p *check.Run) {
	for _, driver := range p.Attachers() {
		lease, tasks := p.Abandoned(driver)
		if len(tasks) == 0 {
			continue
		}
		pods, since := p.TaskPods(tasks), facts.Renewed(lease)
		f := finding.Finding{
			Subject:  p.DriverObject(driver),
			Pods:     facts.PodNames(pods),
			Since:    &since,
			Message:  fmt.Sprintf("The attacher of %s is down: its lease is not renewed", driver),
			Detail:   fmt.Sprintf("it renewed its lease last at %s; %s", facts.Stamp(since), p.Queue(tasks)),
			Cause:    "the external-attacher, which asks the driver to attach and detach, does not run",
			Evidence: append([]finding.Evidence{facts.LeaseEvidence(lease)}, facts.TaskEvidence(tasks)...),
			SelfHeals: finding.SelfHeals{Because: "nobody asks the driver; once its controller pods are back all follow by themselves, those that had failed " +
				"before within about 5 min"},
		}
		bringBack(p.View, &f, lease, facts.IsAttacher)
		if len(pods) == 0 {
			f.Severity = finding.Warning
		}
		endFirst(p.View, &f, tasks)
		p.Report(f)
	}
}

// endFirst adds what to do before the attacher comes back: it would detach volumes under running
// pods.
func endFirst(p *facts.View, f *finding.Finding, tasks []facts.Task) {
	pods := p.TakenTasks(tasks)
	if len(pods) == 0 {
		return
	}
	names := facts.PodNames(pods)
	facts.Also(f, "somebody deleted the VolumeAttachment under running pod %s: once the attacher is back it takes the volume away", names[0])
	f.Advice = step.DeletePod.Of(names...) + " before the attacher is back; {do} " + f.Advice
}

// bringBack completes a finding about a sidecar that no longer renews its lease: why, what brings
// it back, and the state of such pods in its namespace. Images do not show which driver a pod
// serves.
func bringBack(p *facts.View, f *finding.Finding, lease *coordinationv1.Lease, isSidecar func(corev1.Container) bool) {
	f.Advice = p.BringBack(lease)
	var down []*corev1.Pod
	ready := false
	for _, pod := range p.Snapshot.Pods {
		if pod.Namespace != lease.Namespace || !slices.ContainsFunc(pod.Spec.Containers, isSidecar) {
			continue
		}
		if ready = ready || facts.Ready(pod); !facts.Ready(pod) {
			down = append(down, pod)
		}
		f.Evidence = append(f.Evidence, finding.Evidence{Object: "pod/" + facts.PodName(pod), Field: "status", Value: facts.PluginState(pod)})
	}
	if stuck := p.StuckAttacher(lease); stuck != nil {
		f.Cause += ": " + p.StuckAttacherClause(lease)
		f.Evidence = append(f.Evidence, finding.Evidence{Object: "pod/" + facts.PodName(stuck), Field: "metadata.deletionTimestamp", Value: facts.Stamp(*stuck.DeletionTimestamp)})
		return
	}
	f.Cause += ": its pods crash, are not scheduled or were scaled down"
	if len(down) == 1 || len(down) > 1 && !ready {
		f.Advice = fmt.Sprintf("{check} see why pod %s does not become Ready (%s); %s", facts.PodName(down[0]), facts.PluginState(down[0]), f.Advice)
		f.AdviceCommands = []string{facts.Logs(down[0])}
	}
}
