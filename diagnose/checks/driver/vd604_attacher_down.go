package driver

import (
	"fmt"
	"slices"

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
		pods, since := taskPods(p.View, tasks), facts.Renewed(lease)
		f := finding.Finding{
			Subject:  p.DriverObject(driver),
			Pods:     facts.PodNames(pods),
			Since:    &since,
			Message:  fmt.Sprintf("The attacher of %s is down: its lease is not renewed", driver),
			Detail:   fmt.Sprintf("it renewed its lease last at %s; %s", facts.Stamp(since), queue(p.View, tasks)),
			Cause:    "the external-attacher does not run",
			Evidence: append([]finding.Evidence{facts.LeaseEvidence(lease)}, taskEvidence(tasks)...),
			SelfHeals: finding.SelfHeals{Because: "nobody asks the driver; once its controller pods are back all follow by themselves, those that had failed " +
				"before within about 5 min"},
		}
		p.ExplainDown(&f, lease, facts.IsAttacher)
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
	pods := takenTasks(p, tasks)
	if len(pods) == 0 {
		return
	}
	names := facts.PodNames(pods)
	facts.Also(f, "somebody deleted the VolumeAttachment under running pod %s: once the attacher is back it takes the volume away", names[0])
	f.Advice = step.DeletePod.Of(names...) + " before the attacher is back; {do} " + f.Advice
}

// takenTasks returns the pods from under which an attacher that is not at work will detach volumes
// once it is back.
func takenTasks(p *facts.View, tasks []facts.Task) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, va := range p.Attachments() {
		if slices.ContainsFunc(tasks, func(t facts.Task) bool { return t.VolumeAttachment == va.VolumeAttachment }) {
			if runner := p.TakenFrom(va); runner != nil {
				pods = append(pods, runner.Pod)
			}
		}
	}
	return facts.EachOnce(pods)
}
