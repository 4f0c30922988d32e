package driver

import (
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/safetext"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var ControllerDown = check.Check{
	Code:     "VD622",
	Name:     "controller-down",
	Title:    "No kube-controller-manager leads: nothing is attached or detached",
	Severity: finding.Error,
	Needs:    check.AttachmentKinds(snapshot.Leases),
	Never:    "create or delete VolumeAttachments by hand: the controller that comes back decides by what it finds",
	Run:      runControllerDown,
}

func runControllerDown(p *check.Run) {
	lease := p.Snapshot.Lease(metav1.NamespaceSystem, reconcile.ControllerManager)
	if lease == nil || lease.Spec.RenewTime == nil {
		return // it may run without leader election, or out of sight
	}
	since, grace := facts.Renewed(lease), facts.ControllerLeaseGrace(lease)
	if leasesRead(p.View).Sub(since.Time) <= grace || p.Age(since) <= grace || controllerSeen(p.View).After(since.Add(grace)) {
		return
	}
	pods := facts.LongestFirst(unattended(p.View, grace))
	f := finding.Finding{
		Subject: finding.Object{Kind: "Lease", Namespace: lease.Namespace, Name: lease.Name, UID: lease.UID},
		Since:   &since, Pods: facts.PodNames(pods),
		Message:   fmt.Sprintf("No kube-controller-manager leads: its lease was last renewed %s ago (%s)", facts.Rounded(p.Age(since)), facts.Stamp(since)),
		Cause:     "kube-controller-manager, whose attach/detach controller attaches and detaches all volumes, does not run, or does not reach the API server",
		SelfHeals: finding.SelfHeals{Because: "nothing is attached or detached until it leads again; then the pods that wait follow by themselves"},
		Evidence:  []finding.Evidence{facts.LeaseEvidence(lease)},
		Advice:    "bring kube-controller-manager back on the control plane: see whether its pods or its service run, and what their log says",
		AdviceCommands: []string{
			safetext.Kubectl("get", "pods", "-n", metav1.NamespaceSystem, "-l", "component="+reconcile.ControllerManager, "-o", "wide"),
		},
	}
	if len(pods) == 0 {
		f.Severity = finding.Info
		f.Message += "; no pod waits for it yet"
	} else {
		f.Message += fmt.Sprintf("; pod %s waits on node %s for it to attach a volume%s", facts.PodName(pods[0]), pods[0].Spec.NodeName, facts.Alike(pods))
	}
	p.Report(f)
}

// leasesRead is no later than when the leases were read: lists in files may be of different times.
func leasesRead(p *facts.View) metav1.Time {
	var last metav1.Time
	others := 0
	for _, lease := range p.Snapshot.Leases {
		if isManager(lease) || lease.Spec.RenewTime == nil {
			continue
		}
		others++
		last = facts.Latest(last, facts.Renewed(lease))
	}
	if others == 0 {
		return metav1.NewTime(p.Snapshot.TakenAt)
	}
	return last
}

func isManager(lease *coordinationv1.Lease) bool {
	return lease.Namespace == metav1.NamespaceSystem && lease.Name == reconcile.ControllerManager
}

// controllerSeen is the last sign of an attach/detach controller at work: one may run without
// leader election beside a lease that an earlier one has left.
func controllerSeen(p *facts.View) metav1.Time {
	var last metav1.Time
	for _, va := range p.Attachments() {
		if va.Ours() {
			last = facts.Latest(last, va.CreationTimestamp) // anybody may delete one
		}
	}
	for _, node := range p.Snapshot.Nodes {
		if writer, at := facts.VolumesAttachedWriter(node); writer == reconcile.ControllerManager {
			last = facts.Latest(last, at)
		}
	}
	for _, e := range p.Snapshot.Events {
		if e.Source.Component == "attachdetach-controller" || e.ReportingController == "attachdetach-controller" {
			last = facts.Latest(last, facts.EventTime(e))
		}
	}
	return last
}

// unattended are the pods that have waited for at least so long for an attach that nobody has begun.
func unattended(p *facts.View, grace time.Duration) []*corev1.Pod {
	var list []*corev1.Pod
	for _, row := range p.World.Desired.Items() {
		name := facts.AttachmentName(row.VolumeNode)
		if name == "" || p.Snapshot.VolumeAttachment(name) != nil {
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
