// Package reconcile rebuilds the attach/detach controller's actual and desired
// state of the world from a snapshot and decides, as a dry run, what a
// controller that has just started on these objects would do in its first pass.
//
// It mirrors pkg/controller/volume/attachdetach of the cluster's own release;
// release.go lists what differs between them. Where a branch stands for one
// upstream, the comment names the upstream function, as 1.36 calls it.
package reconcile

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/ephemeral"
	csitranslation "k8s.io/csi-translation-lib"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// VolumeSpec is what a pod volume or a VolumeAttachment resolves to: upstream's
// volume.Spec. Exactly one of PV and Inline is set.
type VolumeSpec struct {
	// PV is the volume, translated to CSI where Migrated is true.
	PV *corev1.PersistentVolume
	// Inline is a pod's own volume source that needs no translation.
	Inline *corev1.Volume
	// Migrated reports whether an in-tree source was translated to CSI.
	Migrated bool
	// InlineMigrated reports whether the translated source stood in the pod itself. The
	// VolumeAttachment made for it carries the spec, not a PV's name.
	InlineMigrated bool
}

// MultiAttach reports whether the controller lets the volume be attached to more than one
// node, as IsMultiAttachAllowed does. It is true for a nil spec: the controller knows no
// better about a volume that only a node status mentions.
func (s *VolumeSpec) MultiAttach() bool {
	if s == nil {
		return true
	}
	if s.PV == nil {
		return s.Inline.AzureDisk == nil && s.Inline.Cinder == nil
	}
	modes := s.PV.Spec.AccessModes
	return len(modes) == 0 ||
		slices.Contains(modes, corev1.ReadWriteMany) || slices.Contains(modes, corev1.ReadOnlyMany)
}

// CSI returns the driver and the volume handle, or false where the volume is
// not a CSI volume that can be attached.
func (s *VolumeSpec) CSI() (driver, handle string, ok bool) {
	if s == nil || s.PV == nil || s.PV.Spec.CSI == nil {
		return "", "", false
	}
	return s.PV.Spec.CSI.Driver, s.PV.Spec.CSI.VolumeHandle, true
}

// SkipReason is why upstream drops a pod volume or a VolumeAttachment with no more than a log
// line.
type SkipReason string

// The reasons for which a pod volume or a VolumeAttachment is skipped.
const (
	PodEnded              SkipReason = "PodTerminated"
	NodeNotFound          SkipReason = "NodeNotFound"
	NodeNotManaged        SkipReason = "NodeNotManaged"
	ClaimNotFound         SkipReason = "ClaimNotFound"
	ClaimNotBound         SkipReason = "ClaimNotBound"
	ClaimNotOwned         SkipReason = "ClaimNotOwned"
	VolumeNotFound        SkipReason = "VolumeNotFound"
	VolumeNotClaimed      SkipReason = "VolumeNotClaimed"
	ClaimRefMismatch      SkipReason = "ClaimRefMismatch"
	TranslationFailed     SkipReason = "TranslationFailed"
	NotAttachable         SkipReason = "NotAttachable"
	AmbiguousPlugin       SkipReason = "AmbiguousPlugin"
	NoVolumeName          SkipReason = "NoVolumeName"
	InlineVolumeSpecified SkipReason = "InlineVolumeSpecified"
	// NotPersistent is a reason that only MountedVolume gives.
	NotPersistent SkipReason = "NotPersistent"
	// CSINodeNotFound: up to 1.30, a volume whose plugin has moved to CSI needs the node's
	// CSINode.
	CSINodeNotFound SkipReason = "CSINodeNotFound"
)

// skip is an error: the reason why a volume was dropped.
type skip struct {
	reason  SkipReason
	message string
}

func (s *skip) Error() string { return s.message }

func skipf(reason SkipReason, format string, args ...any) error {
	return &skip{reason, fmt.Sprintf(format, args...)}
}

// resolver turns pod volumes into volume specs.
type resolver struct {
	snapshot   *snapshot.Snapshot
	translator csitranslation.CSITranslator
	behaviours Behaviours
}

// podVolume mirrors CreateVolumeSpecWithNodeMigration. The PV is the one that boundVolume
// returns. Its errors are skips, as those of boundVolume are.
func (r *resolver) podVolume(pod *corev1.Pod, volume *corev1.Volume, pv *corev1.PersistentVolume) (*VolumeSpec, error) {
	if pv == nil {
		return r.inline(volume, pod.Namespace, types.NodeName(pod.Spec.NodeName))
	}
	return r.persistent(pv, types.NodeName(pod.Spec.NodeName))
}

// boundVolume returns the PV that the pod's volume leads to by its claim; nil where the
// volume has no claim.
func (r *resolver) boundVolume(pod *corev1.Pod, volume *corev1.Volume) (*corev1.PersistentVolume, error) {
	claimName := ClaimName(pod, volume)
	if claimName == "" {
		return nil, nil
	}
	claim := r.snapshot.Claim(namespaced(pod.Namespace, claimName))
	if claim == nil {
		return nil, skipf(ClaimNotFound, "claim %s/%s does not exist", pod.Namespace, claimName)
	}
	if claim.Status.Phase != corev1.ClaimBound || claim.Spec.VolumeName == "" {
		return nil, skipf(ClaimNotBound, "claim %s/%s is not bound: phase %q, volume %q",
			pod.Namespace, claimName, claim.Status.Phase, claim.Spec.VolumeName)
	}
	if volume.Ephemeral != nil {
		if err := ephemeral.VolumeIsForPod(pod, claim); err != nil {
			return nil, skipf(ClaimNotOwned, "claim %s/%s was not made for this pod: the pod does not own it", pod.Namespace, claimName)
		}
	}
	pv := r.snapshot.Volume(claim.Spec.VolumeName)
	if pv == nil {
		return nil, skipf(VolumeNotFound, "persistent volume %q of claim %s/%s does not exist", claim.Spec.VolumeName, pod.Namespace, claimName)
	}
	if pv.Spec.ClaimRef == nil {
		return nil, skipf(VolumeNotClaimed, "persistent volume %q has no claimRef: it is not bound to claim %s/%s yet", pv.Name, pod.Namespace, claimName)
	}
	if pv.Spec.ClaimRef.UID != claim.UID {
		return nil, skipf(ClaimRefMismatch, "claimRef.uid %q of persistent volume %q is not the uid %q of claim %s/%s",
			pv.Spec.ClaimRef.UID, pv.Name, claim.UID, pod.Namespace, claimName)
	}
	return pv, nil
}

// persistent translates an in-tree volume whose plugin has moved to CSI, as
// translateInTreeSpecToCSIOnNodeIfNeeded does. The volume of a VolumeAttachment is translated
// whatever the node: its node is "".
func (r *resolver) persistent(pv *corev1.PersistentVolume, node types.NodeName) (*VolumeSpec, error) {
	if migrates, err := r.migrates(pv, nil, node); !migrates || err != nil {
		return &VolumeSpec{PV: pv}, err
	}
	translated, err := r.translator.TranslateInTreePVToCSI(logr.Discard(), pv)
	if err != nil {
		return nil, skipf(TranslationFailed, "persistent volume %q cannot be translated to CSI: %v", pv.Name, err)
	}
	return &VolumeSpec{PV: translated, Migrated: true}, nil
}

func (r *resolver) inline(volume *corev1.Volume, namespace string, node types.NodeName) (*VolumeSpec, error) {
	if migrates, err := r.migrates(nil, volume, node); !migrates || err != nil {
		return &VolumeSpec{Inline: volume}, err
	}
	pv, err := r.translateInline(volume, namespace)
	if err != nil {
		return nil, skipf(TranslationFailed, "volume cannot be translated to CSI: %v", err)
	}
	return &VolumeSpec{PV: pv, Migrated: true, InlineMigrated: true}, nil
}

// migrates reports whether a source is to be translated, as IsMigratable and
// isCSIMigrationSupportedOnNode do.
func (r *resolver) migrates(pv *corev1.PersistentVolume, inline *corev1.Volume, node types.NodeName) (bool, error) {
	if !inTreeSource(pv, inline) {
		return false, nil
	}
	plugin, err := r.translator.GetInTreePluginNameFromSpec(pv, inline)
	if err != nil || plugin == "" || !r.behaviours.migrates(plugin) {
		return false, nil //nolint:nilerr // the error says that no plugin has moved
	}
	if node == "" || !r.behaviours.asksNode(plugin) {
		return true, nil
	}
	csiNode := r.snapshot.CSINode(node)
	if csiNode == nil {
		return false, skipf(CSINodeNotFound, "CSINode %q does not exist, which would say whether %s has moved to CSI there", node, plugin)
	}
	return migratedPlugins(csiNode.Annotations[corev1.MigratedPluginsAnnotationKey]).Has(plugin), nil
}

// translateInline refuses the one source on which csi-translation-lib panics: an inline
// vSphere volume with a storage policy (present in 0.36.3).
func (r *resolver) translateInline(volume *corev1.Volume, namespace string) (*corev1.PersistentVolume, error) {
	if v := volume.VsphereVolume; v != nil && v.StoragePolicyName != "" {
		return nil, errors.New("an inline vSphere volume with a storagePolicyName crashes the translation upstream")
	}
	return r.translator.TranslateInTreeInlineVolumeToCSI(logr.Discard(), volume, namespace)
}

// ClaimName returns the claim behind a pod's volume, or "".
func ClaimName(pod *corev1.Pod, volume *corev1.Volume) string {
	switch {
	case volume.PersistentVolumeClaim != nil:
		return volume.PersistentVolumeClaim.ClaimName
	case volume.Ephemeral != nil:
		return ephemeral.VolumeClaimName(pod, volume)
	default:
		return ""
	}
}
