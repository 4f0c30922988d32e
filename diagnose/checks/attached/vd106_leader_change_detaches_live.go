package attached

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var LeaderChangeDetachesLive = check.Check{
	Code:     "VD106",
	Name:     "leader-change-detaches-live",
	Title:    "After a change of the controller's leader, volumes were detached under pods that run",
	Severity: finding.Error,
	Needs:    check.AttachmentKinds(snapshot.Leases),
	Never:    "delete VolumeAttachments in bulk, or restart kube-controller-manager before the pods are checked",
	Run:      runLeaderChangeDetachesLive,
}

const (
	// leaderChangeFades is how long repaired damage is worth a report. A judgement.
	leaderChangeFades = 24 * time.Hour
	// leaderChangeMany is the least number of pods: a single one may have been anybody's doing.
	leaderChangeMany = 2
)

func runLeaderChangeDetachesLive(p *check.Run) {
	detaches := p.LiveDetaches()
	if len(detaches) == 0 {
		return
	}
	lease, start := p.Snapshot.Lease(metav1.NamespaceSystem, reconcile.ControllerManager), p.ControllerStart()
	f := finding.Finding{Subject: finding.Object{Kind: "Lease", Namespace: lease.Namespace, Name: lease.Name, UID: lease.UID}, Since: &start, Severity: finding.Warning}
	var pods []*corev1.Pod
	for _, d := range detaches {
		what := "recreated at " + facts.Stamp(d.CreationTimestamp)
		if d.DeletionTimestamp != nil {
			f.Severity, what = finding.Error, "being deleted since "+facts.Stamp(*d.DeletionTimestamp)
		}
		pods = append(pods, d.Pod)
		f.Evidence = append(f.Evidence, finding.Evidence{Object: d.Object(), Field: "metadata", Value: fmt.Sprintf("%s; pod %s has run on node %s with volume %s since %s",
			what, facts.PodName(d.Pod), d.Node, p.ShortVolume(d.Volume), facts.Stamp(facts.RunningSince(d.Pod)))})
	}
	pods = facts.LongestFirst(facts.EachOnce(pods))
	if len(pods) >= leaderChangeMany && (f.Severity == finding.Error || p.Age(start) < leaderChangeFades) {
		leaderChange(p, f, pods)
	}
}

func leaderChange(p *check.Run, f finding.Finding, pods []*corev1.Pod) {
	f.Pods = facts.PodNames(pods)
	f.Message = fmt.Sprintf("A new leader of kube-controller-manager detached volumes from under %d running pods", len(pods))
	facts.Also(&f, "it did so within %s of the change at %s; one of them is pod %s on node %s",
		facts.Rounded(facts.LeaderChangeActs), facts.Stamp(*f.Since), facts.PodName(pods[0]), pods[0].Spec.NodeName)
	f.Cause = "the controller that started did not know that the volumes were in use; or somebody deleted their VolumeAttachments at that time, which looks " +
		"the same"
	f.SelfHeals = finding.SelfHeals{Because: "the controller attaches such a volume again, but what is mounted in a running pod is the device that went away"}
	f.Advice = "{check} look into these pods for I/O errors and read-only file systems; stop the writers and recreate the pods one by one, each only when its volume is " +
		"attached; check the file systems"
	p.Report(f)
}
