package attached

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var OosTaintMisuse = check.Check{
	Code:     "VD110",
	Name:     "oos-taint-misuse",
	Title:    "A node that is Ready carries the out-of-service taint",
	Severity: finding.Warning,
	Needs:    check.AttachmentKinds(snapshot.Leases),
	OfDriver: true,
	Never:    "set the taint while the machine runs: it detaches volumes under mounts",
	Run:      runOOSTaintMisuse,
}

const (
	// tookOver is how long a node may be Ready under the taint. A judgement: whoever set the
	// taint sees the node come back and removes it.
	tookOver = 2 * time.Minute
	// heartbeatGrace is how old the kubelet's lease may be while its node still counts as alive.
	// The Ready condition lags behind a machine that was switched off and immediately tainted.
	heartbeatGrace = facts.NodeLeaseRenew + 20*time.Second
)

func runOOSTaintMisuse(p *check.Run) {
	for _, node := range p.Snapshot.Nodes {
		if taintMisused(p.View, node) {
			oosTaintMisuse(p, node)
		}
	}
}

func taintMisused(p *facts.View, node *corev1.Node) bool {
	if !reconcile.OutOfService(node) || !reconcile.NodeReady(node) || p.Age(facts.ReadyCondition(node).LastTransitionTime) < tookOver {
		return false
	}
	for _, t := range node.Spec.Taints {
		if t.Key == corev1.TaintNodeOutOfService && t.TimeAdded != nil && p.Age(*t.TimeAdded) < tookOver {
			return false
		}
	}
	lease := p.Snapshot.Lease(corev1.NamespaceNodeLease, node.Name)
	return lease == nil || lease.Spec.RenewTime == nil || p.Snapshot.TakenAt.Sub(lease.Spec.RenewTime.Time) < heartbeatGrace
}

// since is the time from which the node was both Ready and tainted; nil where the taint has no
// time, as kubectl sets it.
func since(node *corev1.Node) *metav1.Time {
	at := facts.ReadyCondition(node).LastTransitionTime
	for _, t := range node.Spec.Taints {
		if t.Key == corev1.TaintNodeOutOfService {
			if t.TimeAdded == nil {
				return nil
			}
			at = facts.Latest(at, *t.TimeAdded)
		}
	}
	return &at
}

func oosTaintMisuse(p *check.Run, node *corev1.Node) {
	f := facts.AboutNode(node, finding.Finding{
		Since:   since(node),
		Message: fmt.Sprintf("Node %s is Ready and carries the out-of-service taint: its volumes are detached by force", node.Name),
		Detail:  "the controller does not wait for their unmount",
		Cause:   "the taint was set on a node that lives, or was left behind when the node came back",
		Evidence: append([]finding.Evidence{
			{Object: "node/" + node.Name, Field: "spec.taints", Value: corev1.TaintNodeOutOfService},
			{Object: "node/" + node.Name, Field: "status.conditions[Ready]", Value: facts.ReadyText(node)},
			{Object: "node/" + node.Name, Field: "status.volumesInUse", Value: facts.List(node.Status.VolumesInUse)},
		}, p.RenewedLease(facts.NodeName(node))...),
		SelfHeals:      finding.SelfHeals{Because: "whoever set the taint must take it off; no part of Kubernetes does"},
		ByHand:         "{reversible} take the taint off node " + node.Name + ", so that the drivers' node plugins return and can unmount",
		AdviceCommands: []string{safetext.Kubectl("taint", "nodes", "node/"+node.Name, corev1.TaintNodeOutOfService+"-")},
	})
	if volumes := node.Status.VolumesInUse; len(volumes) > 0 {
		f.Severity = finding.Error
		facts.Also(&f, "it still has volume %s in use", p.ShortVolume(volumes[0]))
		if len(volumes) > 1 {
			f.Detail += fmt.Sprintf(" and %d more", len(volumes)-1)
		}
	}
	var pods []*corev1.Pod
	for _, pod := range p.Snapshot.PodsOnNode(facts.NodeName(node)) {
		if slices.ContainsFunc(node.Status.VolumesInUse, func(v corev1.UniqueVolumeName) bool { return p.Mounts(pod, v) }) && !reconcile.PodTerminated(pod) {
			pods = append(pods, pod)
		}
	}
	if len(pods) > 0 {
		f.Pods = facts.PodNames(pods)
		facts.Also(&f, "pod %s there uses its volume", f.Pods[0])
	}
	var torn []corev1.UniqueVolumeName
	for _, volume := range node.Status.VolumesInUse {
		if statusUnchanged(p.View, node) && detachedUnder(p.View, node, volume) {
			torn = append(torn, volume)
			f.Evidence = append(f.Evidence, finding.Evidence{Object: "volumeattachment/" + facts.AttachmentName(reconcile.VolumeNode{Volume: volume, Node: facts.NodeName(node)}),
				Field: "metadata.name", Value: "there is no such object, though the node still has the volume in use"})
		}
	}
	if len(torn) > 0 {
		facts.Also(&f, "volume %s has already been detached under its mount", p.ShortVolume(torn[0]))
		f.ByHand = "cordon the node and {reboot-node}; {reversible} take the taint off when its volumesInUse is empty"
		f.Never = "take the taint off before that: the stale mounts would be used again"
		f.AdviceCommands = nil
	}
	p.Report(f)
}
