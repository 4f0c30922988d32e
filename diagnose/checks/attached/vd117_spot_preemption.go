package attached

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var SpotPreemption = check.Check{
	Code:     "VD117",
	Name:     "spot-preemption",
	Title:    "A pod waits for a volume of a spot machine that its provider has taken away",
	Severity: finding.Error,
	Needs:    check.AttachmentKinds(snapshot.Leases),
	OfDriver: true,
	Yields: []check.Yield{
		{To: "VD111", Key: check.OfAttachment},
		{To: "VD114", Key: check.OfAttachment},
	},
	Never: "delete the VolumeAttachment or force-delete the pod: data loss if the node still writes",
	Run:   runSpotPreemption,
}

// runSpotPreemption is node-lost-6min where a taint on a spot node shows the cause. Without the
// Node it looks like any other loss.
func runSpotPreemption(p *check.Run) {
	for _, w := range p.LostWaits() {
		sign := preemption(p.Snapshot.Node(w.Node))
		if sign == "" {
			continue
		}
		f := lostNode(p.View, w)
		f.Cause = "the node is of a spot pool, and its taint " + sign + " says that the provider takes or has taken the machine away"
		f.Evidence = append(f.Evidence, finding.Evidence{Object: "node/" + string(w.Node), Field: "spec.taints", Value: sign})
		f.ByHand = fmt.Sprintf("{check} check at the provider that the machine behind %s is gone; {delete-node}: the volume follows within 8 min", w.Node)
		f.Advice = "{later} run a termination handler that drains the node within the notice that the provider gives"
		f.AdviceCommands = nil
		p.Report(f)
	}
}

// preemption is the taint of a spot node whose provider takes the machine away; "" where there is
// none. A spot pool alone shows nothing: its nodes fail for other reasons, too.
func preemption(node *corev1.Node) string {
	if node == nil || reconcile.NodeReady(node) || !slices.ContainsFunc(spotLabels, func(l [2]string) bool { return strings.EqualFold(node.Labels[l[0]], l[1]) }) {
		return ""
	}
	for _, taint := range node.Spec.Taints {
		if slices.Contains(preemptionTaints, taint.Key) {
			return taint.Key
		}
	}
	return ""
}

var spotLabels = [][2]string{
	{"karpenter.sh/capacity-type", "spot"},
	{"eks.amazonaws.com/capacityType", "spot"},
	{"cloud.google.com/gke-spot", "true"},
	{"cloud.google.com/gke-preemptible", "true"},
	{"kubernetes.azure.com/scalesetpriority", "spot"},
	{"node.kubernetes.io/lifecycle", "spot"},
}

// preemptionTaints are set by termination handlers, and by the cloud's node controller once the
// machine is off.
var preemptionTaints = []string{
	"aws-node-termination-handler/spot-itn",
	"cloud.google.com/impending-node-termination",
	reconcile.ShutdownTaint,
}
