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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/index"
)

var keptByClaim facts.Kept[map[types.NamespacedName][]*corev1.PersistentVolume]

// volumesOfClaim are the volumes whose claimRef has the claim's name.
func volumesOfClaim(v *facts.View, namespace, name string) []*corev1.PersistentVolume {
	return keptByClaim.Of(v, func(v *facts.View) map[types.NamespacedName][]*corev1.PersistentVolume {
		return index.New(v.Snapshot.Volumes, func(pv *corev1.PersistentVolume) types.NamespacedName {
			ref := ptr.Deref(pv.Spec.ClaimRef, corev1.ObjectReference{})
			return types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
		})
	})[types.NamespacedName{Namespace: namespace, Name: name}]
}

// keptOf are the volumes of earlier claims with this one's name: their claimRef has the name,
// with another UID or with none. The binder gives none of them to the claim, in whatever phase
// they are. A volume without a UID therefore counts only where something keeps the binder from
// it.
func keptOf(v *facts.View, claim *corev1.PersistentVolumeClaim) []*corev1.PersistentVolume {
	var kept []*corev1.PersistentVolume
	for _, pv := range volumesOfClaim(v, claim.Namespace, claim.Name) {
		switch ref := pv.Spec.ClaimRef; {
		case ref.UID != "" && ref.UID == claim.UID:
		case ref.UID == "" && !goes(pv) && !asksForAnother(claim, pv) && cannotHave(claim, pv) == nil:
		default:
			kept = append(kept, pv)
		}
	}
	return kept
}

// deletes reports whether the disk is deleted once no claim has the volume.
func deletes(pv *corev1.PersistentVolume) bool {
	return pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
}

// goes reports whether the volume is Terminating. Its deletion cannot be taken back.
func goes(pv *corev1.PersistentVolume) bool { return pv.DeletionTimestamp != nil }

// asksForAnother reports whether the claim names another volume.
func asksForAnother(claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) bool {
	return claim.Spec.VolumeName != "" && claim.Spec.VolumeName != pv.Name
}

// keptVolume is about a claim without a volume, where an earlier claim of that name has left one.
// It comes before every other cause of the wait: another volume would start the pod on an empty
// disk.
func keptVolume(p *facts.View, claim *corev1.PersistentVolumeClaim, kept []*corev1.PersistentVolume) finding.Finding {
	f := finding.Finding{
		Cause:     "the earlier claim was deleted, and the new claim has another UID than the claimRef of the volume",
		SelfHeals: finding.SelfHeals{Because: whyApart(claim, kept[0]) + "; another volume would be empty"},
		Never:     "give the claim another volume: the pod starts on an empty disk",
	}
	for _, pv := range kept {
		object, state := "persistentvolume/"+pv.Name, fmt.Sprintf("%s, reclaim policy %s", pv.Status.Phase, pv.Spec.PersistentVolumeReclaimPolicy)
		if goes(pv) {
			state += ", Terminating since " + facts.Stamp(*pv.DeletionTimestamp)
		}
		f.Evidence = append(f.Evidence,
			finding.Evidence{Object: object, Field: "spec.claimRef", Value: claimRefText(pv)},
			finding.Evidence{Object: object, Field: "status.phase", Value: state})
		if pv.Status.Message != "" {
			f.Evidence = append(f.Evidence, finding.Evidence{Object: object, Field: "status.message", Value: pv.Status.Message})
		}
	}
	if claim.UID != "" {
		f.Evidence = append(f.Evidence, finding.Evidence{Object: claimObject(claim), Field: "metadata.uid", Value: string(claim.UID)})
	}
	if len(kept) > 1 {
		severalKept(p, &f, claim, kept)
		return f
	}
	pv := kept[0]
	f.PersistentVolume = pv.Name
	f.Message = fmt.Sprintf("volume %s is an earlier claim's", pv.Name)
	f.Detail = "it " + keptAs(pv)
	if taken := diskTaken(p, pv); taken != "" {
		facts.Also(&f, "its disk is now that of %s", taken)
	} else if err := cannotHave(claim, pv); err != nil {
		facts.Also(&f, "the claim does not fit it: %s", err)
	}
	f.Advice, f.AdviceCommands = giveBack(p, claim, pv, "{note} find out whether the pod's data is on it")
	return f
}

// keptAs is a clause: the state of a volume whose claim is gone.
func keptAs(pv *corev1.PersistentVolume) string {
	switch {
	case goes(pv) && deletes(pv):
		return "is Terminating, and its reclaim policy Delete takes the disk with it"
	case goes(pv):
		return "is Terminating; its reclaim policy keeps the disk"
	case deletes(pv) && pv.Status.Phase == corev1.VolumeFailed:
		return "is still there, because the deletion of its disk has failed"
	case deletes(pv):
		return "is still there, and its reclaim policy Delete lets its disk be deleted at any time"
	case pv.Spec.ClaimRef.UID == "":
		return "was kept, and is reserved for the claim"
	default:
		return "was kept, and the binder gives it to nobody by itself"
	}
}

// whyApart is a clause: why the binder does not give the volume to the claim.
func whyApart(claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) string {
	switch {
	case goes(pv):
		return "a volume that is Terminating is bound to nobody"
	case pv.Spec.ClaimRef.UID == "" && asksForAnother(claim, pv):
		return "the claim is bound to the named volume alone"
	case pv.Spec.ClaimRef.UID == "":
		return "the volume lacks what the claim asks for"
	default:
		return "the volume's claimRef has the UID of a deleted claim; as long as it has, the volume is bound to nobody"
	}
}

func claimRefText(pv *corev1.PersistentVolume) string {
	ref := pv.Spec.ClaimRef
	if ref.UID == "" {
		return fmt.Sprintf("%s/%s, no uid", ref.Namespace, ref.Name)
	}
	return fmt.Sprintf("%s/%s, uid %s", ref.Namespace, ref.Name, ref.UID)
}

// severalKept is about several volumes: only their data show which is the right one.
func severalKept(p *facts.View, f *finding.Finding, claim *corev1.PersistentVolumeClaim, kept []*corev1.PersistentVolume) {
	var names, goWith, taken []string
	for _, pv := range kept {
		names = append(names, pv.Name)
		if deletes(pv) {
			goWith, f.AdviceCommands = append(goWith, pv.Name), append(f.AdviceCommands, facts.Retain(pv))
		}
		if other := diskTaken(p, pv); other != "" {
			taken = append(taken, fmt.Sprintf("; leave volume %s as it is: its disk is now that of %s", pv.Name, other))
		} else if by := isTaken(p, claim, pv); by != "" {
			taken = append(taken, fmt.Sprintf("; volume %s is not free yet: %s", pv.Name, by))
		}
	}
	f.Message = fmt.Sprintf("%d volumes are of earlier claims", len(kept))
	f.Detail = fmt.Sprintf("volumes of earlier claims of this name are still there, %s, and the binder gives them to nobody by itself", strings.Join(names, ", "))
	if len(f.AdviceCommands) > 0 {
		f.Advice = fmt.Sprintf("{do} if their data may still be wanted, {change} set the reclaim policy of volume %s to Retain before anything else; {do} ", strings.Join(goWith, " and that of "))
	}
	f.Advice += "{note} find out which of the volumes has the pod's data; only that one may be given to the claim: {final} take the UID out of its claimRef" + strings.Join(taken, "")
}

// keepDisk is what to do first where the volume's data may still be wanted, and its commands; ""
// where neither the disk nor the object will go.
func keepDisk(pv *corev1.PersistentVolume) (first string, commands []string) {
	wanted := "if the data on volume " + pv.Name + " may still be wanted, "
	switch {
	case goes(pv) && deletes(pv): // Retain may remove the last finalizer, and then the object is gone
		first = "{check} " + wanted + "print its object and keep the output; {do} {change} set the reclaim policy of volume " + pv.Name + " to Retain, but only with that output kept: the object may then go; {do} "
	case goes(pv):
		first = "{check} " + wanted + "print its object and keep the output before anything else; {do} "
	case deletes(pv):
		first = "{do} " + wanted + "{change} set its reclaim policy to Retain before anything else; {do} "
	}
	if goes(pv) {
		commands = append(commands, safetext.Kubectl("get", "pv/"+pv.Name, "-o", "yaml"))
	}
	if deletes(pv) {
		commands = append(commands, facts.Retain(pv))
	}
	return first, commands
}

// keepDiskFirst adds how to keep the disk before the advice that lets the volume go.
func keepDiskFirst(f *finding.Finding, pv *corev1.PersistentVolume) {
	if deletes(pv) {
		first, commands := keepDisk(pv)
		f.Advice, f.AdviceCommands = strings.TrimSuffix(first+f.Advice, "; {do} "), append(commands, f.AdviceCommands...)
	}
}

// giveBack is how the claim gets the volume, as far as the objects allow it, and how the disk is
// kept until then. The claim's owner gets the data, so a person has to say first whose they are.
func giveBack(p *facts.View, claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume, whose string) (advice string, commands []string) {
	first, commands := keepDisk(pv)
	whose = first + whose
	if taken := diskTaken(p, pv); taken != "" {
		return fmt.Sprintf("%s; leave volume %s as it is, for its disk is now that of %s: the claim must not get it a second time", whose, pv.Name, taken), commands
	}
	if taken := isTaken(p, claim, pv); taken != "" {
		return fmt.Sprintf("%s; it is not free yet: %s", whose, taken), commands
	}
	if goes(pv) {
		return fmt.Sprintf("%s; if so, {change} make volume %s again from its object once it is gone, with the claimRef but without the UID in it: a volume that is Terminating "+
			"is bound to no claim", whose, pv.Name), commands
	}
	then := "; after that {final} take the UID out of the volume's claimRef"
	if pv.Spec.ClaimRef.UID == "" {
		then = ""
	}
	switch err := cannotHave(claim, pv); {
	case wasBound(claim): // the binder compares only the UID
	case err != nil:
		return fmt.Sprintf("%s; if so, {final} recreate the claim so that it fits volume %s, with volumeName %s%s", whose, pv.Name, pv.Name, then), commands
	case asksForAnother(claim, pv):
		return fmt.Sprintf("%s; if so, {final} recreate the claim with volumeName %s, for it asks for volume %s and that cannot be changed%s",
			whose, pv.Name, claim.Spec.VolumeName, then), commands
	}
	patch, err := claimRefPatch(claim, pv)
	if err != nil {
		return whose, commands
	}
	free := "{final} take the UID out of the claimRef of volume " + pv.Name
	if wasBound(claim) {
		free = "{final} put the claim's UID into the claimRef of volume " + pv.Name
	}
	return fmt.Sprintf("%s; if so, %s, and claim %s/%s is bound to it", whose, free, claim.Namespace, claim.Name),
		append(commands, safetext.Kubectl("patch", "pv/"+pv.Name, "--type=json", "-p", patch))
}

// bindCompleted is the annotation of a claim that has been bound once (AnnBindCompleted,
// component-helpers).
const bindCompleted = "pv.kubernetes.io/bind-completed"

// wasBound reports whether the claim has been bound before, to the binder. Such a claim is Lost
// unless the volume's claimRef has its very UID (syncBoundClaim,
// pkg/controller/volume/persistentvolume); any other is bound by name.
func wasBound(claim *corev1.PersistentVolumeClaim) bool {
	_, completed := claim.Annotations[bindCompleted]
	return completed || claim.Status.Phase == corev1.ClaimLost || claim.Status.Phase == corev1.ClaimBound
}

// claimRefPatch points the claimRef to the claim, if it is still as it was read.
func claimRefPatch(claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) (string, error) {
	type operation struct {
		Op    string    `json:"op"`
		Path  string    `json:"path"`
		Value types.UID `json:"value,omitempty"`
	}
	const path = "/spec/claimRef/uid"
	change := operation{"remove", path, ""}
	if wasBound(claim) {
		change = operation{"replace", path, claim.UID}
	}
	text, err := json.Marshal([]operation{{"test", path, pv.Spec.ClaimRef.UID}, change})
	return string(text), err
}

// diskTaken is the other volume, bound or attached, that uses the same disk; "" where there is
// none. Two pods could write to a disk that is given away again.
func diskTaken(p *facts.View, pv *corev1.PersistentVolume) string {
	for _, other := range p.VolumesOfDisk(p.DiskName(pv)) {
		vas := p.AttachmentsNaming(other.Name)
		switch {
		case other == pv:
		case other.Status.Phase == corev1.VolumeBound && other.Spec.ClaimRef != nil:
			return fmt.Sprintf("volume %s, which is bound to claim %s/%s", other.Name, other.Spec.ClaimRef.Namespace, other.Spec.ClaimRef.Name)
		case len(vas) > 0:
			return fmt.Sprintf("volume %s, which VolumeAttachment %s has on node %s", other.Name, vas[0].Name, vas[0].Spec.NodeName)
		}
	}
	return ""
}

// isTaken is who has the volume, or claims it, as far as the objects show; "" where nobody does.
func isTaken(p *facts.View, claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) string {
	for _, kind := range []snapshot.Kind{snapshot.VolumeAttachments, snapshot.Nodes, snapshot.Claims} {
		if !p.Snapshot.Complete(kind) {
			return fmt.Sprintf("the %s were not all read", kind)
		}
	}
	for _, other := range p.ClaimsNaming(pv.Name) {
		if other != claim {
			return fmt.Sprintf("claim %s/%s names it", other.Namespace, other.Name)
		}
	}
	disk := p.DiskName(pv)
	vas := p.AttachmentsNaming(pv.Name)
	for _, va := range p.AttachmentsOf(disk) {
		vas = append(slices.Clone(vas), va.VolumeAttachment)
	}
	pods := p.ClaimUsers(claim)
	switch started := slices.IndexFunc(pods, facts.Started); {
	case started >= 0:
		return fmt.Sprintf("pod %s has started with it; save the data from within that pod, and only then {final} let it end; see that nothing has it attached", facts.PodName(pods[started]))
	case len(vas) > 0:
		return fmt.Sprintf("VolumeAttachment %s has it on node %s, and goes once no pod there uses the volume", vas[0].Name, vas[0].Spec.NodeName)
	case pv.Status.Phase == corev1.VolumeBound:
		return "its phase is Bound, until the controller sees that its claim is gone"
	}
	for _, node := range p.Snapshot.Nodes {
		if p.InUse(node, disk) || p.Lists(node, disk) {
			return fmt.Sprintf("node %s still reports it", node.Name)
		}
	}
	return ""
}

// cannotHave is why the claim cannot be bound to the volume, or should not be; nil where it can.
// A volume that names the claim is bound whatever its class, access modes and labels
// (component-helpers, FindMatchingVolume). They count here because the claim asks for them.
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
