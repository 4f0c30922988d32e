// Package resolution has the checks about pods whose claims and volumes do not lead to a disk.
package resolution

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var ClaimRefStale = check.Check{
	Code:        "VD501",
	Name:        "claimref-stale",
	Title:       "A claim names a volume that is bound to another claim, or to an earlier one of the same name",
	Severity:    finding.Error,
	Needs:       []snapshot.Kind{snapshot.Pods, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments},
	OfNamespace: true,
	Never:       "give the data away by another claimRef before you know whose it is",
	Run:         runClaimRefStale,
}

func runClaimRefStale(p *check.Run) {
	for _, claim := range p.Snapshot.Claims {
		// Only a claim that names the volume back wants it. A volume that Retain has kept, and
		// whose claim was recreated, is no fault.
		if claim.Spec.VolumeName == "" || claim.DeletionTimestamp != nil || !p.Lasted(claim.CreationTimestamp, facts.ListsGrace) {
			continue
		}
		pv := p.Snapshot.Volume(claim.Spec.VolumeName)
		if pv == nil || pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.UID == "" || pv.Spec.ClaimRef.UID == claim.UID {
			continue // bound properly, or about to be: the binder fills in the UID
		}
		ref := pv.Spec.ClaimRef
		sameName := ref.Namespace == claim.Namespace && ref.Name == claim.Name
		// A claim that asks for a taken volume rightly waits. One that is bound to it is wrong.
		if sameName || claim.Status.Phase == corev1.ClaimBound {
			claimRefStale(p, claim, pv, sameName)
		}
	}
}

func claimRefStale(p *check.Run, claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume, sameName bool) {
	ref := pv.Spec.ClaimRef
	owner := fmt.Sprintf("is bound to claim %s/%s", ref.Namespace, ref.Name)
	if sameName {
		owner = "an earlier claim has"
	}
	f := finding.Finding{
		Severity:         finding.Warning,
		Subject:          facts.ClaimObject(claim),
		PersistentVolume: pv.Name,
		Since:            &claim.CreationTimestamp,
		Message:          fmt.Sprintf("Claim %s/%s names volume %s, which %s", claim.Namespace, claim.Name, pv.Name, owner),
		Cause:            "the claim was recreated, or restored from a backup, under a volume that still points to its predecessor",
		Evidence: []finding.Evidence{
			{Object: "persistentvolumeclaim/" + facts.ClaimName(claim), Field: "metadata.uid", Value: string(claim.UID)},
			{Object: "persistentvolumeclaim/" + facts.ClaimName(claim), Field: "status.phase", Value: string(claim.Status.Phase)},
			{Object: "persistentvolume/" + pv.Name, Field: "spec.claimRef", Value: fmt.Sprintf("%s/%s, uid %s", ref.Namespace, ref.Name, ref.UID)},
			{Object: "persistentvolume/" + pv.Name, Field: "status.phase", Value: string(pv.Status.Phase)},
		},
		SelfHeals: finding.SelfHeals{Because: "no controller changes such a claimRef; the attach/detach controller and " +
			"kubelet refuse a volume that does not name its claim"},
	}
	if !sameName {
		f.Cause = "the claim's volumeName was set, or restored, to a volume that belongs to another claim"
	}
	f.Advice, f.AdviceCommands = claimRefAdvice(p.View, claim, pv, sameName)
	addUsers(&f, p.ClaimUsers(claim), "runs")
	p.Report(f)
}

// addUsers makes the finding about a claim an error where pods use it, and adds the state of the
// first: it runs, as the parameter runs puts it, or it waits.
func addUsers(f *finding.Finding, users []*corev1.Pod, runs string) {
	if len(users) == 0 {
		return
	}
	f.Severity, f.Pods = finding.Error, facts.PodNames(users)
	pod := users[0]
	switch {
	case facts.Started(pod):
		facts.Also(f, "pod %s %s with it on node %s, and the controller no longer counts it as a user", facts.PodName(pod), runs, pod.Spec.NodeName)
	case pod.Spec.NodeName != "":
		facts.Also(f, "pod %s waits on node %s, and nothing is attached for it", facts.PodName(pod), pod.Spec.NodeName)
	default:
		facts.Also(f, "pod %s waits for it and has no node yet", facts.PodName(pod))
	}
}

// claimRefAdvice offers the only correction, where no object speaks against it.
func claimRefAdvice(p *facts.View, claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume, sameName bool) (advice string, commands []string) {
	const whose = "{note} find out whose data the volume holds, and whether the new claim is meant to have it"
	if !sameName {
		return toWhomItBelongs(claim, pv)
	}
	return giveBack(p, claim, pv, whose)
}

// toWhomItBelongs is for a volume that two claims name: the claim whose data is not on it gets
// another volume. The deletion of the claim that is bound to it may delete the disk.
func toWhomItBelongs(claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) (advice string, commands []string) {
	owner, name := pv.Spec.ClaimRef.Namespace+"/"+pv.Spec.ClaimRef.Name, claim.Namespace+"/"+claim.Name
	advice = fmt.Sprintf("{check} find out whose data volume %s holds; {do} if it is that of claim %s, {final} recreate claim %s with the right volumeName; {do} if it is that of claim %s, ",
		pv.Name, owner, name, name)
	if !deletes(pv) {
		return advice + fmt.Sprintf("{final} recreate claim %s with another volume, and save the volume's object first", owner), nil
	}
	return advice + fmt.Sprintf("{change} set the reclaim policy of volume %s to Retain before claim %s is deleted: the disk goes with that claim", pv.Name, owner), []string{facts.Retain(pv)}
}
