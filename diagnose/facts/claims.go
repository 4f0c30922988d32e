package facts

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

var keptClaimUsers Kept[map[types.NamespacedName][]*corev1.Pod]

// ClaimUsers are the pods that name the claim and have not terminated, the longest first.
func (p *View) ClaimUsers(claim *corev1.PersistentVolumeClaim) []*corev1.Pod {
	return LongestFirst(slices.Clone(keptClaimUsers.Of(p, (*View).findClaimUsers)[types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}]))
}

func (p *View) findClaimUsers() map[types.NamespacedName][]*corev1.Pod {
	users := map[types.NamespacedName][]*corev1.Pod{}
	for _, pod := range p.Snapshot.Pods {
		for i := range pod.Spec.Volumes {
			name := reconcile.ClaimName(pod, &pod.Spec.Volumes[i])
			if name == "" || reconcile.PodTerminated(pod) {
				continue
			}
			if pods := users[ClaimKey(pod, name)]; len(pods) == 0 || pods[len(pods)-1] != pod {
				users[ClaimKey(pod, name)] = append(pods, pod)
			}
		}
	}
	return users
}

// DisksThatGo are the volumes whose disk is deleted once the pods are gone. The reclaim policy is
// Delete, no other pod on a node names the claim, and the claim is being deleted or goes with one
// of the pods. A generic ephemeral volume is meant to go with its pod.
func (p *View) DisksThatGo(pods []*corev1.Pod) []*corev1.PersistentVolume {
	var list []*corev1.PersistentVolume
	for _, pod := range pods {
		for i := range pod.Spec.Volumes {
			if pod.Spec.Volumes[i].PersistentVolumeClaim == nil {
				continue
			}
			claim := p.ClaimOf(pod, &pod.Spec.Volumes[i])
			if claim == nil || claim.DeletionTimestamp == nil && !ownedBy(claim, pod) {
				continue
			}
			pv := p.Snapshot.Volume(claim.Spec.VolumeName)
			if pv != nil && pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete && !slices.Contains(list, pv) && !p.namedByAnother(claim, pods) {
				list = append(list, pv)
			}
		}
	}
	return list
}

// KeepDisks returns what to do before the pods end, with its commands, so that no disk is
// deleted with them; "" where none would be.
func (p *View) KeepDisks(pods ...*corev1.Pod) (first string, commands []string) {
	disks := p.DisksThatGo(pods)
	if len(disks) == 0 {
		return "", nil
	}
	for _, pv := range disks {
		commands = append(commands, Retain(pv))
	}
	return "{do} " + diskGoes(disks, "{change} set") + "; {do} ", commands
}

// diskGoes is the clause that the disks are deleted with their pods, and how to keep them; set is
// the word "set", with a mark where the text has marks.
func diskGoes(disks []*corev1.PersistentVolume, set string) string {
	names := make([]string, 0, len(disks))
	for _, pv := range disks {
		names = append(names, pv.Name)
	}
	if len(disks) == 1 {
		return fmt.Sprintf("the disk of %s is deleted with the pod, as its claim goes with it: if its data is still needed, %s its reclaim policy to Retain first", names[0], set)
	}
	return fmt.Sprintf("the disks of %s are deleted with the pods, as their claims go with them: if their data is still needed, %s their reclaim policy to Retain first", some(names), set)
}

// Retain is the command that keeps the volume's disk when the volume or its claim is deleted.
func Retain(pv *corev1.PersistentVolume) string {
	return safetext.Kubectl("patch", "pv/"+pv.Name, "-p", `{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}`)
}

func ownedBy(claim *corev1.PersistentVolumeClaim, pod *corev1.Pod) bool {
	return slices.ContainsFunc(claim.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == pod.UID && o.Kind == "Pod" && o.Name == pod.Name })
}

// namedByAnother reports whether a pod on a node, other than these, names the claim.
func (p *View) namedByAnother(claim *corev1.PersistentVolumeClaim, pods []*corev1.Pod) bool {
	return slices.ContainsFunc(p.Snapshot.Pods, func(other *corev1.Pod) bool {
		return other.Namespace == claim.Namespace && other.Spec.NodeName != "" && slices.Contains(ClaimNames(other), claim.Name) && !slices.Contains(pods, other)
	})
}

// ClaimNames are the names of the claims that the pod uses, each once, in the order of its volumes.
func ClaimNames(pod *corev1.Pod) []string {
	var names []string
	for i := range pod.Spec.Volumes {
		if name := reconcile.ClaimName(pod, &pod.Spec.Volumes[i]); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// KeepsDeletedVolume reports whether the attachment keeps a volume that is being deleted,
// although nobody uses or deletes the attachment. An attached one of the controller's own is
// dangling-after-kcm-restart instead.
func (p *View) KeepsDeletedVolume(va Attachment) bool {
	pv := p.Snapshot.Volume(VolumeName(va.VolumeAttachment))
	return pv != nil && pv.DeletionTimestamp != nil && p.Age(*pv.DeletionTimestamp) >= PVDeletionGrace &&
		!p.ControllerYounger(DanglingGrace) && p.Age(va.CreationTimestamp) >= DanglingGrace && va.DeletionTimestamp == nil &&
		(!va.Ours() || !va.Holds()) && p.World.Managed.Has(va.Node) && reconcile.NodeReady(p.Snapshot.Node(va.Node)) && p.Forgotten(va.VolumeNode)
}

// keptLeaving reports, by namespace, whether all its claims and pods are being deleted.
var keptLeaving Kept[map[string]bool]

// NamespaceLeaves is the clause for an object that stays Terminating, where all remaining pods
// and claims of its namespace are Terminating too; "" elsewhere. No object that is read shows
// whether the namespace itself was deleted.
func (p *View) NamespaceLeaves(namespace string) string {
	leaves := keptLeaving.Of(p, func(p *View) map[string]bool {
		// nobody can delete these
		found := map[string]bool{metav1.NamespaceDefault: false, metav1.NamespaceSystem: false, metav1.NamespacePublic: false}
		seen := func(m *metav1.ObjectMeta) {
			leaves, known := found[m.Namespace]
			found[m.Namespace] = m.DeletionTimestamp != nil && (leaves || !known)
		}
		for _, claim := range p.Snapshot.Claims {
			seen(&claim.ObjectMeta)
		}
		for _, pod := range p.Snapshot.Pods {
			seen(&pod.ObjectMeta)
		}
		return found
	})
	if !leaves[namespace] {
		return ""
	}
	return "all pods and claims that are left in namespace " + namespace + " are Terminating: where the namespace was deleted, this keeps it Terminating, too"
}
