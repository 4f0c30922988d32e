package multiattach

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// runOnePodTwice reports two pods on two nodes with a ReadWriteOncePod volume that is never
// attached, such as an NFS share. Only the scheduler keeps them apart: spec.nodeName bypasses it,
// and it forgets a pod that was deleted by force.
func runOnePodTwice(p *check.Run) {
	for _, claim := range p.Snapshot.Claims {
		pv := p.Snapshot.Volume(claim.Spec.VolumeName)
		if !forOnePod(claim) || pv == nil || pv.Spec.CSI == nil {
			continue
		}
		if _, err := p.World.VolumeName(pv); err == nil || p.AttachRequired(pv.Spec.CSI.Driver) {
			continue // runSilentDoubleUse finds an attached volume in volumesInUse
		}
		users := slices.DeleteFunc(p.ClaimUsers(claim), func(pod *corev1.Pod) bool {
			return !facts.MayUseVolumes(pod) || reconcile.PodTerminated(pod) || !reconcile.NodeReady(p.Snapshot.Node(facts.NodeOf(pod)))
		})
		for _, other := range users {
			if facts.NodeOf(other) != facts.NodeOf(users[0]) {
				onePodTwice(p, claim, pv, users[0], other)
				break
			}
		}
	}
}

func onePodTwice(p *check.Run, claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume, first, second *corev1.Pod) {
	f := finding.Finding{
		Subject:          facts.PvObject(pv),
		Node:             facts.NodeOf(second),
		PersistentVolume: pv.Name,
		Pods:             facts.PodNames([]*corev1.Pod{first, second}),
		Since:            new(facts.BoundAt(second)),
		Message:          fmt.Sprintf("Pods %s and %s both use ReadWriteOncePod volume %s", facts.PodName(first), facts.PodName(second), pv.Name),
		Detail:           fmt.Sprintf("the former runs on node %s, the latter on node %s, and both may write to it", first.Spec.NodeName, second.Spec.NodeName),
		Evidence: []finding.Evidence{
			modesOf(claim),
			{Object: "csidriver/" + pv.Spec.CSI.Driver, Field: "spec.attachRequired", Value: "false"},
		},
		Cause: "only the scheduler enforces ReadWriteOncePod between nodes, because the driver's volumes are not attached; the second pod has a node " +
			"without it, or came while the first was being deleted",
		SelfHeals: finding.SelfHeals{Because: "neither kubelet knows of the other pod"},
		Never:     "force-delete a pod: its containers may go on writing to the volume",
		Advice:    facts.StopWriters([]*corev1.Pod{first, second}) + "; {check} check the data",
	}
	for _, pod := range []*corev1.Pod{first, second} {
		state := fmt.Sprintf("%s on node %s", pod.Status.Phase, pod.Spec.NodeName)
		if pod.DeletionTimestamp != nil {
			state += ", Terminating"
			f.SelfHeals = finding.SelfHeals{Unknown: true, Because: fmt.Sprintf("pod %s is Terminating; both write until its containers have ended", facts.PodName(pod))}
		}
		f.Evidence = append(f.Evidence, finding.Evidence{Object: "pod/" + facts.PodName(pod), Field: "status.phase", Value: state})
	}
	p.Report(f)
}
