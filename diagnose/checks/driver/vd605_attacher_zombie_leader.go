package driver

import (
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/step"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var AttacherZombieLeader = check.Check{
	Code:     "VD605",
	Name:     "attacher-zombie-leader",
	Title:    "A driver's external-attacher seems to run and does nothing",
	Severity: finding.Error,
	Needs:    check.AttachmentKinds(snapshot.CSINodes, snapshot.Leases),
	OfDriver: true,
	Never:    "delete VolumeAttachments or finalizers: they are its list of work",
	Run:      runAttacherZombieLeader,
}

func runAttacherZombieLeader(p *check.Run) {
	for _, driver := range p.Attachers() {
		if lease, tasks := p.Abandoned(driver); len(tasks) > 0 {
			if pod := p.LeaseHolder(lease); pod != nil {
				lostLease(p, driver, lease, pod, tasks)
			}
		} else if lease, tasks := p.Idle(driver); len(tasks) > 0 {
			idleLeader(p, driver, lease, tasks)
		}
	}
}

func lostLease(p *check.Run, driver string, lease *coordinationv1.Lease, pod *corev1.Pod, tasks []facts.Task) {
	f := zombieFinding(p.View, driver, lease, tasks)
	since := facts.Renewed(lease)
	f.Since = &since
	f.Message = fmt.Sprintf("The attacher of %s hangs: pod %s does not renew its lease", driver, facts.PodName(pod))
	f.Detail = fmt.Sprintf("the pod is Ready and renewed the lease last at %s; %s", facts.Stamp(since), queue(p.View, tasks))
	f.Cause = "the external-attacher in the pod hangs or cannot reach the API server, and no other one takes the lease over"
	f.Evidence = append(f.Evidence, finding.Evidence{Object: "pod/" + facts.PodName(pod), Field: "status", Value: facts.PluginState(pod)})
	f.Advice = step.RestartController.Of(facts.PodName(pod)) + ", so that another one takes over"
	endFirst(p.View, &f, tasks)
	p.Report(f)
}

func idleLeader(p *check.Run, driver string, lease *coordinationv1.Lease, tasks []facts.Task) {
	f := zombieFinding(p.View, driver, lease, tasks)
	f.Since = &tasks[0].Since
	f.Message = fmt.Sprintf("The attacher of %s renews its lease and does nothing", driver)
	f.Detail = queue(p.View, tasks)
	f.Cause = "the external-attacher hangs, sees nothing of the VolumeAttachments, or may not write them; its log tells which"
	f.Advice = "{read-log controller}: where its csi-attacher reports \"forbidden\", {change} give its ClusterRole get, list, watch and patch of volumeattachments and patch of " +
		"volumeattachments/status; where it reports nothing, {restart-driver-controller}, so that another one takes over"
	endFirst(p.View, &f, tasks)
	p.Report(f)
}

func zombieFinding(p *facts.View, driver string, lease *coordinationv1.Lease, tasks []facts.Task) finding.Finding {
	pods := taskPods(p, tasks)
	f := finding.Finding{
		Subject:   p.DriverObject(driver),
		Pods:      facts.PodNames(pods),
		Evidence:  append([]finding.Evidence{facts.LeaseEvidence(lease)}, taskEvidence(tasks)...),
		SelfHeals: finding.SelfHeals{Because: "a process that hangs does not recover; somebody, or a liveness probe, has to restart it"},
	}
	if len(pods) == 0 {
		f.Severity = finding.Warning
	}
	return f
}
