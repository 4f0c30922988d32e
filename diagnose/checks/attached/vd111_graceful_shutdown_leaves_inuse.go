package attached

import (
	"fmt"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var GracefulShutdownLeavesInuse = check.Check{
	Code:     "VD111",
	Name:     "graceful-shutdown-leaves-inuse",
	Title:    "A pod waits for a volume of a node that shut down in order, but without an unmount",
	Severity: finding.Error,
	Breaks:   check.Uses,
	Needs:    check.AttachmentKinds(snapshot.Leases),
	OfDriver: true,
	Yields: []check.Yield{
		{To: "VD114", Key: check.OfAttachment},
	},
	Never: "delete the VolumeAttachment or force-delete the pod: data loss if the node still writes",
	Run:   runGracefulShutdownLeavesInuse,
}

// runGracefulShutdownLeavesInuse is node-lost-6min where the kubelet itself has reported the
// cause. The wait is the same, and the next one can be avoided.
func runGracefulShutdownLeavesInuse(p *check.Run) {
	for _, w := range p.LostWaits() {
		ended := p.ShutDown(p.Snapshot.Node(w.Node))
		if ended == nil || len(w.Holders) > 0 {
			continue
		}
		f := lostNode(p.View, w)
		f.Cause = "the node shut down in order and ended its pods, but the kubelet stopped before it had unmounted their volumes, so that the list of " +
			"volumes in use was never cleared"
		f.Evidence = append(f.Evidence, finding.Evidence{Object: "pod/" + facts.PodName(ended), Field: "status",
			Value: fmt.Sprintf("%s, reason %s: %s", ended.Status.Phase, ended.Status.Reason, ended.Status.Message)})
		f.Advice = "{later} give the kubelet a longer shutdownGracePeriod, and have each node drained before its machine is stopped"
		p.Report(f)
	}
}
