package diagnose

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var oosTaintMisuse = Check{
	Code:     "VD110",
	Name:     "oos-taint-misuse",
	Title:    "A node that is Ready carries the out-of-service taint",
	Severity: Warning,
	Needs: []snapshot.Kind{
		snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSIDrivers, snapshot.Leases,
	},
	Run: runOOSTaintMisuse,
}

const (
	// tookOver is how long a node may be Ready under the taint: whoever set it
	// sees the node come back and takes it off.
	tookOver = 2 * time.Minute
	// heartbeatSettles is how old the kubelet's lease may be while its node still
	// counts as alive. It is renewed every 10 s, while Ready lags by up to 50 s
	// behind a machine that was switched off and tainted at once.
	heartbeatSettles = 30 * time.Second
)

func runOOSTaintMisuse(p *Pass) {
	for _, node := range p.Snapshot.Nodes {
		if p.taintMisused(node) {
			p.oosTaintMisuse(node)
		}
	}
}

func (p *Pass) taintMisused(node *corev1.Node) bool {
	if !reconcile.OutOfService(node) || !reconcile.NodeReady(node) || p.Age(readyCondition(node).LastTransitionTime) < tookOver {
		return false
	}
	for _, t := range node.Spec.Taints {
		if t.Key == corev1.TaintNodeOutOfService && t.TimeAdded != nil && p.Age(*t.TimeAdded) < tookOver {
			return false
		}
	}
	lease := p.Snapshot.Lease("kube-node-lease", node.Name)
	return lease == nil || lease.Spec.RenewTime == nil || p.Snapshot.TakenAt.Sub(lease.Spec.RenewTime.Time) < heartbeatSettles
}

func (p *Pass) oosTaintMisuse(node *corev1.Node) {
	f := Finding{
		Subject: Object{Kind: "Node", Name: node.Name, UID: node.UID},
		Node:    nodeName(node),
		Since:   &readyCondition(node).LastTransitionTime,
		Message: fmt.Sprintf("Node %s is Ready and carries the out-of-service taint, under which the controller detaches volumes without waiting for "+
			"their unmount", node.Name),
		Cause: "the taint was set on a node that lives, or was left behind when the node came back",
		Evidence: append([]Evidence{
			{"node/" + node.Name, "spec.taints", corev1.TaintNodeOutOfService},
			{"node/" + node.Name, "status.conditions[Ready]", readyText(node)},
			{"node/" + node.Name, "status.volumesInUse", list(node.Status.VolumesInUse)},
		}, p.renewedLease(nodeName(node))...),
		SelfHeals: SelfHeals{Because: "whoever set the taint must take it off; no part of Kubernetes does"},
		Advice: fmt.Sprintf("take the taint off, so that the drivers' node plugins return and can unmount: kubectl taint nodes %s %s-",
			node.Name, corev1.TaintNodeOutOfService),
	}
	if volumes := node.Status.VolumesInUse; len(volumes) > 0 {
		f.Severity = Error
		f.Message += fmt.Sprintf("; it still has %d in use, among them %s", len(volumes), p.shortVolume(volumes[0]))
	}
	var pods []*corev1.Pod
	for _, pod := range p.Snapshot.PodsOnNode(nodeName(node)) {
		if slices.ContainsFunc(node.Status.VolumesInUse, func(v corev1.UniqueVolumeName) bool { return p.mounts(pod, v) }) && !reconcile.PodTerminated(pod) {
			pods = append(pods, pod)
		}
	}
	if len(pods) > 0 {
		f.Pods = podNames(pods)
		f.Message += fmt.Sprintf(", for pod %s", f.Pods[0])
	}
	var torn []corev1.UniqueVolumeName
	for _, volume := range node.Status.VolumesInUse {
		if p.statusSettled(node) && p.detachedUnder(node, volume) {
			torn = append(torn, volume)
			f.Evidence = append(f.Evidence, Evidence{"volumeattachment/" + attachmentName(reconcile.VolumeNode{Volume: volume, Node: nodeName(node)}),
				"metadata.name", "there is no such object, though the node still has the volume in use"})
		}
	}
	if len(torn) > 0 {
		f.Message += fmt.Sprintf("; volume %s has already been detached under its mount", p.shortVolume(torn[0]))
		f.Advice = fmt.Sprintf("do not take the taint off yet, as the stale mounts would be used again: cordon %s, reboot it, and take the taint off once "+
			"its volumesInUse is empty", node.Name)
	}
	p.Report(f)
}
