package diagnose

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var rwoRolloutDeadlock = Check{
	Code:     "VD202",
	Name:     "rwo-rollout-deadlock",
	Title:    "A Deployment's new pod waits for a volume that its old pod keeps until the new one is ready",
	Severity: Error,
	Needs: []snapshot.Kind{
		snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSIDrivers,
	},
	Run: runRWORolloutDeadlock,
}

func runRWORolloutDeadlock(p *Pass) {
	for _, c := range p.conflicts() {
		if r, ok := c.rollout(); ok {
			p.rolloutDeadlock(c, r)
		}
	}
}

func (p *Pass) rolloutDeadlock(c conflict, r rollout) {
	since := boundAt(r.to)
	p.Report(Finding{
		Subject:          podObject(r.to),
		Volume:           c.Volume,
		Node:             c.Node,
		PersistentVolume: p.shortVolume(c.Volume),
		VolumeAttachment: c.Name,
		Pods:             podNames(c.waiters),
		Since:            &since,
		Message: fmt.Sprintf("Pod %s waits on node %s for volume %s, which pod %s of the same Deployment %s keeps on node %s until the new pod is Ready",
			podName(r.to), r.to.Spec.NodeName, p.shortVolume(c.Volume), podName(r.from), r.deployment, c.Node),
		Cause: p.strategyCause(r),
		Evidence: []Evidence{
			{"pod/" + podName(r.from), "metadata.ownerReferences", "ReplicaSet " + ownerName(r.from) + "; Ready on node " + r.from.Spec.NodeName},
			{"pod/" + podName(r.to), "metadata.ownerReferences", "ReplicaSet " + ownerName(r.to) + "; not started on node " + r.to.Spec.NodeName},
			{c.object(), "status.attached", "true on node " + string(c.Node) + ", and rightly so"},
		},
		SelfHeals: SelfHeals{Because: "each pod waits for the other: the new one for the volume, the old one for the new one to be Ready"},
		Advice: fmt.Sprintf("set the Deployment's strategy to Recreate, or delete pod %s, which then frees the volume; do not delete the "+
			"VolumeAttachment: it would take the disk from under the pod that works", podName(r.from)),
	})
}

// strategyCause says why the Deployment keeps the old pod, where it was read.
func (p *Pass) strategyCause(r rollout) string {
	const otherwise = "a rolling update starts the new pod before it ends the old one, and a volume for one node at a time cannot follow"
	d := p.Snapshot.Deployment(types.NamespacedName{Namespace: r.namespace, Name: r.deployment})
	if d == nil || d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return otherwise
	}
	replicas, unavailable := 1, intstr.FromString("25%")
	if d.Spec.Replicas != nil {
		replicas = int(*d.Spec.Replicas)
	}
	if u := d.Spec.Strategy.RollingUpdate; u != nil && u.MaxUnavailable != nil {
		unavailable = *u.MaxUnavailable
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(&unavailable, replicas, false)
	if err != nil {
		return otherwise
	}
	return fmt.Sprintf("%s; the Deployment's maxUnavailable %s of %d replicas lets it end %d beforehand", otherwise, unavailable.String(), replicas, n)
}

// deploymentOf is the Deployment that made the pod, told from its ReplicaSet's
// name; "" where none did.
func deploymentOf(pod *corev1.Pod) string {
	owner, hash := metav1.GetControllerOf(pod), templateHash(pod)
	if owner == nil || owner.Kind != "ReplicaSet" || hash == "" {
		return ""
	}
	name, ok := strings.CutSuffix(owner.Name, "-"+hash)
	if !ok {
		return ""
	}
	return name
}

func templateHash(pod *corev1.Pod) string { return pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey] }

func ownerName(pod *corev1.Pod) string {
	if owner := metav1.GetControllerOf(pod); owner != nil {
		return owner.Name
	}
	return ""
}
