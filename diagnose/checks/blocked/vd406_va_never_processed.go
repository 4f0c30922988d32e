package blocked

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var VaNeverProcessed = check.Check{
	Code:     "VD406",
	Name:     "va-never-processed",
	Title:    "No attacher has touched a VolumeAttachment that a pod waits for",
	Severity: finding.Error,
	Needs:    check.AttachmentKinds(snapshot.CSINodes, snapshot.Leases),
	OfDriver: true,
	Never:    "delete the VolumeAttachment: the controller recreates it, and nothing has changed",
	Run:      runVANeverProcessed,
}

// leaderGrace is how long an attacher may take to process everything after it took the lease
// over. A judgement: it makes some five requests a second, several for each VolumeAttachment, and
// a large cluster has thousands.
const leaderGrace = 15 * time.Minute

func runVANeverProcessed(p *check.Run) {
	for _, va := range p.Attachments() {
		if !va.Ours() || !p.NotTakenUp(va) || attacherExplained(p.View, va.Spec.Attacher) {
			continue
		}
		if pods := p.WaitingHere(va.VolumeNode); len(pods) > 0 {
			neverProcessed(p, va, pods)
		}
	}
}

// attacherExplained reports whether another check has the cause: the driver is missing or
// renamed, its attacher is down or idle, or the driver has neither a CSIDriver nor an attacher
// because it attaches nothing.
func attacherExplained(p *facts.View, driver string) bool {
	lease := p.AttacherLease(driver)
	switch {
	case !p.AttacherAtWork(driver):
		return true
	case lease == nil:
		return p.AttachesByMistake(driver)
	default:
		// A new leader works its way through the list.
		return p.Age(facts.Renewed(lease)) < facts.AttacherLeaseGrace && lease.Spec.AcquireTime != nil &&
			!p.Lasted(metav1.NewTime(lease.Spec.AcquireTime.Time), leaderGrace)
	}
}

func neverProcessed(p *check.Run, va facts.Attachment, pods []*corev1.Pod) {
	pv := p.ShortVolumeOf(va)
	f := p.About(va, finding.Finding{
		Subject: facts.PodObject(pods[0]),
		Pods:    facts.PodNames(pods),
		Since:   &va.CreationTimestamp,
		Message: fmt.Sprintf("Pod %s waits on node %s: no attacher takes up volume %s", facts.PodName(pods[0]), va.Node, pv),
		Detail:  finding.Clauses(fmt.Sprintf("no attacher of %s has touched its VolumeAttachment", va.Spec.Attacher), facts.Alike(pods)),
		Cause:   "no external-attacher of the driver watches this cluster, or the one that does no longer works",
		Evidence: []finding.Evidence{
			{Object: va.Object(), Field: "metadata", Value: "no finalizers, no " + reconcile.NodeIDAnnotation},
			{Object: va.Object(), Field: "status", Value: "attached: false, no error"},
		},
		SelfHeals: finding.SelfHeals{Because: "an attacher for the driver has to run first; once one runs, the attach follows by itself within about 2 min"},
		Advice:    fmt.Sprintf("{check} look at the controller pods of %s: is a csi-attacher there, and Ready, and what does its log say?", va.Spec.Attacher),
	})
	if lease := p.AttacherLease(va.Spec.Attacher); lease != nil {
		if p.LeaseHolder(lease) != nil {
			f.Advice = "{read-log controller}: it holds the lease, and its csi-attacher tells why it takes nothing up"
		}
		f.Evidence = append(f.Evidence, facts.LeaseEvidence(lease))
	}
	if p.NoAttacherRuns(va.Spec.Attacher) {
		f.Cause = "the driver was installed without its external-attacher, or that is not there now: no pod runs one that could be its own, and no lease is the driver's"
		f.Evidence = append(f.Evidence, finding.Evidence{Object: "pods", Field: "spec.containers", Value: "none is a csi-attacher, by its name or its image, but those that serve another driver"},
			finding.Evidence{Object: "leases", Field: "metadata.name", Value: "none is called " + reconcile.AttacherLeaseName(va.Spec.Attacher)})
	}
	const enough = 5
	unclaimed := p.UnclaimedAttachers()
	for _, pod := range unclaimed[:min(len(unclaimed), enough)] {
		f.Evidence = append(f.Evidence, finding.Evidence{Object: "pod/" + facts.PodName(pod), Field: "spec.containers", Value: attacherImage(pod) + "; no lease says which driver it serves"})
	}
	if len(unclaimed) > 0 {
		f.Cause += "; one that is too old for the API server's VolumeAttachments sees none"
	}
	p.Report(f)
}

// attacherImage is the image of the pod's external-attacher.
func attacherImage(pod *corev1.Pod) string {
	i := slices.IndexFunc(pod.Spec.Containers, facts.IsAttacher)
	return "runs " + pod.Spec.Containers[i].Image
}
