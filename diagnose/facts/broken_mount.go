package facts

import (
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/trim"
)

// BrokenMount is a mounted volume that keeps a container of its pod from starting.
type BrokenMount struct {
	Container string
	Volume    *corev1.Volume
	// Words is the message of the kubelet or of the container runtime about it.
	Words string
	// Since is when the pod's Ready condition last changed, or else when the pod was bound.
	Since metav1.Time
}

// subPathOf finds the pod's volume in the kubelet's words about a subPath
// (Kubelet.makeMounts).
var subPathOf = regexp.MustCompile(`subPath\b.* for volumeMount "([^"]+)"`)

// BrokenMount returns the pod's first broken mount. A container waits, and its message, or that
// of its last failed start, names the volume's path in the pod's directory, or its subPath.
func (p *View) BrokenMount(pod *corev1.Pod) (BrokenMount, bool) {
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if status.State.Waiting == nil {
			continue
		}
		// Between the tries the kubelet says only that it waits (CrashLoopBackOff).
		said := []string{status.State.Waiting.Message}
		if last := status.LastTerminationState.Terminated; last != nil && trim.NotStarted(last) {
			said = append(said, last.Message)
		}
		for _, words := range said {
			for i := range pod.Spec.Volumes {
				v := &pod.Spec.Volumes[i]
				m := subPathOf.FindStringSubmatch(words)
				if m != nil && m[1] == v.Name || namesPath(words, pod.UID, p.KubeletName(pod, v)) || p.unreadClaim(pod, v) && namesCSI(words, pod.UID) {
					return BrokenMount{status.Name, v, words, readySince(pod)}, true
				}
			}
		}
	}
	return BrokenMount{}, false
}

// unreadClaim reports whether the claim of the volume was not read, so that the name that the
// kubelet has for the volume is not known.
func (p *View) unreadClaim(pod *corev1.Pod, v *corev1.Volume) bool {
	key := ClaimKey(pod, reconcile.ClaimName(pod, v))
	return key.Name != "" && p.Snapshot.Claim(key) == nil && !p.Snapshot.Complete(snapshot.Claims)
}

// namesCSI reports whether the words contain the path of some CSI volume of the pod.
func namesCSI(words string, pod types.UID) bool {
	return strings.Contains(slashed(words), "/pods/"+string(pod)+"/volumes/kubernetes.io~csi/")
}

// readySince is when the pod's Ready condition last changed, or else when the pod was bound.
func readySince(pod *corev1.Pod) metav1.Time {
	if c := Condition(pod, corev1.PodReady); c != nil {
		return c.LastTransitionTime
	}
	return BoundAt(pod)
}

// namesPath reports whether the words contain the volume's path in the pod's directory:
// volumes/PLUGIN/NAME, or volume-subpaths/NAME.
func namesPath(words string, pod types.UID, name string) bool {
	_, path, found := strings.Cut(slashed(words), "/pods/"+string(pod)+"/volume")
	if !found {
		return false
	}
	path, _, _ = strings.Cut(path, `"`)
	path, _, _ = strings.Cut(path, ":")
	parts := strings.Split(path, "/") // "s", PLUGIN, NAME, or "-subpaths", NAME
	return len(parts) > 2 && parts[0] == "s" && parts[2] == name || len(parts) > 1 && parts[0] == "-subpaths" && parts[1] == name
}

// slashed replaces the separators in paths of Windows nodes.
func slashed(words string) string {
	return strings.ReplaceAll(words, `\`, "/")
}

// MountsAlike are the other pods of the node whose mounts may have ended with this one, because
// the pod of the driver's node plugin serves them, or may.
func (p *View) MountsAlike(driver string, pod *corev1.Pod) []*corev1.Pod {
	if driver == "" {
		return nil
	}
	stake := p.servedBy(driver, NodeOf(pod))
	if stake.serving == ServesNone {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(stake.pods), func(other *corev1.Pod) bool { return other == pod })
}
