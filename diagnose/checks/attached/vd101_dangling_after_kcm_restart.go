// Package attached has the checks about volumes that are attached without being wanted.
package attached

import (
	"slices"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var DanglingAfterKCMRestart = check.Check{
	Code:     "VD101",
	Name:     "dangling-after-kcm-restart",
	Title:    "A volume stays attached to a node where nothing uses it, and the controller has forgotten it",
	Severity: finding.Warning,
	Needs:    check.AttachmentKinds(snapshot.CSINodes, snapshot.Leases),
	Yields: []check.Yield{
		{To: "VD125", Key: check.OfAttachment},
		{To: "VD509", Key: check.OfAttachment},
	},
	Follows: []check.Relation{
		{From: []finding.Code{"VD201"}, Share: check.OfVolume, Match: check.Always},
	},
	Never: "take its finalizer off: the storage then keeps the volume attached",
	Run:   runDanglingAfterKCMRestart,
}

func runDanglingAfterKCMRestart(p *check.Run) {
	for _, va := range slices.Concat(p.Danglings(), p.Unheard()) {
		p.Report(p.Dangling(va))
	}
}
