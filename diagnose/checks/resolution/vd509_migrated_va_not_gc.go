package resolution

import (
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var MigratedVANotGC = check.Check{
	Code:        "VD509",
	Name:        "migrated-va-not-gc",
	Title:       "The attachment of an in-tree volume that has moved to CSI stays, and this release never finds it",
	Severity:    finding.Warning,
	Breaks:      check.Holds,
	Needs:       check.AttachmentKinds(snapshot.Leases),
	OfNamespace: true,
	OfDriver:    true,
	Never:       "take its finalizer off: the storage then keeps the volume attached",
	Run:         runMigratedVANotGC,
}

func runMigratedVANotGC(p *check.Run) {
	for _, va := range p.Danglings() {
		if !migratedAndNotCollected(p.View, va) {
			continue
		}
		f := p.Dangling(va)
		pv := p.Snapshot.Volume(*va.Spec.Source.PersistentVolumeName)
		f.Cause += "; the volume is of the in-tree plugin " + facts.InTreePlugin(pv) + ", and this release does not find the VolumeAttachments of such volumes when it starts"
		f.Evidence = append(f.Evidence, finding.Evidence{Object: "cluster", Field: "serverVersion", Value: p.Snapshot.Source.ServerVersion})
		f.SelfHeals.Because = "a restart of kube-controller-manager does not help on this release; a restart may detach volumes in use that have moved to CSI " +
			"(fixed in 1.22.0, 1.21.2, 1.20.8 and 1.19.12)"
		p.Report(f)
	}
}
