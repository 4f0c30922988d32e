package nodestatus

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

var keptReporting facts.Kept[[]*corev1.Node]

// reportingNodes are the nodes whose kubelets have run long enough for their volumesInUse to be
// complete, as far as the objects show.
func reportingNodes(p *facts.View) []*corev1.Node {
	return keptReporting.Of(p, func(p *facts.View) []*corev1.Node {
		return slices.DeleteFunc(slices.Clone(p.Snapshot.Nodes), func(node *corev1.Node) bool {
			return !reconcile.NodeReady(node) || !p.World.Managed.Has(facts.NodeName(node)) || facts.TakesNoPlugin(node) || p.LeaseStale(facts.NodeName(node)) ||
				!p.Lasted(facts.Latest(node.CreationTimestamp, facts.ReadyCondition(node).LastTransitionTime), facts.KubeletReports)
		})
	})
}

// unlisted are the attached volumes of the node that its volumesInUse lacks, each with a pod
// there that wants it, passes the test and uses it in a container. The pods that have been there
// longest come first.
func unlisted(p *facts.View, node *corev1.Node, vas []facts.Attachment, test func(*corev1.Pod, facts.Attachment) bool) []facts.PodVolume {
	var list []facts.PodVolume
	for _, va := range vas {
		if p.InUse(node, va.Volume) || !va.Holds() || !va.Ours() {
			continue
		}
		row := p.World.Desired.Find(va.VolumeNode)
		if row == nil {
			continue
		}
		for _, pod := range p.WantingPods(row) {
			if test(pod, va) && p.ContainersUse(pod, va.Volume) {
				list = append(list, facts.PodVolume{Pod: pod, Volume: va.Volume, Name: p.ShortVolumeOf(va)})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b facts.PodVolume) int { return facts.BoundAt(a.Pod).Compare(facts.BoundAt(b.Pod).Time) })
	return list
}
