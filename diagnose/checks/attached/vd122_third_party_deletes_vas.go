package attached

import (
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
)

// ThirdPartyDeletesVAs shows only over time: an object's new UID, and who
// deleted the old one.
var ThirdPartyDeletesVAs = check.Check{
	Code:     "VD122",
	Name:     "third-party-deletes-vas",
	Title:    "Another program deletes VolumeAttachments while the controller works on them",
	Severity: finding.Warning,
}
