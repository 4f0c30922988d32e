package multiattach

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var RwoManyConsumers = check.Check{
	Code:        "VD203",
	Name:        "rwo-many-consumers",
	Title:       "Pods on several nodes want a volume that one node at a time may use",
	Severity:    finding.Error,
	Breaks:      check.Wants,
	Needs:       check.AttachmentKinds(snapshot.CSINodes),
	OfNamespace: true,
	OfDriver:    true,
	Never:       "delete the VolumeAttachment or relabel a block volume ReadWriteMany: both lead to two writers on one file system",
	Run:         runRWOManyConsumers,
}

func runRWOManyConsumers(p *check.Run) {
	for _, c := range conflicts(p.View) {
		if _, rollout := c.Rollout(); rollout {
			continue // rwo-rollout-deadlock, unless the node is lost
		}
		claim := claimOf(p.View, c.Waiters[0], c.Volume)
		// The scheduler enforces ReadWriteOncePod.
		if claim == nil || slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteOncePod) {
			continue
		}
		if p.DifferentVolumes(c.Volume, claim, claimOf(p.View, c.Holders[0], c.Volume)) {
			continue // duplicate-volume-handle says more
		}
		manyConsumers(p, c, claim)
	}
}

func manyConsumers(p *check.Run, c facts.Conflict, claim *corev1.PersistentVolumeClaim) {
	waiter, holder, pv := c.Waiters[0], c.Holders[0], p.ShortVolume(c.Volume)
	f := p.About(c.Attachment, finding.Finding{
		Subject: facts.ClaimObject(claim),
		Pods:    facts.PodNames(c.Waiters),
		Since:   new(facts.BoundAt(waiter)), Severity: p.ConflictSeverity(facts.BoundAt(waiter)),
		Message: fmt.Sprintf("Pod %s waits on node %s for volume %s, which pod %s uses", facts.PodName(waiter), waiter.Spec.NodeName, pv, facts.PodName(holder)),
		Detail: finding.Clauses(fmt.Sprintf("the claim %s/%s is ReadWriteOnce, and that pod is on node %s", claim.Namespace, claim.Name, c.Node),
			facts.Alike(c.Waiters)),
		Cause: "pods on several nodes share the claim: " + sharers(waiter, holder),
		Evidence: []finding.Evidence{
			modesOf(claim),
			{Object: "pod/" + facts.PodName(holder), Field: "spec.nodeName", Value: holder.Spec.NodeName},
			{Object: "pod/" + facts.PodName(waiter), Field: "spec.nodeName", Value: waiter.Spec.NodeName},
			{Object: c.Object(), Field: "status.attached", Value: "true on node " + string(c.Node) + ", and rightly so"},
		},
		SelfHeals: finding.SelfHeals{Because: "the pod that has the volume has to end first"},
		Advice:    "run the pods on one node (pod affinity), give each its own claim (a StatefulSet), or {change} use storage for many nodes",
	})
	if node := p.Snapshot.Node(c.Node); !reconcile.NodeReady(node) {
		facts.Also(&f, "node %s is not Ready", c.Node)
		f.Evidence = append(f.Evidence, finding.Evidence{Object: "node/" + string(c.Node), Field: "status.conditions[Ready]", Value: facts.ReadyText(node)})
	}
	if owner := metav1.GetControllerOf(holder); owner != nil && owner.Kind == "Job" {
		f.SelfHeals = finding.SelfHeals{Unknown: true, Because: fmt.Sprintf("nobody knows when pod %s of Job %s ends; the volume follows then", facts.PodName(holder), owner.Name)}
		f.Advice = "run the pods on one node (pod affinity) or one after the other, give each its own claim, or {change} use storage for many nodes"
	}
	p.Report(f)
}

// modesOf is the evidence of the claim's access modes.
func modesOf(claim *corev1.PersistentVolumeClaim) finding.Evidence {
	return finding.Evidence{Object: "persistentvolumeclaim/" + facts.ClaimName(claim), Field: "spec.accessModes", Value: fmt.Sprint(claim.Spec.AccessModes)}
}

// sharers is why the claim has several pods.
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

// claimOf is the claim through which the pod uses the volume.
func claimOf(p *facts.View, pod *corev1.Pod, volume corev1.UniqueVolumeName) *corev1.PersistentVolumeClaim {
	v := p.VolumeIn(pod, volume)
	if v == nil {
		return nil
	}
	return p.ClaimOf(pod, v)
}
