package driver

import (
	"fmt"
	"slices"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/step"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var AttacherThrottled = check.Check{
	Code:     "VD609",
	Name:     "attacher-throttled",
	Title:    "A driver's attachments are worked off slowly",
	Severity: finding.Info,
	Needs:    check.AttachmentKinds(snapshot.CSINodes, snapshot.Leases),
	OfDriver: true,
	Never:    "touch all the VolumeAttachments or restart the driver: both make more calls",
	Run:      runAttacherThrottled,
}

const (
	// manyTasks is how many attachments of a driver must wait to count as a queue: more than a
	// sidecar's ten workers handle at a time.
	manyTasks = 15
	// queueMoves is how old the last answer may be in a queue that moves: the attacher's longest
	// back-off.
	queueMoves = facts.AttacherMaxBackoff
)

func runAttacherThrottled(p *check.Run) {
	for _, driver := range p.Attachers() {
		tasks := p.Older(p.Tasks(driver), facts.AttachGrace)
		limited := slices.DeleteFunc(slices.Clone(tasks), func(t facts.Task) bool {
			return t.Failure == nil || !facts.Throttled(driver, t.Failure.Message) || p.Age(t.Failure.Time) >= facts.AttacherRetries
		})
		waiting := slices.DeleteFunc(slices.Clone(tasks), func(t facts.Task) bool { return t.Failure != nil })
		switch {
		case len(limited) > 0:
			slow(p, driver, limitedSeverity(p.View, limited), limited, fmt.Sprintf("The storage system limits the calls of driver %s", driver),
				"the provider limits how many calls may be made in a time, for this cluster or for the whole account; the driver says so",
				"{note} look for what else makes calls on the account, and ask the provider for a higher quota")
		case len(waiting) >= manyTasks && p.Age(p.LastAnswer(driver)) < queueMoves && p.AttacherAtWork(driver):
			slow(p, driver, queueSeverity(p.View, waiting), waiting, fmt.Sprintf("Many VolumeAttachments wait for driver %s, which works them off slowly", driver),
				"more volumes are to be attached and detached than the attacher's workers, its rate of calls to the API server or the storage system allow",
				"{wait}; {later} give the attacher a higher --kube-api-qps, --kube-api-burst, --worker-threads and --timeout")
		}
	}
}

// limitedSeverity is higher where pods wait.
func limitedSeverity(p *facts.View, tasks []facts.Task) finding.Severity {
	if len(taskPods(p, tasks)) > 0 {
		return finding.Warning
	}
	return finding.Info
}

// queueSeverity is a warning once a pod has waited in the queue for longer than is usual.
func queueSeverity(p *facts.View, tasks []facts.Task) finding.Severity {
	if !p.Lasted(tasks[0].Since, facts.StuckDeleting) {
		return finding.Info
	}
	return limitedSeverity(p, tasks)
}

func slow(p *check.Run, driver string, severity finding.Severity, tasks []facts.Task, what, cause, advice string) {
	heals := finding.SelfHeals{Will: true, Because: "the attacher tries again, at most 5 min apart, and works its list off"}
	if p.Lasted(tasks[0].Since, facts.StuckDeleting) { // the queue may never reach it
		heals = finding.SelfHeals{Unknown: true, Because: "it has taken longer than usual; " + heals.Because}
		advice = step.PastWait(advice)
	}
	p.Report(finding.Finding{
		Severity:  severity,
		Subject:   p.DriverObject(driver),
		Pods:      facts.PodNames(taskPods(p.View, tasks)),
		Since:     &tasks[0].Since,
		Message:   what,
		Detail:    queue(p.View, tasks),
		Cause:     cause + "; one look does not tell how fast the queue moves",
		Evidence:  taskEvidence(tasks),
		SelfHeals: heals,
		Advice:    advice,
	})
}
