package facts

import (
	"iter"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/index"
)

// VolumeName is the name of the PV that the VolumeAttachment is for; "" where it has an inline
// spec instead.
func VolumeName(va *storagev1.VolumeAttachment) string {
	return ptr.Deref(va.Spec.Source.PersistentVolumeName, "")
}

// AttacherHolds reports whether the driver's attacher has put its finalizer on the
// object and must take it off before the object goes.
func AttacherHolds(va *storagev1.VolumeAttachment) bool {
	return slices.Contains(va.Finalizers, reconcile.AttacherFinalizer(va.Spec.Attacher))
}

// AskedDisk is the disk that the attacher asks the driver to detach: that of the
// VolumeAttachment's PV, whether or not its driver still attaches, or of its inline spec
// (external-attacher v4, csiHandler.csiDetach). Where ok is false the attacher asks nothing.
func (p *View) AskedDisk(va *storagev1.VolumeAttachment) (driver, handle string, ok bool) {
	if name, err := p.World.AttachmentVolume(va); err == nil {
		// A name with two ^ cannot be split; the attacher reads the handle itself.
		if driver, handle, ok = reconcile.ParseCSI(name); ok {
			return driver, handle, true
		}
	}
	if pv := p.Snapshot.Volume(VolumeName(va)); pv != nil && pv.Spec.CSI != nil {
		return pv.Spec.CSI.Driver, pv.Spec.CSI.VolumeHandle, true
	}
	if inline := va.Spec.Source.InlineVolumeSpec; inline != nil && inline.CSI != nil {
		return inline.CSI.Driver, inline.CSI.VolumeHandle, true
	}
	return "", "", false
}

// ComputedName matches the names under which the controller creates VolumeAttachments.
var ComputedName = regexp.MustCompile(`^csi-[0-9a-f]{64}$`)

// NodeHandles are the volumes of a VolumeAttachment in its node's lists: its name is a hash of
// handle, driver and node. Once the PV is gone or was replaced, no other object shows them. They
// are sorted, and hardly ever more than one: the hash is of the three without separators.
func (p *View) NodeHandles(va *storagev1.VolumeAttachment) []corev1.UniqueVolumeName {
	node := p.Snapshot.Node(types.NodeName(va.Spec.NodeName))
	sum, computed := reconcile.SumOfName(va.Name)
	if node == nil || !computed {
		return nil
	}
	var names []corev1.UniqueVolumeName
	add := func(name corev1.UniqueVolumeName) {
		if driver, handle, ok := reconcile.ParseCSI(name); ok && reconcile.SumOf(handle, driver, NodeName(node)) == sum {
			names = append(names, name)
		}
	}
	for _, name := range node.Status.VolumesInUse {
		add(name)
	}
	for _, v := range node.Status.VolumesAttached {
		add(v.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// NodeHandle is the first of NodeHandles.
func (p *View) NodeHandle(va *storagev1.VolumeAttachment) (corev1.UniqueVolumeName, bool) {
	names := p.NodeHandles(va)
	if len(names) == 0 {
		return "", false
	}
	return names[0], true
}

var keptClaimsNaming Kept[map[string][]*corev1.PersistentVolumeClaim]

// ClaimsNaming are the claims whose spec.volumeName is the name.
func (p *View) ClaimsNaming(pv string) []*corev1.PersistentVolumeClaim {
	return keptClaimsNaming.Of(p, func(p *View) map[string][]*corev1.PersistentVolumeClaim {
		return index.New(p.Snapshot.Claims, func(claim *corev1.PersistentVolumeClaim) string { return claim.Spec.VolumeName })
	})[pv]
}

var keptOfPV Kept[map[string][]*storagev1.VolumeAttachment]

// AttachmentsNaming are the VolumeAttachments for the PV with the name, whether or not it
// exists.
func (p *View) AttachmentsNaming(pv string) []*storagev1.VolumeAttachment {
	return keptOfPV.Of(p, func(p *View) map[string][]*storagev1.VolumeAttachment {
		return index.New(p.Snapshot.VolumeAttachments, VolumeName)
	})[pv]
}

var keptOnNode Kept[map[string][]*storagev1.VolumeAttachment]

// AttachmentsOn are all VolumeAttachments to the node, also those whose volume is not known.
func (p *View) AttachmentsOn(node types.NodeName) []*storagev1.VolumeAttachment {
	return keptOnNode.Of(p, func(p *View) map[string][]*storagev1.VolumeAttachment {
		return index.New(p.Snapshot.VolumeAttachments, func(va *storagev1.VolumeAttachment) string { return va.Spec.NodeName })
	})[string(node)]
}

// ClaimNamed is the claim that the volume's claimRef names; nil where there is none.
func (p *View) ClaimNamed(pv *corev1.PersistentVolume) *corev1.PersistentVolumeClaim {
	if pv.Spec.ClaimRef == nil {
		return nil
	}
	return p.Snapshot.Claim(types.NamespacedName{Namespace: pv.Spec.ClaimRef.Namespace, Name: pv.Spec.ClaimRef.Name})
}

// ClaimOf is the claim of the pod's volume; nil where it has none, or that does not exist.
func (p *View) ClaimOf(pod *corev1.Pod, v *corev1.Volume) *corev1.PersistentVolumeClaim {
	return p.Snapshot.Claim(ClaimKey(pod, reconcile.ClaimName(pod, v)))
}

// BoundVolume is the volume that the pod's claim is bound to, attachable or
// not; nil where there is none or the two do not name each other.
func (p *View) BoundVolume(pod *corev1.Pod, v *corev1.Volume) *corev1.PersistentVolume {
	claim := p.ClaimOf(pod, v)
	if claim == nil || claim.Status.Phase != corev1.ClaimBound {
		return nil
	}
	return p.VolumeOf(claim)
}

// VolumeOf is the volume that the claim names; nil where it does not name the claim.
func (p *View) VolumeOf(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	pv := p.Snapshot.Volume(claim.Spec.VolumeName)
	if pv == nil || pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.UID != claim.UID {
		return nil
	}
	return pv
}

// VolumeIn is the pod's first volume with that unique name; nil where it has none.
func (p *View) VolumeIn(pod *corev1.Pod, volume corev1.UniqueVolumeName) *corev1.Volume {
	for i := range pod.Spec.Volumes {
		if name, _, err := p.World.PodVolume(pod, &pod.Spec.Volumes[i]); err == nil && name == volume {
			return &pod.Spec.Volumes[i]
		}
	}
	return nil
}

// WaitingHere are the pods on the pair's node that wait for the volume, the longest first.
func (p *View) WaitingHere(pair reconcile.VolumeNode) []*corev1.Pod {
	return LongestFirst(p.WaitingPods(pair))
}

// PvObject is the persistent volume as a finding's subject.
func PvObject(pv *corev1.PersistentVolume) finding.Object {
	return finding.Object{Kind: "PersistentVolume", Name: pv.Name, UID: pv.UID}
}

// ClaimObject is the claim as a finding's subject.
func ClaimObject(claim *corev1.PersistentVolumeClaim) finding.Object {
	return finding.Object{Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
}

// VaObject is the VolumeAttachment as a finding's subject.
func VaObject(va *storagev1.VolumeAttachment) finding.Object {
	return finding.Object{Kind: "VolumeAttachment", Name: va.Name, UID: va.UID}
}

// Token reports whether the text contains the word by itself, not as part of a longer name: i-1
// is not in i-12.
func Token(text, word string) bool {
	if word == "" {
		return false
	}
	for from := 0; ; {
		i := strings.Index(text[from:], word)
		if i < 0 {
			return false
		}
		i += from
		if !partOfName(text, i-1) && !partOfName(text, i+len(word)) {
			return true
		}
		from = i + 1
	}
}

// partOfName reports whether the byte at the index exists and may be part of a name.
func partOfName(s string, i int) bool {
	return i >= 0 && i < len(s) && (s[i] == '-' || s[i] == '_' || s[i] >= '0' && s[i] <= '9' || s[i] >= 'a' && s[i] <= 'z' || s[i] >= 'A' && s[i] <= 'Z')
}

// tokens are all words, up to the length, that Token finds in the text.
func tokens(text string, longest int) iter.Seq[string] {
	return func(yield func(string) bool) {
		for from := range len(text) {
			if partOfName(text, from-1) {
				continue
			}
			for to := from + 1; to <= min(len(text), from+longest); to++ {
				if !partOfName(text, to) && !yield(text[from:to]) {
					return
				}
			}
		}
	}
}
