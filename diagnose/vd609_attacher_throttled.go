package diagnose

import (
	"fmt"
	"slices"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var attacherThrottled = Check{
	Code:     "VD609",
	Name:     "attacher-throttled",
	Title:    "A driver's attachments are worked off slowly",
	Severity: Info,
	Needs: []snapshot.Kind{
		snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSIDrivers, snapshot.CSINodes, snapshot.Leases,
	},
	Run: runAttacherThrottled,
}

const (
	// manyTasks is how many attachments must wait for their driver before that
	// counts as a queue: more than a sidecar's ten workers have in hand at once.
	manyTasks = 15
	// queueMoves is how long ago the last answer may be in a queue that moves:
	// the attacher's longest back-off.
	queueMoves = 5 * time.Minute
)

func runAttacherThrottled(p *Pass) {
	for _, driver := range p.attachers() {
		tasks := p.older(p.tasks(driver), attachSettles)
		limited := slices.DeleteFunc(slices.Clone(tasks), func(t task) bool {
			return t.failure == nil || !throttled(t.failure.Message) || p.Age(t.failure.Time) >= attacherRetries
		})
		waiting := slices.DeleteFunc(slices.Clone(tasks), func(t task) bool { return t.failure != nil })
		switch {
		case len(limited) > 0:
			p.slow(driver, limited, fmt.Sprintf("The storage system lets %s make fewer calls than it would", driver),
				"the provider limits how many calls may be made in a time, for this cluster or for the whole account; the driver says so",
				"look for what else makes calls on the account, and ask the provider for a higher quota; do not restart the driver, which begins with a call for each volume")
		case len(waiting) >= manyTasks && p.Age(p.lastAnswer(driver)) < queueMoves && p.attacherAtWork(driver):
			p.slow(driver, waiting, fmt.Sprintf("Many attachments wait for %s, which is at work", driver),
				"more is to be attached and detached than the attacher's workers, its calls to the API server or the storage system let through",
				"wait; where it is so each time, give the attacher a higher --kube-api-qps, --kube-api-burst, --worker-threads and --timeout")
		}
	}
}

func (p *Pass) slow(driver string, tasks []task, what, cause, advice string) {
	p.Report(Finding{
		Subject:   p.driverObject(driver),
		Pods:      podNames(p.taskPods(tasks)),
		Since:     &tasks[0].since,
		Message:   fmt.Sprintf("%s: %s", what, p.queue(tasks)),
		Cause:     cause + "; one snapshot cannot tell how fast it goes",
		Evidence:  taskEvidence(tasks),
		SelfHeals: SelfHeals{Will: true, Because: "the attacher tries again, at most 5 min apart, and works its list off; whether it does shows when this is run again"},
		Advice:    advice + "; to touch all the VolumeAttachments at once makes it worse",
	})
}
