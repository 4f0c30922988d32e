package diagnose

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var inuseNotAttached = Check{
	Code:     "VD301",
	Name:     "inuse-not-attached",
	Title:    "The kubelet waits for an entry in volumesAttached that the controller will not write",
	Severity: Error,
	Needs: []snapshot.Kind{
		snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSIDrivers, snapshot.Leases,
	},
	Run: runInuseNotAttached,
}

const (
	// reuseSettles is how long the controller may take to report a volume whose
	// VolumeAttachment was there before the pod came: it looks at most 7 s apart
	// and writes the status within the pass; the kubelet reports every 10 s.
	reuseSettles = time.Minute
	// attachSettles is the same for a volume that was attached for the pod:
	// after an operation that timed out (2 min) the controller backs off for up
	// to 2 min 2 s before it looks again.
	attachSettles = 3 * time.Minute
	// attachSettlesUnseen is attachSettles where no events could be read, which
	// would tell that operations keep timing out.
	attachSettlesUnseen = 10 * time.Minute
)

func runInuseNotAttached(p *Pass) {
	if p.controllerJustStarted() {
		return // a controller that starts takes the VolumeAttachment up again
	}
	for _, node := range p.Snapshot.Nodes {
		if !reconcile.NodeReady(node) {
			continue
		}
		for i, volume := range node.Status.VolumesInUse {
			if !lists(node, volume) && !p.underOldName(node, volume) && !slices.Contains(node.Status.VolumesInUse[:i], volume) {
				p.inuseNotAttached(node, volume)
			}
		}
	}
}

func (p *Pass) inuseNotAttached(node *corev1.Node, volume corev1.UniqueVolumeName) {
	pair := reconcile.VolumeNode{Volume: volume, Node: nodeName(node)}
	wanted, actual := p.World.Desired[pair], p.World.Actual[pair]
	if wanted == nil || actual == nil || actual.Attachment == nil {
		return
	}
	va := actual.Attachment
	driver, handle, ok := wanted.Spec.CSI()
	if !ok || va.Name != reconcile.VolumeAttachmentName(handle, driver, pair.Node) ||
		!va.Status.Attached || va.DeletionTimestamp != nil {
		return // an attach or a detach is under way, or another check's case
	}
	if va.CreationTimestamp.Before(&node.CreationTimestamp) && emptied(node, p.attachmentsByNode()[node.Name]) {
		return // volumesattached-wiped; another machine may have the name, and what is attached may not be attached here
	}
	pods := slices.DeleteFunc(p.wantingPods(wanted), func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil })
	if len(pods) == 0 {
		return
	}
	// A pod that waits comes before one that runs. Which one it is about must not
	// hang on what could be read, so that its age is asked only now.
	slices.SortStableFunc(pods, func(a, b *corev1.Pod) int { return boolToInt(started(a)) - boolToInt(started(b)) })
	pod := pods[0]
	pods = slices.DeleteFunc(pods, func(pod *corev1.Pod) bool { return p.mayStillBeReported(pod, va.CreationTimestamp) })
	if !slices.Contains(pods, pod) {
		return
	}
	f := Finding{
		Subject:          podObject(pod),
		Volume:           volume,
		Node:             pair.Node,
		PersistentVolume: p.shortVolume(volume),
		VolumeAttachment: va.Name,
		Pods:             podNames(pods),
		Cause:            p.lostEntryCause(node),
		Evidence: []Evidence{
			{"node/" + node.Name, "status.volumesInUse", string(volume)},
			{"node/" + node.Name, "status.volumesAttached", "lacks it; lists " + attachedList(node.Status.VolumesAttached)},
			{"volumeattachment/" + va.Name, "status.attached", "true, not being deleted"},
		},
		SelfHeals: SelfHeals{Because: "the controller holds the volume for attached and does not compare the list; it rewrites the list " +
			"only when another volume is attached to or detached from this node, or when kube-controller-manager restarts"},
		Advice: "apply the repair; or move the pod: delete it, wait until its VolumeAttachment is gone, then let it return",
	}
	if started(pod) {
		f.Severity = Warning
		f.Message = fmt.Sprintf("Pod %s/%s runs on node %s with volume %s, but the node's volumesAttached has lost it: a kubelet that restarts "+
			"now would no longer protect the mount", pod.Namespace, pod.Name, node.Name, f.PersistentVolume)
		if _, at := volumesAttachedWriter(node); !at.IsZero() {
			f.Since = &at
		}
	} else {
		since := boundAt(pod)
		f.Since = &since
		f.Message = fmt.Sprintf("Pod %s/%s waits on node %s for volume %s: it is attached, but the entry is missing from the node's "+
			"volumesAttached, and the kubelet mounts only what that lists", pod.Namespace, pod.Name, node.Name, f.PersistentVolume)
	}
	p.Report(f)
}

// mayStillBeReported says that the controller may just not have come to report
// the volume for the pod.
func (p *Pass) mayStillBeReported(pod *corev1.Pod, attachmentMade metav1.Time) bool {
	bound := boundAt(pod)
	if failed := p.lastAttachFailure(pod); !failed.IsZero() && p.Age(failed) < attachSettles {
		return true
	}
	if !p.Snapshot.Complete(snapshot.Events) {
		return p.Age(latest(bound, attachmentMade)) < attachSettlesUnseen
	}
	if attachmentMade.Before(&bound) {
		return p.Age(bound) < reuseSettles
	}
	return p.Age(attachmentMade) < attachSettles
}

// lostEntryCause says how the entry can have been lost, as far as the node
// tells; see upstreamBugs for the releases that lose it.
func (p *Pass) lostEntryCause(node *corev1.Node) string {
	if writer, at := volumesAttachedWriter(node); !mayBeController(writer) {
		return fmt.Sprintf("status.volumesAttached was last written by %q at %s, not by the controller, which does not notice such a change",
			writer, at.UTC().Format(time.RFC3339))
	}
	return "the volume was taken off the list and put back faster than the controller's cache followed, so that its second patch was empty " +
		"(kubernetes issue 122413), or something else rewrote the node's status"
}

// mayBeController says of who wrote a status that it may be the controller: one
// of the programs that it is part of, or nobody known.
func mayBeController(writer string) bool {
	return slices.Contains([]string{"", "kube-controller-manager", "k3s", "kubelite"}, writer)
}
