package diagnose

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var rwoManyConsumers = Check{
	Code:     "VD203",
	Name:     "rwo-many-consumers",
	Title:    "Pods on several nodes want a volume that one node at a time may use",
	Severity: Error,
	Needs: []snapshot.Kind{
		snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSIDrivers,
	},
	Run: runRWOManyConsumers,
}

func runRWOManyConsumers(p *Pass) {
	for _, c := range p.conflicts() {
		if _, ok := c.rollout(); ok {
			continue // rwo-rollout-deadlock says more
		}
		claim := p.claimOf(c.waiters[0], c.Volume)
		// One pod at a time is another rule, which the scheduler keeps.
		if claim == nil || slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteOncePod) {
			continue
		}
		if p.differentVolumes(c.Volume, claim, p.claimOf(c.holders[0], c.Volume)) {
			continue // duplicate-volume-handle says more
		}
		p.manyConsumers(c, claim)
	}
}

func (p *Pass) manyConsumers(c conflict, claim *corev1.PersistentVolumeClaim) {
	waiter, holder, pv := c.waiters[0], c.holders[0], p.shortVolume(c.Volume)
	since := boundAt(waiter)
	p.Report(Finding{
		Subject:          Object{Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
		Volume:           c.Volume,
		Node:             c.Node,
		PersistentVolume: pv,
		VolumeAttachment: c.Name,
		Pods:             podNames(c.waiters),
		Since:            &since,
		Message: fmt.Sprintf("Pod %s waits on node %s for volume %s, which pod %s uses on node %s: the claim %s/%s is for one node at a time%s",
			podName(waiter), waiter.Spec.NodeName, pv, podName(holder), c.Node, claim.Namespace, claim.Name, alike(c.waiters)),
		Cause: "pods on several nodes share the claim: " + sharers(waiter, holder),
		Evidence: []Evidence{
			{"persistentvolumeclaim/" + claim.Namespace + "/" + claim.Name, "spec.accessModes", fmt.Sprint(claim.Spec.AccessModes)},
			{"pod/" + podName(holder), "spec.nodeName", holder.Spec.NodeName},
			{"pod/" + podName(waiter), "spec.nodeName", waiter.Spec.NodeName},
			{c.object(), "status.attached", "true on node " + string(c.Node) + ", and rightly so"},
		},
		SelfHeals: SelfHeals{Because: "the volume stays with the pod that has it until that pod ends"},
		Advice: "run the pods on one node (pod affinity), give each its own claim (a StatefulSet), or use storage that many nodes may mount; " +
			"do not delete the VolumeAttachment, and do not relabel a block volume ReadWriteMany: both lead to two writers on one file system",
	})
}

// sharers says what makes several pods of one claim.
func sharers(a, b *corev1.Pod) string {
	switch {
	case ownerName(a) == "" || ownerName(b) == "":
		return "they are not of one workload"
	case ownerName(a) == ownerName(b):
		return ownerName(a) + " has more than one replica"
	default:
		return fmt.Sprintf("they belong to %s and %s", ownerName(a), ownerName(b))
	}
}

// claimOf is the claim through which the pod reaches the volume.
func (p *Pass) claimOf(pod *corev1.Pod, volume corev1.UniqueVolumeName) *corev1.PersistentVolumeClaim {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if name, _, err := p.World.PodVolume(pod, v); err == nil && name == volume {
			return p.Snapshot.Claim(claimKey(pod, reconcile.ClaimName(pod, v)))
		}
	}
	return nil
}
