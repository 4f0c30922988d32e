package attached

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

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
	detaches := liveDetaches(p.View)
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
		facts.Rounded(leaderChangeActs), facts.Stamp(*f.Since), facts.PodName(pods[0]), pods[0].Spec.NodeName)
	f.Cause = "the controller that started did not know that the volumes were in use; or somebody deleted their VolumeAttachments at that time, which looks " +
		"the same"
	f.SelfHeals = finding.SelfHeals{Because: "a running pod keeps the lost device mounted; the controller attaches such a volume again, and that fixes no mount"}
	f.Advice = "{check} look into these pods for I/O errors and read-only file systems; {final} stop the writers and recreate the pods one by one, each only when its volume is " +
		"attached; check the file systems"
	p.Report(f)
}

// leaderChangeActs is how long a controller's writes count as part of its start: within a few
// operations it has detached all that it takes for unwanted.
const leaderChangeActs = 5 * reconcile.CSITimeout

// liveDetach is an attachment that was deleted or recreated soon after the
// controller's leader changed, under a pod that ran before and still runs.
type liveDetach struct {
	facts.Attachment
	Pod *corev1.Pod
}

var keptLiveDetaches facts.Kept[[]liveDetach]

// liveDetaches are the detaches of all pods, in the order of the attachments.
func liveDetaches(p *facts.View) []liveDetach {
	return keptLiveDetaches.Of(p, findLiveDetaches)
}

func findLiveDetaches(p *facts.View) []liveDetach {
	lease, start := p.Snapshot.Lease(metav1.NamespaceSystem, reconcile.ControllerManager), p.ControllerStart()
	if start.IsZero() || lease.Spec.LeaseTransitions == nil || *lease.Spec.LeaseTransitions == 0 {
		return nil
	}
	var list []liveDetach
	for _, va := range p.Attachments() {
		row := p.World.Desired.Find(va.VolumeNode)
		node := p.Snapshot.Node(va.Node)
		if row == nil || row.Spec.Migrated || !va.Ours() || !reconcile.NodeReady(node) || reconcile.OutOfService(node) {
			continue
		}
		for _, pod := range p.WantingPods(row) {
			if detachedLive(p, va, pod, start) {
				list = append(list, liveDetach{va, pod})
			}
		}
	}
	return list
}

// detachedLive reports whether the attachment is one of liveDetaches for the pod.
func detachedLive(p *facts.View, va facts.Attachment, pod *corev1.Pod, start metav1.Time) bool {
	running := facts.RunningSince(pod)
	if pod.DeletionTimestamp != nil || running.IsZero() || !running.Before(&start) || !pod.CreationTimestamp.Before(&start) {
		return false
	}
	soon := func(t metav1.Time) bool { return !t.Before(&start) && t.Sub(start.Time) <= leaderChangeActs }
	if at := va.DeletionTimestamp; at != nil {
		return soon(*at)
	}
	// Where a CSIDriver has since made attaches necessary, the volumes are rightly attached
	// under their pods.
	driver := p.Snapshot.CSIDriver(va.Spec.Attacher)
	return soon(va.CreationTimestamp) && driver != nil && driver.CreationTimestamp.Before(&running)
}

var keptLiveDetached facts.Kept[sets.Set[string]]

// detachedByNewLeader reports whether the failing detach is one that the new leader asked for.
func detachedByNewLeader(p *facts.View, _, effect finding.Finding) bool {
	return keptLiveDetached.Of(p, func(p *facts.View) sets.Set[string] {
		names := sets.New[string]()
		for _, d := range liveDetaches(p) {
			names.Insert(d.Name)
		}
		return names
	}).Has(effect.VolumeAttachment)
}
