package diagnose

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var terminatedPodHoldsVolume = Check{
	Code:     "VD107",
	Name:     "terminated-pod-holds-volume",
	Title:    "A pod that has ended keeps its volume on the node until the pod is deleted",
	Severity: Warning,
	Needs: []snapshot.Kind{
		snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSIDrivers,
	},
	Run: runTerminatedPodHoldsVolume,
}

// keepTerminatedAnnotation is what a kubelet with --keep-terminated-pod-volumes
// put on its node.
const keepTerminatedAnnotation = "volumes.kubernetes.io/keep-terminated-pod-volumes"

func runTerminatedPodHoldsVolume(p *Pass) {
	waiting := p.waiting()
	for _, va := range p.attachments() {
		if !p.keptAfterUse(va) {
			continue
		}
		pods, why := p.heldByEnded(va.VolumeNode)
		var ended metav1.Time
		settles := unusedSettles
		for _, pod := range pods {
			ended = latest(ended, lastSign(pod))
			if !tellsEnd(pod) {
				settles = unusedSettlesUnseen
			}
		}
		if len(pods) > 0 && p.Age(ended) >= settles {
			f := p.keptFinding(va, elsewhere(waiting[va.Volume], va.Node))
			f.Since, f.Cause = &ended, why
			p.heldByPod(f, pods)
		}
	}
}

// keptAfterUse says that the volume is attached to a node that lives and says
// that it is in use, where no pod uses it any more.
func (p *Pass) keptAfterUse(va attachment) bool {
	if va.ran {
		return false
	}
	node := p.Snapshot.Node(va.Node)
	return va.holds() && va.ours() && reconcile.NodeReady(node) && p.World.Managed.Has(va.Node) && !virtual(node) &&
		!reconcile.OutOfService(node) && inUse(node, va.Volume) &&
		!p.World.HasRunningPod(va.VolumeNode)
}

// heldByEnded are the pods for which the kubelet keeps a volume though they have
// ended, and why it does. Deleting them frees it.
func (p *Pass) heldByEnded(pair reconcile.VolumeNode) (pods []*corev1.Pod, why string) {
	pods = p.endedPods(pair)
	if slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil }) {
		return nil, "" // on its way
	}
	node := p.Snapshot.Node(pair.Node)
	switch {
	case len(pods) == 0 || node == nil:
		return nil, ""
	case !slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return !neverRan(pod) }):
		return pods, "the pod failed before any of its containers ran; the kubelet keeps a volume that it has not mounted for a pod until the pod " +
			"object is gone, and reports it in use all the while"
	case node.Annotations[keepTerminatedAnnotation] == "true" && (keepsTerminated(node.Status.NodeInfo.KubeletVersion) || p.World.Desired[pair] != nil):
		return pods, "the kubelet of the node runs with --keep-terminated-pod-volumes: it and the controller keep the volumes of a pod that has ended " +
			"until the pod is deleted"
	default:
		return nil, ""
	}
}

// keepsTerminated says that the kubelet is of a release that has the flag; it
// went in 1.31.
func keepsTerminated(release string) bool {
	v, err := version.ParseGeneric(release)
	return err == nil && v.Major() == 1 && v.Minor() < 31
}

func (p *Pass) heldByPod(f Finding, pods []*corev1.Pod) {
	names, first := podNames(pods), pods[0]
	holder := "pod " + names[0]
	if len(names) > 1 {
		holder = fmt.Sprintf("pod %s and %d like it", names[0], len(names)-1)
	}
	ended := "has failed"
	if !slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return !tellsEnd(pod) }) {
		ended = fmt.Sprintf("ended %s ago", rounded(p.Age(*f.Since)))
	}
	f.Message = fmt.Sprintf("Volume %s stays attached to node %s for %s, which %s and has not been deleted", f.PersistentVolume, f.Node, holder, ended) + f.Message
	for _, pod := range pods {
		f.Evidence = append(f.Evidence, Evidence{"pod/" + podName(pod), "status.phase", string(pod.Status.Phase)})
	}
	if len(f.Pods) == 0 {
		f.Pods = names
	}
	f.SelfHeals = SelfHeals{Because: "the kubelet waits for the pod object to go, and the controller for the kubelet; a pod that has ended is deleted by " +
		"its owner, by a person, or not at all"}
	f.Advice = fmt.Sprintf("save its log if you need it, then: kubectl delete pod %s -n %s; the kubelet lets go of the volume and the controller detaches it "+
		"within about a minute. The pod does not run: this is not the forced deletion that leaves writers behind", first.Name, first.Namespace)
	p.Report(f)
}
