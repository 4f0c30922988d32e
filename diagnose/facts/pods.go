package facts

import (
	"iter"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// Bare reports whether no controller controls the pod: nobody makes it again once it is gone.
func Bare(pod *corev1.Pod) bool { return metav1.GetControllerOfNoCopy(pod) == nil }

// ControlledBy reports whether an object of the kind, such as a StatefulSet, controls the pod.
func ControlledBy(pod *corev1.Pod, kind string) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && owner.Kind == kind
}

// PodNeeds are the reasons for which a pod without a volume matters: Drained are the nodes that
// are being deleted, for VD113, and Holders hold the lease of an attacher or a resizer, by
// reconcile.AttacherName (LeaseHolder).
type PodNeeds struct {
	Drained, spaces sets.Set[string] // spaces are the namespaces of the Holders
	Holders         sets.Set[types.NamespacedName]
}

// NeedsOf collects the needs of the nodes and the leases.
func NeedsOf(o *snapshot.Objects) PodNeeds {
	n := PodNeeds{sets.New[string](), sets.New[string](), sets.New[types.NamespacedName]()}
	for _, node := range o.Nodes {
		if node.DeletionTimestamp != nil {
			n.Drained.Insert(node.Name)
		}
	}
	for _, lease := range o.Leases {
		if holder := sidecarHolder(lease, reconcile.AttacherLeasePrefix, reconcile.ResizerLeasePrefix); holder != "" {
			n.Holders.Insert(types.NamespacedName{Namespace: lease.Namespace, Name: holder})
			n.spaces.Insert(lease.Namespace)
		}
	}
	return n
}

// OfUse reports whether any code of this module needs the pod, by its name, node, phase, reason,
// volumes and containers. Whoever filters with it must also keep the pods that a command names.
func (n PodNeeds) OfUse(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, volumeOfUse) || slices.ContainsFunc(pod.Spec.Containers, isControllerSidecar) ||
		pod.Status.Phase == corev1.PodFailed && slices.Contains(shutDownReasons, pod.Status.Reason) ||
		(pod.Status.Phase == corev1.PodPending || pod.DeletionTimestamp != nil) && pod.Spec.NodeName != "" || n.Drained.Has(pod.Spec.NodeName) ||
		n.spaces.Has(pod.Namespace) && n.Holders.Has(types.NamespacedName{Namespace: pod.Namespace, Name: reconcile.AttacherName(pod.Name)})
}

// isControllerSidecar reports whether the container is a sidecar whose pod shows why a driver does nothing.
func isControllerSidecar(c corev1.Container) bool {
	return IsAttacher(c) || IsProvisioner(c) || IsResizer(c)
}

// volumeOfUse reports whether the volume may be attached, or belongs to a driver's node plugin.
func volumeOfUse(v corev1.Volume) bool {
	return reconcile.CanBeAttached(&v) || strings.Contains(hostPath(v), "/plugins")
}

// Containers are the pod's init containers and then its containers, not copied, without the
// ephemeral ones.
func Containers(pod *corev1.Pod) iter.Seq[*corev1.Container] {
	return func(yield func(*corev1.Container) bool) {
		for _, list := range [...][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			for i := range list {
				if !yield(&list[i]) {
					return
				}
			}
		}
	}
}

// IsAttacher reports whether the container is an external-attacher, by its image or its name.
func IsAttacher(c corev1.Container) bool { return snapshot.IsSidecar(c, "csi-attacher") }

// IsResizer reports whether the container is an external-resizer, by its image or its name.
func IsResizer(c corev1.Container) bool { return snapshot.IsSidecar(c, "csi-resizer") }

// IsProvisioner reports whether the container is an external-provisioner, by its image or its name.
func IsProvisioner(c corev1.Container) bool { return snapshot.IsSidecar(c, "csi-provisioner") }

// sidecarHolder is the holder of a lease whose name has one of the prefixes; else "".
func sidecarHolder(lease *coordinationv1.Lease, prefixes ...string) string {
	if !slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(lease.Name, prefix) }) {
		return ""
	}
	return ptr.Deref(lease.Spec.HolderIdentity, "")
}

// podsByRole are the pods that many checks look for, found in one walk.
type podsByRole struct {
	pending   []*corev1.Pod // the longest first
	pendingOn map[types.NodeName][]*corev1.Pod
	plugins   plugins
	// Refused are the pods that the kubelet rejected because of an attach limit.
	Refused map[types.NodeName][]*corev1.Pod
}

var keptPods Kept[podsByRole]

// PodsByRole are the pods that the checks about drivers and limits look for.
func (p *View) PodsByRole() podsByRole {
	return keptPods.Of(p, func(p *View) podsByRole {
		roles := podsByRole{nil, map[types.NodeName][]*corev1.Pod{}, plugins{}, map[types.NodeName][]*corev1.Pod{}}
		for _, pod := range p.Snapshot.Pods {
			if IsPending(pod) {
				roles.pending = append(roles.pending, pod)
			}
			if pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
				roles.plugins.add(pod)
			}
			if pod.Status.Phase == corev1.PodFailed && pod.Status.Reason == "VolumeAttachmentLimitExceeded" {
				roles.Refused[NodeOf(pod)] = append(roles.Refused[NodeOf(pod)], pod)
			}
		}
		for _, pod := range LongestFirst(roles.pending) {
			roles.pendingOn[NodeOf(pod)] = append(roles.pendingOn[NodeOf(pod)], pod)
		}
		return roles
	})
}

// EachOnce removes repeated pods in place, and keeps the first of each.
func EachOnce(pods []*corev1.Pod) []*corev1.Pod {
	seen := make(map[*corev1.Pod]bool, len(pods))
	return slices.DeleteFunc(pods, func(pod *corev1.Pod) bool {
		again := seen[pod]
		seen[pod] = true
		return again
	})
}
