package driver

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var ControllerDown = check.Check{
	Code:     "VD622",
	Name:     "controller-down",
	Title:    "No kube-controller-manager leads: nothing is attached or detached",
	Severity: finding.Error,
	Needs:    check.AttachmentKinds(snapshot.Leases, snapshot.Events),
	OfDriver: true,
	Never:    "create or delete VolumeAttachments by hand: the controller that comes back decides by what it finds",
	Run:      runControllerDown,
}

func runControllerDown(p *check.Run) {
	lease := p.ControllerDown()
	if lease == nil {
		return
	}
	since := facts.Renewed(lease)
	pods := facts.LongestFirst(unattended(p.View, facts.ControllerLeaseGrace(lease)))
	f := finding.Finding{
		Subject: finding.Object{Kind: "Lease", Namespace: lease.Namespace, Name: lease.Name, UID: lease.UID},
		Since:   &since, Pods: facts.PodNames(pods),
		Message:        fmt.Sprintf("No kube-controller-manager leads: its lease was last renewed %s ago", facts.Rounded(p.Age(since))),
		Detail:         "it was renewed at " + facts.Stamp(since),
		Cause:          "kube-controller-manager, which attaches and detaches all volumes, does not run, or does not reach the API server",
		SelfHeals:      finding.SelfHeals{Because: "nobody attaches or detaches anything; once it leads again, the pods that wait follow by themselves"},
		Evidence:       []finding.Evidence{facts.LeaseEvidence(lease)},
		Advice:         "{fix} bring kube-controller-manager back on the control plane: its log there, or that of its service, tells why it ended; {check} look at its pods in kube-system, if it has any",
		AdviceCommands: facts.ControllerPods(),
	}
	if slices.ContainsFunc(p.LostWaits(), func(w facts.LostWait) bool { return len(w.Holders) > 0 }) {
		f.SelfHeals.Because = "nobody attaches or detaches anything; once it leads again, the pods that wait follow by themselves, but for those whose volume a Terminating pod on a lost node keeps"
	}
	if len(pods) == 0 {
		f.Severity = finding.Info
		facts.Also(&f, "no pod waits for it yet")
	} else {
		facts.Also(&f, "pod %s waits on node %s for it to attach a volume", facts.PodName(pods[0]), pods[0].Spec.NodeName)
		f.Detail = finding.Clauses(f.Detail, facts.Alike(pods))
	}
	p.Report(f)
}

// unattended are the pods that have waited for at least the grace for an attach that nobody has
// begun. A pod does not count where another pod, which nobody has deleted, has its volume on
// another node: a controller that leads would do nothing for it either.
func unattended(p *facts.View, grace time.Duration) []*corev1.Pod {
	var list []*corev1.Pod
	for _, row := range p.World.Desired.Items() {
		name := facts.AttachmentName(row.VolumeNode)
		if name == "" || p.Snapshot.VolumeAttachment(name) != nil || rivalHas(p, row.VolumeNode) {
			continue
		}
		for _, pod := range p.WantingPods(row) {
			if facts.IsPending(pod) && p.Age(facts.BoundAt(pod)) > grace {
				list = append(list, pod)
			}
		}
	}
	return facts.EachOnce(list)
}

// rivalHas reports whether a pod that nobody has deleted has the volume on one of the nodes that
// keep it from this one.
func rivalHas(p *facts.View, pair reconcile.VolumeNode) bool {
	decision := p.Plan.Decision(pair)
	return decision != nil && slices.ContainsFunc(decision.Holders, func(node types.NodeName) bool {
		return !facts.AllDeleting(p.World.LivePods(reconcile.VolumeNode{Volume: pair.Volume, Node: node}))
	})
}
