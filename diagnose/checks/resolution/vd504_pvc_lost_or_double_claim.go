package resolution

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var PvcLostOrDoubleClaim = check.Check{
	Code:        "VD504",
	Name:        "pvc-lost-or-double-claim",
	Title:       "A claim has lost its volume: the volume is gone, or another claim has it",
	Severity:    finding.Warning,
	Needs:       []snapshot.Kind{snapshot.Pods, snapshot.Claims, snapshot.Volumes},
	OfNamespace: true,
	Never:       "delete the claim: its name and UID lead back to the data",
	Run:         runPVCLostOrDoubleClaim,
}

func runPVCLostOrDoubleClaim(p *check.Run) {
	for _, claim := range p.Snapshot.Claims {
		// A restore may bring the claims before their volumes.
		if claim.Status.Phase != corev1.ClaimLost || claim.DeletionTimestamp != nil || !p.Lasted(claim.CreationTimestamp, facts.PVDeletionGrace) ||
			claim.Spec.VolumeName == "" {
			continue
		}
		pv := p.Snapshot.Volume(claim.Spec.VolumeName)
		switch {
		case pv == nil:
			claimLost(p, claim, "which does not exist", finding.Evidence{Object: "persistentvolume/" + claim.Spec.VolumeName, Field: "metadata.name", Value: "there is no such object"})
		case pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.UID == "" || pv.Spec.ClaimRef.UID == claim.UID:
			// The binder is about to bind the two.
		case pv.Spec.ClaimRef.Namespace != claim.Namespace || pv.Spec.ClaimRef.Name != claim.Name:
			ref := pv.Spec.ClaimRef
			claimLost(p, claim, fmt.Sprintf("which is bound to claim %s/%s", ref.Namespace, ref.Name),
				finding.Evidence{Object: "persistentvolume/" + pv.Name, Field: "spec.claimRef", Value: fmt.Sprintf("%s/%s, uid %s", ref.Namespace, ref.Name, ref.UID)})
		default:
			// claimref-stale reports an earlier claim of the same name.
		}
	}
}

func claimLost(p *check.Run, claim *corev1.PersistentVolumeClaim, why string, evidence finding.Evidence) {
	object := "persistentvolumeclaim/" + facts.ClaimName(claim)
	f := finding.Finding{
		Subject:          facts.ClaimObject(claim),
		PersistentVolume: claim.Spec.VolumeName,
		Message:          fmt.Sprintf("Claim %s/%s has lost its volume %s, %s", claim.Namespace, claim.Name, claim.Spec.VolumeName, why),
		Cause:            "the volume was deleted past its finalizers, or it was not restored with its claim",
		Evidence: []finding.Evidence{
			{Object: object, Field: "status.phase", Value: string(claim.Status.Phase)},
			{Object: object, Field: "metadata.uid", Value: string(claim.UID)},
			evidence,
		},
		SelfHeals: finding.SelfHeals{Because: "a bound claim never gets another volume; it is Bound again once a volume of that name points to its UID"},
		Advice:    "{check} find the disk at the storage system, and {change} recreate the volume with its handle, policy Retain and a claimRef to this claim's UID",
	}
	if p.Snapshot.Volume(claim.Spec.VolumeName) != nil {
		f.Cause = "two claims were restored, or made by hand, for one volume"
		f.Advice = "{note} decide whose data the volume holds; leave the volume to the claim that has it, and {final} recreate this claim with another volume"
		f.Never = "recreate the claim before you know whose data the volume holds: its name and UID lead back to the data"
	}
	for _, va := range p.AttachmentsNaming(claim.Spec.VolumeName) {
		if handle, ok := p.NodeHandle(va); ok {
			f.Evidence = append(f.Evidence, finding.Evidence{Object: "volumeattachment/" + va.Name, Field: "metadata.name", Value: "made for " + string(handle) + " on node " + va.Spec.NodeName})
		}
	}
	users := p.ClaimUsers(claim)
	addUsers(&f, users, "still runs")
	if len(users) > 0 && facts.Started(users[0]) {
		f.Advice = "{note} save the data from within the pod while it runs, for it will not start again; " + f.Advice
	}
	p.Report(f)
}
