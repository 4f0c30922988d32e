package multiattach

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var RwoRolloutDeadlock = check.Check{
	Code:        "VD202",
	Name:        "rwo-rollout-deadlock",
	Title:       "A Deployment's new pod waits for a volume that its old pod keeps until the new one is ready",
	Severity:    finding.Error,
	Needs:       check.AttachmentKinds(snapshot.CSINodes),
	OfNamespace: true,
	OfDriver:    true,
	Never:       "delete the VolumeAttachment: it takes the disk from the pod that works",
	Run:         runRWORolloutDeadlock,
}

func runRWORolloutDeadlock(p *check.Run) {
	for _, c := range conflicts(p.View) {
		// The Deployment ends an old pod that is not Ready, as on a lost node.
		if r, ok := c.Rollout(); ok && reconcile.NodeReady(p.Snapshot.Node(c.Node)) {
			rolloutDeadlock(p, c, r)
		}
	}
}

func rolloutDeadlock(p *check.Run, c facts.Conflict, r facts.Rollout) {
	p.Report(p.About(c.Attachment, finding.Finding{
		Subject: facts.PodObject(r.To),
		Pods:    facts.PodNames(c.Waiters),
		Since:   new(facts.BoundAt(r.To)), Severity: p.ConflictSeverity(facts.BoundAt(r.To)),
		Message: fmt.Sprintf("Pod %s waits on node %s for volume %s, which pod %s keeps",
			facts.PodName(r.To), r.To.Spec.NodeName, p.ShortVolume(c.Volume), facts.PodName(r.From)),
		Detail: fmt.Sprintf("both pods are of Deployment %s: the old one keeps the volume on node %s until the new one is Ready", r.Deployment, c.Node),
		Cause:  strategyCause(p.View, r),
		Evidence: []finding.Evidence{
			{Object: "pod/" + facts.PodName(r.From), Field: "metadata.ownerReferences", Value: "ReplicaSet " + ownerName(r.From) + "; Ready on node " + r.From.Spec.NodeName},
			{Object: "pod/" + facts.PodName(r.To), Field: "metadata.ownerReferences", Value: "ReplicaSet " + ownerName(r.To) + "; not started on node " + r.To.Spec.NodeName},
			{Object: c.Object(), Field: "status.attached", Value: "true on node " + string(c.Node) + ", and rightly so"},
		},
		SelfHeals: finding.SelfHeals{Because: "each pod waits for the other; the new pod waits for the volume, the old one for the new one to be Ready"},
		Advice: fmt.Sprintf("{change} set the strategy of Deployment %s/%s to Recreate, so that it {final} ends pod %s first; deleted by hand, that pod comes back",
			r.Namespace, r.Deployment, facts.PodName(r.From)),
	}))
}

// strategyCause is why the Deployment keeps the old pod, where the Deployment was read.
func strategyCause(p *facts.View, r facts.Rollout) string {
	const otherwise = "a rolling update starts the new pod before it ends the old one, and a ReadWriteOnce volume cannot follow"
	d := p.Snapshot.Deployment(types.NamespacedName{Namespace: r.Namespace, Name: r.Deployment})
	if d == nil || d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return otherwise
	}
	replicas, unavailable := int(ptr.Deref(d.Spec.Replicas, 1)), intstr.FromString("25%")
	if u := d.Spec.Strategy.RollingUpdate; u != nil && u.MaxUnavailable != nil {
		unavailable = *u.MaxUnavailable
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(&unavailable, replicas, false)
	if err != nil {
		return otherwise
	}
	return fmt.Sprintf("%s; the Deployment's maxUnavailable %s of %d replicas lets it end %d beforehand", otherwise, unavailable.String(), replicas, n)
}

func ownerName(pod *corev1.Pod) string {
	if owner := metav1.GetControllerOf(pod); owner != nil {
		return owner.Name
	}
	return ""
}
