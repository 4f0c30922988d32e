package diagnose

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var pvcLostOrDoubleClaim = Check{
	Code:     "VD504",
	Name:     "pvc-lost-or-double-claim",
	Title:    "A claim has lost its volume: the volume is gone, or another claim has it",
	Severity: Warning,
	Needs:    []snapshot.Kind{snapshot.Pods, snapshot.Claims, snapshot.Volumes},
	Run:      runPVCLostOrDoubleClaim,
}

func runPVCLostOrDoubleClaim(p *Pass) {
	for _, claim := range p.Snapshot.Claims {
		// A restore may bring the claims before their volumes.
		if claim.Status.Phase != corev1.ClaimLost || claim.DeletionTimestamp != nil || p.Age(claim.CreationTimestamp) < pvDeletionSettles ||
			claim.Spec.VolumeName == "" {
			continue
		}
		pv := p.Snapshot.Volume(claim.Spec.VolumeName)
		switch {
		case pv == nil:
			p.claimLost(claim, "which does not exist", Evidence{"persistentvolume/" + claim.Spec.VolumeName, "metadata.name", "there is no such object"})
		case pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.UID == "" || pv.Spec.ClaimRef.UID == claim.UID:
			// The binder is about to join the two.
		case pv.Spec.ClaimRef.Namespace != claim.Namespace || pv.Spec.ClaimRef.Name != claim.Name:
			ref := pv.Spec.ClaimRef
			p.claimLost(claim, fmt.Sprintf("which is bound to claim %s/%s", ref.Namespace, ref.Name),
				Evidence{"persistentvolume/" + pv.Name, "spec.claimRef", fmt.Sprintf("%s/%s, uid %s", ref.Namespace, ref.Name, ref.UID)})
		default:
			// An earlier claim of the same name: claimref-stale.
		}
	}
}

func (p *Pass) claimLost(claim *corev1.PersistentVolumeClaim, why string, evidence Evidence) {
	object := "persistentvolumeclaim/" + claim.Namespace + "/" + claim.Name
	f := Finding{
		Subject:          Object{Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
		PersistentVolume: claim.Spec.VolumeName,
		Message:          fmt.Sprintf("Claim %s/%s has lost its volume %s, %s", claim.Namespace, claim.Name, claim.Spec.VolumeName, why),
		Cause:            "the volume was deleted past its finalizers, or it was not restored with its claim",
		Evidence: []Evidence{
			{object, "status.phase", string(claim.Status.Phase)},
			{object, "metadata.uid", string(claim.UID)},
			evidence,
		},
		SelfHeals: SelfHeals{Because: "a claim that was bound is never bound to another volume; it is Bound again once a volume of that name points to its UID"},
		Advice: "do not delete the claim yet: its name and UID lead back to the data; find the disk at the storage system, make the volume anew with that " +
			"handle, policy Retain and a claimRef to this claim's UID",
	}
	if p.Snapshot.Volume(claim.Spec.VolumeName) != nil {
		f.Cause = "two claims were restored, or made by hand, for one volume"
		f.Advice = "decide whose data the volume holds; leave the volume to the claim that has it, and make this one anew with another volume"
	}
	for _, va := range p.attachmentsNaming(claim.Spec.VolumeName) {
		if handle, ok := p.nodeHandle(va); ok {
			f.Evidence = append(f.Evidence, Evidence{"volumeattachment/" + va.Name, "metadata.name", "made for " + string(handle) + " on node " + va.Spec.NodeName})
		}
	}
	if users := p.claimUsers(claim); len(users) > 0 {
		f.Severity, f.Pods = Error, podNames(users)
		pod := users[0]
		switch {
		case started(pod):
			f.Message += fmt.Sprintf("; pod %s still runs with it on node %s, and the controller no longer counts it as a user", podName(pod), pod.Spec.NodeName)
			f.Advice = "save the data from within the pod while it runs: it will not start again. " + f.Advice
		case pod.Spec.NodeName != "":
			f.Message += fmt.Sprintf("; pod %s waits on node %s, and nothing is attached for it", podName(pod), pod.Spec.NodeName)
		default:
			f.Message += fmt.Sprintf("; pod %s waits for it and has no node yet", podName(pod))
		}
	}
	p.Report(f)
}
