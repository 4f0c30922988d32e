package multiattach

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// conflicts are the single-node volumes that one node holds and for which pods on other nodes
// wait.
func conflicts(p *facts.View) []facts.Conflict {
	waiting := p.Waiting()
	attached := map[corev1.UniqueVolumeName][]types.NodeName{}
	var list []facts.Conflict
	for _, va := range p.Attachments() {
		if len(waiting[va.Volume]) == 0 || !va.Holds() {
			continue
		}
		attached[va.Volume] = append(attached[va.Volume], va.Node)
		if !va.Ours() || !facts.StaysOn(p.Snapshot.Node(va.Node)) || !p.OneNode(va.Volume) {
			continue
		}
		c := facts.Conflict{Attachment: va}
		for _, pod := range p.World.LivePods(va.VolumeNode) {
			// A pod that has ended is terminated-pod-holds-volume.
			if pod.DeletionTimestamp == nil && facts.Started(pod) && !reconcile.PodTerminated(pod) {
				c.Holders = append(c.Holders, pod)
			}
		}
		for _, pod := range p.WaitingElsewhere(va.VolumeNode) {
			if rivals(p, c.Holders, facts.BoundAt(pod)) {
				c.Waiters = append(c.Waiters, pod)
			}
		}
		if len(c.Holders) > 0 && len(c.Waiters) > 0 {
			list = append(list, c)
		}
	}
	// A volume that is attached to several nodes is two-vas-one-rwo, which is worse.
	return slices.DeleteFunc(list, func(c facts.Conflict) bool {
		return slices.ContainsFunc(attached[c.Volume], func(node types.NodeName) bool { return node != c.Node })
	})
}

// rivals reports whether a pod that has waited since then counts as a rival of the holders.
func rivals(p *facts.View, holders []*corev1.Pod, since metav1.Time) bool {
	if slices.ContainsFunc(holders, facts.RunsOn) {
		return p.Lasted(since, facts.ConflictGrace)
	}
	return p.Lasted(since, facts.ConflictFails)
}
