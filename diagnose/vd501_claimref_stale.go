package diagnose

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var claimRefStale = Check{
	Code:     "VD501",
	Name:     "claimref-stale",
	Title:    "A claim names a volume that is bound to another claim, or to an earlier one of the same name",
	Severity: Error,
	Needs:    []snapshot.Kind{snapshot.Pods, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments},
	Run:      runClaimRefStale,
}

func runClaimRefStale(p *Pass) {
	for _, claim := range p.Snapshot.Claims {
		// Only a claim that names the volume back lays claim to it. A volume that
		// was kept by Retain, and whose claim was made anew, is nobody's fault.
		if claim.Spec.VolumeName == "" || claim.DeletionTimestamp != nil || p.Age(claim.CreationTimestamp) < listsSettle {
			continue
		}
		pv := p.Snapshot.Volume(claim.Spec.VolumeName)
		if pv == nil || pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.UID == "" || pv.Spec.ClaimRef.UID == claim.UID {
			continue // bound as it should be, or about to be: the binder fills in the UID
		}
		ref := pv.Spec.ClaimRef
		sameName := ref.Namespace == claim.Namespace && ref.Name == claim.Name
		// A claim that asks for a volume which is taken waits, as it should. One
		// that is bound to it is wrong.
		if sameName || claim.Status.Phase == corev1.ClaimBound {
			p.claimRefStale(claim, pv, sameName)
		}
	}
}

func (p *Pass) claimRefStale(claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume, sameName bool) {
	ref := pv.Spec.ClaimRef
	owner := fmt.Sprintf("claim %s/%s", ref.Namespace, ref.Name)
	if sameName {
		owner = "an earlier claim of that name"
	}
	f := Finding{
		Severity:         Warning,
		Subject:          Object{Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
		PersistentVolume: pv.Name,
		Since:            &claim.CreationTimestamp,
		Message:          fmt.Sprintf("Claim %s/%s names volume %s, but the volume is bound to %s", claim.Namespace, claim.Name, pv.Name, owner),
		Cause:            "the claim was made anew, or restored from a backup, under a volume that still points to its predecessor",
		Evidence: []Evidence{
			{"persistentvolumeclaim/" + claim.Namespace + "/" + claim.Name, "metadata.uid", string(claim.UID)},
			{"persistentvolumeclaim/" + claim.Namespace + "/" + claim.Name, "status.phase", string(claim.Status.Phase)},
			{"persistentvolume/" + pv.Name, "spec.claimRef", fmt.Sprintf("%s/%s, uid %s", ref.Namespace, ref.Name, ref.UID)},
			{"persistentvolume/" + pv.Name, "status.phase", string(pv.Status.Phase)},
		},
		SelfHeals: SelfHeals{Because: "no controller changes the claimRef of a bound or released volume, and both the attach/detach controller and the " +
			"kubelet pass over a volume that does not point back to its claim"},
		Advice: p.claimRefAdvice(claim, pv, sameName),
	}
	if !sameName {
		f.Cause = "the claim's volumeName was set, or restored, to a volume that belongs to another claim"
	}
	if users := p.claimUsers(claim); len(users) > 0 {
		f.Severity, f.Pods = Error, podNames(users)
		pod := users[0]
		switch {
		case started(pod):
			f.Message += fmt.Sprintf("; pod %s runs with it on node %s, and the controller no longer counts it as a user", podName(pod), pod.Spec.NodeName)
		case pod.Spec.NodeName != "":
			f.Message += fmt.Sprintf("; pod %s waits on node %s, and nothing is attached for it", podName(pod), pod.Spec.NodeName)
		default:
			f.Message += fmt.Sprintf("; pod %s waits for it and has no node yet", podName(pod))
		}
	}
	p.Report(f)
}

// claimUsers are the pods that use the claim, the longest first.
func (p *Pass) claimUsers(claim *corev1.PersistentVolumeClaim) []*corev1.Pod {
	users := slices.Clone(p.remember().claimUsers.get(p.findClaimUsers)[types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}])
	longestFirst(users)
	return users
}

func (p *Pass) findClaimUsers() map[types.NamespacedName][]*corev1.Pod {
	users := map[types.NamespacedName][]*corev1.Pod{}
	for _, pod := range p.Snapshot.Pods {
		for i := range pod.Spec.Volumes {
			name := reconcile.ClaimName(pod, &pod.Spec.Volumes[i])
			if name == "" || reconcile.PodTerminated(pod) {
				continue
			}
			if pods := users[claimKey(pod, name)]; len(pods) == 0 || pods[len(pods)-1] != pod {
				users[claimKey(pod, name)] = append(pods, pod)
			}
		}
	}
	return users
}

// claimRefAdvice offers the one correction there is only where the objects do
// not speak against it. It gives the volume's data to whoever made the claim,
// so that even then a person must say whose data it is.
func (p *Pass) claimRefAdvice(claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume, sameName bool) string {
	const whose = "find out whose data the volume holds"
	if !sameName {
		return whose + ", and point the other claim elsewhere: delete it and make it anew with the right volumeName; do not touch the claimRef, " +
			"or the data goes to a stranger"
	}
	attached := len(p.attachmentsNaming(pv.Name)) > 0
	if attached || slices.ContainsFunc(p.claimUsers(claim), started) || (pv.Status.Phase != corev1.VolumeReleased && pv.Status.Phase != corev1.VolumeAvailable) {
		return whose + "; end the pods that use it and wait until its VolumeAttachment is gone and the volume is Released before anything is changed"
	}
	return fmt.Sprintf("%s; only if the new claim %s/%s is meant to have it, let it bind: kubectl patch pv %s --type=json "+
		`-p '[{"op":"test","path":"/spec/claimRef/uid","value":"%s"},{"op":"remove","path":"/spec/claimRef/uid"}]'`,
		whose, claim.Namespace, claim.Name, pv.Name, pv.Spec.ClaimRef.UID)
}
