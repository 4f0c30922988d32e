package diagnose

import (
	"fmt"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var spotPreemption = Check{
	Code:     "VD117",
	Name:     "spot-preemption",
	Title:    "A pod waits for a volume of a spot machine that its provider has taken away",
	Severity: Error,
	Needs: []snapshot.Kind{
		snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSIDrivers, snapshot.Leases,
	},
	Run: runSpotPreemption,
}

// runSpotPreemption is node-lost-6min where a taint on a spot node tells why.
// Once the Node is gone nothing tells it from any other loss.
func runSpotPreemption(p *Pass) {
	for _, w := range p.lostWaits() {
		sign := preemption(p.Snapshot.Node(w.Node))
		f := p.lostNode(w)
		f.Cause = "the node is of a spot pool, and its taint " + sign + " says that the provider takes or has taken the machine away"
		f.Evidence = append(f.Evidence, Evidence{"node/" + string(w.Node), "spec.taints", sign})
		f.Advice = fmt.Sprintf("wait; or see at the provider that the machine behind %s is gone, delete its Node, and the volume follows within 8 min. "+
			"Until the provider shows it gone it may still write: do not delete the VolumeAttachment. Run a termination handler that drains the node within the "+
			"notice that the provider gives", w.Node)
		p.Report(f)
	}
}
