package attached

import (
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
)

// ForceDeletedPod has no Run, because a force-deleted pod leaves no object. Its traces are
// node-lost-6min on a node that is not Ready, and a volume in use without a pod on one that is.
var ForceDeletedPod = check.Check{
	Code:     "VD109",
	Name:     "force-deleted-pod",
	Title:    "A pod was force-deleted while its containers may still run and write",
	Severity: finding.Warning,
}
