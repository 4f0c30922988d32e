package resolution

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/safetext"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// keptVolume is about a claim without a volume whose predecessor of the same name has left
// one behind. Whatever else keeps the claim waiting, to help it to another volume would
// start the pod on an empty disk, so that this comes first.
func keptVolume(p *facts.View, claim *corev1.PersistentVolumeClaim, kept []*corev1.PersistentVolume) finding.Finding {
	pv := kept[0]
	f := finding.Finding{
		Message: fmt.Sprintf("volume %s of an earlier claim of this name was kept, and the binder gives it to nobody by itself", pv.Name),
		Cause:   "the earlier claim was deleted and its volume kept, as reclaim policy Retain says; the new claim has another UID than the volume's claimRef",
		SelfHeals: finding.SelfHeals{Because: "a Released volume is bound to nobody as long as its claimRef has the UID of a claim that is gone; a claim that " +
			"gets another volume gets an empty one"},
		Never: "help the claim to another volume before that one's data was looked for: the pod starts on an empty disk",
	}
	for _, pv := range kept {
		f.Evidence = append(f.Evidence,
			finding.Evidence{Object: "persistentvolume/" + pv.Name, Field: "spec.claimRef", Value: fmt.Sprintf("%s/%s, uid %s", claim.Namespace, claim.Name, pv.Spec.ClaimRef.UID)},
			finding.Evidence{Object: "persistentvolume/" + pv.Name, Field: "status.phase", Value: fmt.Sprintf("%s, reclaim policy %s", pv.Status.Phase, pv.Spec.PersistentVolumeReclaimPolicy)})
	}
	f.Evidence = append(f.Evidence, finding.Evidence{Object: claimObject(claim), Field: "metadata.uid", Value: string(claim.UID)})
	const whose = "find out whether the pod's data is on it"
	if len(kept) > 1 {
		names := make([]string, len(kept))
		for i, pv := range kept {
			names[i] = pv.Name
		}
		f.Message = fmt.Sprintf("%d volumes of earlier claims of this name were kept, %s, and the binder gives them to nobody by itself", len(kept), strings.Join(names, ", "))
		f.Advice = "find out which of the volumes has the pod's data; only that one may be given to the claim, by taking the UID out of its claimRef"
		return f
	}
	f.PersistentVolume = pv.Name
	if err := cannotHave(claim, pv); err != nil {
		f.Message += "; the claim does not fit it: " + err.Error()
		f.Advice = fmt.Sprintf("%s; if so, recreate the claim so that it fits volume %s, with volumeName %s, and then take the UID out of the volume's claimRef", whose, pv.Name, pv.Name)
		return f
	}
	if taken := keptIsTaken(p, claim, pv); taken != "" {
		f.Advice = fmt.Sprintf("%s; it is not free yet: %s", whose, taken)
		return f
	}
	uid, err := json.Marshal(pv.Spec.ClaimRef.UID)
	if err != nil {
		return f
	}
	f.Advice = fmt.Sprintf("%s; if so, take the UID out of its claimRef, and claim %s/%s is bound to it", whose, claim.Namespace, claim.Name)
	f.AdviceCommands = []string{safetext.Kubectl("patch", "pv/"+pv.Name, "--type=json", "-p",
		fmt.Sprintf(`[{"op":"test","path":"/spec/claimRef/uid","value":%s},{"op":"remove","path":"/spec/claimRef/uid"}]`, uid))}
	return f
}

// keptIsTaken says who has the volume, or lays claim to it, as far as the objects tell; ""
// where nobody does.
func keptIsTaken(p *facts.View, claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) string {
	for _, kind := range []snapshot.Kind{snapshot.VolumeAttachments, snapshot.Nodes} {
		if !p.Snapshot.Complete(kind) {
			return fmt.Sprintf("the %s were not all read", kind)
		}
	}
	for _, other := range p.ClaimsNaming(pv.Name) {
		if other.UID != claim.UID {
			return fmt.Sprintf("claim %s/%s names it", other.Namespace, other.Name)
		}
	}
	if vas := p.AttachmentsNaming(pv.Name); len(vas) > 0 {
		return fmt.Sprintf("VolumeAttachment %s has it on node %s", vas[0].Name, vas[0].Spec.NodeName)
	}
	if pods := p.ClaimUsers(claim); slices.ContainsFunc(pods, facts.Started) {
		i := slices.IndexFunc(pods, facts.Started)
		return fmt.Sprintf("pod %s has started with it", facts.PodName(pods[i]))
	}
	if pv.Spec.CSI == nil {
		return ""
	}
	name := reconcile.CSIVolumeName(pv.Spec.CSI.Driver, pv.Spec.CSI.VolumeHandle)
	for _, node := range p.Snapshot.Nodes {
		if p.InUse(node, name) || p.Lists(node, name) {
			return fmt.Sprintf("node %s still reports it", node.Name)
		}
	}
	return ""
}

// keptFor are the volumes that were kept as an earlier claim of this one's name was
// deleted: Released, not going, with the name and another UID in their claimRef. The
// binder gives such a volume to nobody, not even to a claim of the same name. One with
// the reclaim policy Delete is on its way out.
func keptFor(v *facts.View, claim *corev1.PersistentVolumeClaim) []*corev1.PersistentVolume {
	var kept []*corev1.PersistentVolume
	for _, pv := range v.Snapshot.Volumes {
		ref := pv.Spec.ClaimRef
		if ref != nil && ref.Namespace == claim.Namespace && ref.Name == claim.Name && ref.UID != "" && ref.UID != claim.UID &&
			pv.Status.Phase == corev1.VolumeReleased && pv.DeletionTimestamp == nil && pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain {
			kept = append(kept, pv)
		}
	}
	return kept
}

// cannotHave says why the claim cannot be bound to the volume, or should not; nil where it
// can. A volume that points to the claim by name is bound whatever its class, its access
// modes and its labels are (component-helpers, FindMatchingVolume): these count all the
// same, because the claim asks for them.
func cannotHave(claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) error {
	asked, has := claim.Spec.Resources.Requests[corev1.ResourceStorage], pv.Spec.Capacity[corev1.ResourceStorage]
	class := ptr.Deref(claim.Spec.StorageClassName, claim.Annotations[corev1.BetaStorageClassAnnotation])
	mode := func(m *corev1.PersistentVolumeMode) corev1.PersistentVolumeMode {
		return ptr.Deref(m, corev1.PersistentVolumeFilesystem)
	}
	switch {
	case has.Cmp(asked) < 0:
		return fmt.Errorf("it has %s and the claim asks for %s", has.String(), asked.String())
	case mode(claim.Spec.VolumeMode) != mode(pv.Spec.VolumeMode):
		return fmt.Errorf("its volumeMode is %s and the claim asks for %s", mode(pv.Spec.VolumeMode), mode(claim.Spec.VolumeMode))
	case class != pv.Spec.StorageClassName:
		return fmt.Errorf("its storage class is %q and that of the claim %q", pv.Spec.StorageClassName, class)
	case ptr.Deref(claim.Spec.VolumeAttributesClassName, "") != ptr.Deref(pv.Spec.VolumeAttributesClassName, ""):
		return fmt.Errorf("its volumeAttributesClassName is %q and that of the claim %q",
			ptr.Deref(pv.Spec.VolumeAttributesClassName, ""), ptr.Deref(claim.Spec.VolumeAttributesClassName, ""))
	}
	for _, m := range claim.Spec.AccessModes {
		if !slices.Contains(pv.Spec.AccessModes, m) {
			return fmt.Errorf("it lacks the access mode %s", m)
		}
	}
	if selector, err := metav1.LabelSelectorAsSelector(claim.Spec.Selector); claim.Spec.Selector != nil && (err != nil || !selector.Matches(labels.Set(pv.Labels))) {
		return errors.New("its labels are not those that the claim selects")
	}
	return nil
}
