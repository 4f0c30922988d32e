package driver

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var ResizerDown = check.Check{
	Code:     "VD624",
	Name:     "resizer-down",
	Title:    "A driver's external-resizer does not run, and claims wait for it",
	Severity: finding.Warning,
	Needs:    []snapshot.Kind{snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.CSINodes, snapshot.CSIDrivers, snapshot.Leases, snapshot.Events},
	Never:    "write the size or class into the status: the disk stays as it is",
	Run:      runResizerDown,
}

func runResizerDown(p *check.Run) {
	wait := map[string][]*corev1.PersistentVolumeClaim{}
	for _, claim := range p.Snapshot.Claims {
		if driver := p.BoundDriver(claim); driver != "" && claim.DeletionTimestamp == nil && (facts.Grows(claim) || facts.Modifies(claim)) {
			wait[driver] = append(wait[driver], claim)
		}
	}
	for _, driver := range p.InstalledDrivers() {
		lease := p.ResizerDown(driver)
		if lease == nil || len(wait[driver]) == 0 {
			continue
		}
		since := facts.Renewed(lease)
		f := finding.Finding{
			Subject: p.DriverObject(driver), Since: &since,
			Message:   fmt.Sprintf("The resizer of %s is down: its lease is not renewed", driver),
			Detail:    finding.Clauses(asks(wait[driver][0]), others(len(wait[driver])-1)),
			Cause:     "the external-resizer, which asks the driver to make volumes larger or to change their attributes, does not run",
			Evidence:  []finding.Evidence{facts.LeaseEvidence(lease)},
			SelfHeals: finding.SelfHeals{Because: "nobody asks the driver; once its controller pods are back it follows by itself; pods that run are not affected"},
		}
		const enough = 5
		for _, claim := range wait[driver][:min(len(wait[driver]), enough)] {
			f.Evidence = append(f.Evidence, facts.ChangeEvidence(claim)...)
		}
		p.ExplainDown(&f, lease, facts.IsResizer)
		p.Report(f)
	}
}

// asks is a clause: what the claim asks for.
func asks(claim *corev1.PersistentVolumeClaim) string {
	if facts.Grows(claim) {
		asked, has := claim.Spec.Resources.Requests[corev1.ResourceStorage], claim.Status.Capacity[corev1.ResourceStorage]
		return fmt.Sprintf("claim %s asks for %s and has %s", facts.ClaimName(claim), asked.String(), has.String())
	}
	return fmt.Sprintf("claim %s asks for VolumeAttributesClass %s, which its volume does not have", facts.ClaimName(claim), ptr.Deref(claim.Spec.VolumeAttributesClassName, ""))
}

// others is a clause: n more claims wait; "" for none.
func others(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "another claim waits like it"
	default:
		return fmt.Sprintf("%d other claims wait like it", n)
	}
}
