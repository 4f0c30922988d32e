package attached

import (
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
)

// ForceDeletedPod has no Run: a pod that was force-deleted leaves no object to
// tell of it. What it leaves behind is found as node-lost-6min where its node
// is not Ready, and as a volume in use without a pod where it is.
var ForceDeletedPod = check.Check{
	Code:     "VD109",
	Name:     "force-deleted-pod",
	Title:    "A pod was force-deleted while its containers may still run and write",
	Severity: finding.Warning,
}
