package facts

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// Mounts reports whether the pod's spec has the volume, mounted by a container or not.
func (p *View) Mounts(pod *corev1.Pod, volume corev1.UniqueVolumeName) bool {
	return p.VolumeIn(pod, volume) != nil
}

// MayMount reports whether the pod's spec has the volume, or a claim that leads to no volume now: it
// may have led to this one.
func (p *View) MayMount(pod *corev1.Pod, volume corev1.UniqueVolumeName) bool {
	return p.Mounts(pod, volume) || slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return p.leadsNowhere(pod, &v) })
}

// HasNewUser reports whether a pod that uses the volume was created less than a minute ago: its
// predecessor may just have left, and is still being cleaned up. A new pod on the node whose
// claim leads to no volume counts too, as the lists of claims and volumes may be older than the
// pod.
func (p *View) HasNewUser(pair reconcile.VolumeNode) bool {
	return slices.ContainsFunc(p.Snapshot.Pods, func(pod *corev1.Pod) bool {
		if p.Lasted(pod.CreationTimestamp, ListsGrace) {
			return false // as most pods
		}
		return p.Mounts(pod, pair.Volume) || NodeOf(pod) == pair.Node && p.MayMount(pod, pair.Volume)
	})
}

// AllDeleting reports whether somebody has deleted every pod of the list.
func AllDeleting(pods []*corev1.Pod) bool {
	return !slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return pod.DeletionTimestamp == nil })
}

// KubeletLives reports whether the node's kubelet shows a sign of life: it renews its lease, or
// reports the node's status itself. The node lifecycle controller sets the Ready condition of a
// silent node to Unknown; False comes from the kubelet.
func (p *View) KubeletLives(node *corev1.Node) bool {
	if node == nil {
		return false
	}
	c, grace := ReadyCondition(node), NodeMonitorGrace
	switch lease := p.Snapshot.Lease(corev1.NamespaceNodeLease, node.Name); {
	case lease == nil || lease.Spec.RenewTime == nil:
		grace = KubeletReports // without leases only its reports show it
	case p.Age(Renewed(lease)) < NodeMonitorGrace:
		return true
	}
	return c != nil && c.Status != corev1.ConditionUnknown && (c.LastHeartbeatTime.IsZero() && grace == KubeletReports || p.Age(c.LastHeartbeatTime) < grace)
}

// ShutDownClause is a clause: the cloud provider reports that the node's machine is off; "" where it
// does not.
func ShutDownClause(node *corev1.Node) string {
	if node != nil && slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == reconcile.ShutdownTaint }) {
		return "its taint " + reconcile.ShutdownTaint + " says that the cloud has its machine shut down: see that nobody starts it"
	}
	return ""
}

// Lost reports whether the node does not exist, or is not Ready and its kubelet shows no sign
// of life. Only then may the node be called lost, and its machine be off.
func (p *View) Lost(node *corev1.Node) bool {
	return !reconcile.NodeReady(node) && !p.KubeletLives(node)
}

// Outstays reports whether the pod tolerates the taint of an unreachable node for good, so that
// kube-controller-manager never deletes it there.
func Outstays(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
		return t.TolerationSeconds == nil && (t.Key == "" || t.Key == corev1.TaintNodeUnreachable) && t.Operator == corev1.TolerationOpExists && (t.Effect == "" || t.Effect == corev1.TaintEffectNoExecute)
	})
}

// OutOfServiceSince is since when the node's out-of-service taint can have an effect; zero
// where nothing shows when it was set.
func (p *View) OutOfServiceSince(node *corev1.Node) metav1.Time {
	for _, t := range node.Spec.Taints {
		if t.Key == corev1.TaintNodeOutOfService && t.TimeAdded != nil {
			return Latest(*t.TimeAdded, NotReadySince(node))
		}
	}
	return metav1.Time{}
}

// GivenUp reports whether the kubelet has deleted the pod object, which finalizers of others
// still keep.
func GivenUp(pod *corev1.Pod) bool {
	return len(pod.Finalizers) > 0 && pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds == 0
}

// TaintInVain is why the out-of-service taint does not end a Terminating pod, and what to do.
func (p *View) TaintInVain(pod *corev1.Pod) (cause, advice string, commands []string) {
	switch {
	case len(pod.Finalizers) > 0:
		return fmt.Sprintf("finalizers keep the pod object: %s", strings.Join(pod.Finalizers, ", ")),
			fmt.Sprintf("{check} find who has set the finalizers of pod %s, and have that program take them off", PodName(pod)),
			[]string{safetext.Kubectl("get", "pod/"+pod.Name, "-n", pod.Namespace, "-o", "yaml")}
	case p.ControllerDown() != nil:
		return "no kube-controller-manager leads, whose pod garbage collector ends the pods of a node that is out of service",
			"bring kube-controller-manager back on the control plane", ControllerPods()
	default:
		return "the pod garbage collector of kube-controller-manager ends the pods of a node that is out of service, and has not: it does not run, or may not delete the pod",
			CollectorLog, ControllerPods()
	}
}

// CollectorLog is the advice to read what the pod garbage collector reports about a pod that it
// does not end.
const CollectorLog = "{check} read the log of kube-controller-manager for what its pod garbage collector reports about the pod"

// ControllerPods is the command that shows the pods of kube-controller-manager.
func ControllerPods() []string {
	return []string{safetext.Kubectl("get", "pods", "-n", metav1.NamespaceSystem, "-l", "component="+reconcile.ControllerManager, "-o", "wide")}
}

// LostPodSince is since when a Terminating pod on a lost node keeps its volumes for nothing: it
// was deleted, and the node is not Ready. Its grace period does not count, as nobody there
// observes it.
func (p *View) LostPodSince(pod *corev1.Pod) metav1.Time {
	return Latest(EndAsked(pod), NotReadySince(p.Snapshot.Node(NodeOf(pod))))
}

// LostPodSeverity is the severity of a pod that has been Terminating on a lost node since then
// and keeps a volume from others: no timer ends it.
func (p *View) LostPodSeverity(since metav1.Time) finding.Severity {
	switch {
	case p.Lasted(since, lostPodFails):
		return finding.Error
	case p.Lasted(since, LostPodWarns):
		return finding.Warning
	default:
		return finding.Info
	}
}
