package resolution

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var VolumeModificationStuck = check.Check{
	Code:        "VD517",
	Name:        "volume-modification-stuck",
	Title:       "A claim has asked for another VolumeAttributesClass and does not get it",
	Severity:    finding.Warning,
	Needs:       []snapshot.Kind{snapshot.Claims},
	OfNamespace: true,
	Follows: []check.Relation{
		{From: []finding.Code{"VD624"}, Match: waitsForResizer},
	},
	Never: "write the class into the status or the volume: the disk stays as it is",
	Run:   runVolumeModificationStuck,
}

func runVolumeModificationStuck(p *check.Run) {
	for _, claim := range p.Snapshot.Claims {
		status := claim.Status.ModifyVolumeStatus
		if status == nil || !facts.Modifies(claim) || claim.DeletionTimestamp != nil {
			continue
		}
		failed := facts.ClaimCondition(claim, corev1.PersistentVolumeClaimVolumeModifyVolumeError)
		switch {
		case status.Status == corev1.PersistentVolumeClaimModifyVolumePending:
			classMissing(p, claim)
		case failed != nil && status.TargetVolumeAttributesClassName == *claim.Spec.VolumeAttributesClassName && p.Lasted(failed.LastTransitionTime, expansionGrace):
			modificationFails(p, claim, status.Status, failed)
		}
	}
}

func modificationFinding(claim *corev1.PersistentVolumeClaim, why string) finding.Finding {
	return finding.Finding{
		Subject:          facts.ClaimObject(claim),
		PersistentVolume: claim.Spec.VolumeName,
		Message:          fmt.Sprintf("Claim %s asks for VolumeAttributesClass %s, and %s", facts.ClaimName(claim), *claim.Spec.VolumeAttributesClassName, why),
		Evidence: append(facts.ChangeEvidence(claim), finding.Evidence{Object: claimObject(claim), Field: "status.modifyVolumeStatus",
			Value: fmt.Sprintf("%s, to %q", claim.Status.ModifyVolumeStatus.Status, claim.Status.ModifyVolumeStatus.TargetVolumeAttributesClassName)}),
		AdviceCommands: []string{safetext.Kubectl("describe", "persistentvolumeclaim/"+claim.Name, "-n", claim.Namespace)},
	}
}

// modificationFails is about a claim whose driver refuses to change the volume, or fails.
func modificationFails(p *check.Run, claim *corev1.PersistentVolumeClaim, state corev1.PersistentVolumeClaimModifyVolumeStatus, failed *corev1.PersistentVolumeClaimCondition) {
	f := modificationFinding(claim, "the attempts fail")
	f.Since = &failed.LastTransitionTime
	f.Said = &finding.Quote{Text: failed.Message, By: "external-resizer", At: &failed.LastTransitionTime}
	f.Cause = "the driver fails to change the volume: no quota, a limit on how often a volume may change, or the storage system does not answer"
	f.Advice = "{fix} fix what the message names, or {change} name in the claim the class that the volume has"
	if state == corev1.PersistentVolumeClaimModifyVolumeInfeasible {
		f.Cause = "the driver refuses the parameters of the class for this volume"
		f.Advice = "{change} name another VolumeAttributesClass in the claim: the parameters of one cannot be changed; the one that the volume has calls it off"
	}
	f.SelfHeals.Because = "each attempt fails as long as the cause is there; it is tried again at most some minutes apart; the volume keeps the attributes that it has, and pods that run are not affected"
	f.Evidence = append(f.Evidence, finding.Evidence{Object: claimObject(claim), Field: "status.conditions[" + string(failed.Type) + "]",
		Value: fmt.Sprintf("since %s: %q", facts.Stamp(failed.LastTransitionTime), failed.Message)})
	p.Report(f)
}

// classMissing is about a claim whose class did not exist when the resizer looked. Only an event
// has the time of that.
func classMissing(p *check.Run, claim *corev1.PersistentVolumeClaim) {
	f := modificationFinding(claim, "the resizer found none of that name")
	f.Cause = "the class was never created here, or was renamed or deleted"
	f.SelfHeals.Because = "nothing changes before a class of that name exists; a resizer may then look again only when the claim changes, or when it restarts"
	f.Advice = "{check} see whether the class exists; create it, or {change} name in the claim one that exists; where it exists by now, {change} name another class in the claim and then this one again"
	f.AdviceCommands = []string{safetext.Kubectl("get", "volumeattributesclass/"+*claim.Spec.VolumeAttributesClassName)}
	var said metav1.Time
	for _, e := range p.Snapshot.EventsAbout("PersistentVolumeClaim", claim) {
		if e.Reason == "VolumeModifyFailed" && strings.Contains(e.Message, *claim.Spec.VolumeAttributesClassName) && facts.SaidSince(e, claim.CreationTimestamp) && snapshot.EventTime(e).After(said.Time) {
			said = snapshot.EventTime(e)
			f.Said = facts.QuoteEvent(e)
			f.Evidence = append(f.Evidence, finding.Evidence{Object: claimObject(claim), Field: "event " + e.Reason, Value: e.Message})
		}
	}
	if said.IsZero() {
		p.Report(f.UntilAgain(p.Snapshot.TakenAt, facts.ListsGrace, "the class was created just now"))
		return
	}
	if f.Since = &said; p.Lasted(said, facts.ListsGrace) {
		p.Report(f)
	}
}
