package diagnose

import (
	"iter"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// volumeName is the name of the PV that the VolumeAttachment is for; "" where
// it carries its volume with it.
func volumeName(va *storagev1.VolumeAttachment) string {
	if va.Spec.Source.PersistentVolumeName == nil {
		return ""
	}
	return *va.Spec.Source.PersistentVolumeName
}

// attacherHolds says that the driver's attacher has put its finalizer on the
// object and must take it off before the object goes.
func attacherHolds(va *storagev1.VolumeAttachment) bool {
	return slices.Contains(va.Finalizers, "external-attacher/"+attacherName(va.Spec.Attacher))
}

var computedName = regexp.MustCompile(`^csi-[0-9a-f]{64}$`)

// nodeHandle finds the volume of a VolumeAttachment in what its node reports:
// its name is a hash of handle, driver and node. That is the only place left to
// look once the PV is gone or is another one.
func (p *Pass) nodeHandle(va *storagev1.VolumeAttachment) (corev1.UniqueVolumeName, bool) {
	node := p.Snapshot.Node(types.NodeName(va.Spec.NodeName))
	if node == nil {
		return "", false
	}
	names := slices.Clone(node.Status.VolumesInUse)
	for _, v := range node.Status.VolumesAttached {
		names = append(names, v.Name)
	}
	slices.Sort(names)
	for _, name := range names {
		if attachmentName(reconcile.VolumeNode{Volume: name, Node: nodeName(node)}) == va.Name {
			return name, true
		}
	}
	return "", false
}

// claimsNaming are the claims whose volume is the one with the name.
func (p *Pass) claimsNaming(pv string) []*corev1.PersistentVolumeClaim {
	return p.remember().claimsNaming.get(func() map[string][]*corev1.PersistentVolumeClaim {
		return grouped(p.Snapshot.Claims, func(claim *corev1.PersistentVolumeClaim) string { return claim.Spec.VolumeName })
	})[pv]
}

// attachmentsNaming are the VolumeAttachments for the PV with the name, whether
// or not there is such a one.
func (p *Pass) attachmentsNaming(pv string) []*storagev1.VolumeAttachment {
	return p.remember().ofPV.get(func() map[string][]*storagev1.VolumeAttachment {
		return grouped(p.Snapshot.VolumeAttachments, volumeName)
	})[pv]
}

// attachmentsOn are all VolumeAttachments to the node, those too of which nobody
// can tell the volume.
func (p *Pass) attachmentsOn(node types.NodeName) []*storagev1.VolumeAttachment {
	return p.remember().onNode.get(func() map[types.NodeName][]*storagev1.VolumeAttachment {
		return grouped(p.Snapshot.VolumeAttachments, func(va *storagev1.VolumeAttachment) types.NodeName { return types.NodeName(va.Spec.NodeName) })
	})[node]
}

// grouped are the objects by the key, in their order.
func grouped[K comparable, O any](objects []O, key func(O) K) map[K][]O {
	groups := make(map[K][]O, len(objects))
	for i, o := range objects {
		k := key(o)
		if group, ok := groups[k]; ok {
			groups[k] = append(group, o)
		} else {
			groups[k] = objects[i : i+1 : i+1] // the first costs no list of its own
		}
	}
	return groups
}

// boundVolume is the volume that the pod's claim is bound to, attachable or
// not; nil where there is none or the two do not name each other.
func (p *Pass) boundVolume(pod *corev1.Pod, v *corev1.Volume) *corev1.PersistentVolume {
	claim := p.Snapshot.Claim(claimKey(pod, reconcile.ClaimName(pod, v)))
	if claim == nil || claim.Status.Phase != corev1.ClaimBound {
		return nil
	}
	pv := p.Snapshot.Volume(claim.Spec.VolumeName)
	if pv == nil || pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.UID != claim.UID {
		return nil
	}
	return pv
}

// waitingHere are the pods on the attachment's own node that wait for it, the
// one that waits longest first.
func (p *Pass) waitingHere(pair reconcile.VolumeNode) []*corev1.Pod {
	row := p.World.Desired[pair]
	if row == nil {
		return nil
	}
	pods := pending(p.wantingPods(row))
	longestFirst(pods)
	return pods
}

func pvObject(pv *corev1.PersistentVolume) Object {
	return Object{Kind: "PersistentVolume", Name: pv.Name, UID: pv.UID}
}

func vaObject(va *storagev1.VolumeAttachment) Object {
	return Object{Kind: "VolumeAttachment", Name: va.Name, UID: va.UID}
}

// token says whether the text has the word by itself, not as a part of a longer
// name: i-1 is not in i-12.
func token(text, word string) bool {
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

// partOfName says that the character at the place goes on with a name.
func partOfName(s string, i int) bool {
	return i >= 0 && i < len(s) && (s[i] == '-' || s[i] == '_' || s[i] >= '0' && s[i] <= '9' || s[i] >= 'a' && s[i] <= 'z' || s[i] >= 'A' && s[i] <= 'Z')
}

// tokens are all that token finds in the text, up to the length.
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

// pairOf is the attachment's volume on the pod's node.
func pairOf(va attachment, pod *corev1.Pod) reconcile.VolumeNode {
	return reconcile.VolumeNode{Volume: va.Volume, Node: types.NodeName(pod.Spec.NodeName)}
}
