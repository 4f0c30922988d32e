package diagnose

import (
	"fmt"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var gracefulShutdownLeavesInuse = Check{
	Code:     "VD111",
	Name:     "graceful-shutdown-leaves-inuse",
	Title:    "A pod waits for a volume of a node that shut down in order, but without an unmount",
	Severity: Error,
	Needs: []snapshot.Kind{
		snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSIDrivers, snapshot.Leases,
	},
	Run: runGracefulShutdownLeavesInuse,
}

// runGracefulShutdownLeavesInuse is node-lost-6min where the kubelet itself has
// told why: the wait is the same, the next one can be avoided.
func runGracefulShutdownLeavesInuse(p *Pass) {
	for _, w := range p.lostWaits() {
		ended := p.shutDown(p.Snapshot.Node(w.Node))
		f := p.lostNode(w)
		f.Cause = "the node shut down in order and ended its pods, but the kubelet stopped before it had unmounted their volumes, so that the list of " +
			"volumes in use was never cleared"
		f.Evidence = append(f.Evidence, Evidence{"pod/" + podName(ended), "status",
			fmt.Sprintf("%s, reason %s: %s", ended.Status.Phase, ended.Status.Reason, ended.Status.Message)})
		f.Advice += ". For the next time give the kubelet a longer shutdownGracePeriod, and drain a node before its machine is stopped"
		p.Report(f)
	}
}
