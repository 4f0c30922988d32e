package multiattach

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/step"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var RwopConflict = check.Check{
	Code:        "VD204",
	Name:        "rwop-conflict",
	Title:       "A pod waits for a ReadWriteOncePod claim that another pod uses",
	Severity:    finding.Error,
	Breaks:      check.Wants,
	Needs:       []snapshot.Kind{snapshot.Pods, snapshot.Claims, snapshot.Volumes},
	OfNamespace: true,
	Never:       "delete the VolumeAttachment: the claim's pod writes through it",
	Run:         runRWOPConflict,
}

func runRWOPConflict(p *check.Run) {
	for _, claim := range p.Snapshot.Claims {
		if !forOnePod(claim) {
			continue
		}
		pv := p.VolumeOf(claim)
		if pv == nil {
			continue // the volume is not the claim's
		}
		var holders, waiters []*corev1.Pod
		for _, pod := range p.ClaimUsers(claim) {
			switch {
			case pod.DeletionTimestamp != nil:
			case facts.Started(pod):
				holders = append(holders, pod)
			case heldBackByRWOP(pod, pv):
				waiters = append(waiters, pod)
			}
		}
		if len(holders) == 0 {
			continue // the holder is being deleted, and the next pod follows
		}
		waiters = slices.DeleteFunc(waiters, func(pod *corev1.Pod) bool {
			return rolloutElsewhere(pod, holders[0]) || !rivals(p.View, holders, facts.BoundAt(pod))
		})
		if len(waiters) > 0 {
			rwopConflict(p, claim, holders[0], waiters)
		}
	}
}

// forOnePod reports whether the claim is bound and ReadWriteOncePod, which has no effect beside
// another mode.
func forOnePod(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Status.Phase == corev1.ClaimBound && slices.Equal(claim.Spec.AccessModes, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod})
}

// heldBackByRWOP reports whether the pod waits for this rule: the scheduler says so, or
// spec.nodeName bypasses it. The scheduler goes by the claim's modes, the kubelet and the
// controller by the volume's.
func heldBackByRWOP(pod *corev1.Pod, pv *corev1.PersistentVolume) bool {
	if pod.Spec.NodeName != "" {
		return slices.Contains(pv.Spec.AccessModes, corev1.ReadWriteOncePod)
	}
	return facts.SchedulerSays(pod, "ReadWriteOncePod")
}

// rolloutElsewhere reports whether rwo-rollout-deadlock reports the pair.
func rolloutElsewhere(waiter, holder *corev1.Pod) bool {
	return waiter.Spec.NodeName != "" && waiter.Spec.NodeName != holder.Spec.NodeName && snapshot.DeploymentOf(waiter) != "" && snapshot.DeploymentOf(waiter) == snapshot.DeploymentOf(holder)
}

func rwopConflict(p *check.Run, claim *corev1.PersistentVolumeClaim, holder *corev1.Pod, waiters []*corev1.Pod) {
	waiter := waiters[0]
	place, who := "has no node", "the scheduler gives no node to a second pod"
	if waiter.Spec.NodeName != "" {
		place, who = "waits on node "+waiter.Spec.NodeName, "the kubelet mounts the volume for no second pod"
	}
	f := finding.Finding{
		Subject:          facts.ClaimObject(claim),
		PersistentVolume: claim.Spec.VolumeName,
		Node:             facts.NodeOf(holder),
		Pods:             facts.PodNames(waiters),
		Since:            new(facts.BoundAt(waiter)),
		Severity:         p.ConflictSeverity(facts.BoundAt(waiter)),
		Actor:            "pod " + facts.PodName(holder),
		Message:          fmt.Sprintf("Pod %s waits for claim %s/%s, which pod %s has to itself", facts.PodName(waiter), claim.Namespace, claim.Name, facts.PodName(holder)),
		Detail: finding.Clauses(fmt.Sprintf("the pod %s; the claim, with volume %s, is for one pod at a time, and the other pod uses it on node %s",
			place, claim.Spec.VolumeName, holder.Spec.NodeName), facts.Alike(waiters)),
		Cause: "two pods share a ReadWriteOncePod claim: " + sharers(waiter, holder),
		Evidence: []finding.Evidence{
			modesOf(claim),
			{Object: "pod/" + facts.PodName(holder), Field: "status", Value: fmt.Sprintf("%s on node %s, not being deleted", holder.Status.Phase, holder.Spec.NodeName)},
			{Object: "pod/" + facts.PodName(waiter), Field: "status", Value: fmt.Sprintf("%s, %s", waiter.Status.Phase, place)},
		},
		SelfHeals: finding.SelfHeals{Because: "the pod that has it has to end first; " + who + " until the first one has ended"},
		Advice:    "give each its own claim, or end one: " + step.StopPod.Of("any "+facts.PodName(waiter), facts.PodName(holder)),
	}
	if w := facts.WorkloadOf(waiter); w.Scales() && w == facts.WorkloadOf(holder) {
		f.Advice = fmt.Sprintf("give each its own claim, or {final} scale %s to 1", w)
	}
	if d := snapshot.DeploymentOf(waiter); d != "" && d == snapshot.DeploymentOf(holder) {
		f.Cause = fmt.Sprintf("a rolling update of Deployment %s starts the new pod before it ends the old one, which is the claim's only allowed user", d)
		f.SelfHeals.Because = "each pod waits for the other; the new pod waits for the claim, the old one for the new one to be Ready"
		f.Advice = fmt.Sprintf("{change} set the strategy of Deployment %s/%s to Recreate, so that it {final} ends pod %s first; deleted by hand, that pod comes back", holder.Namespace, d, facts.PodName(holder))
	}
	p.Report(f)
}
