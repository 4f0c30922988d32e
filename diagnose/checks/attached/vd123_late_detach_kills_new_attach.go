package attached

import (
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
)

// LateDetachKillsNewAttach has no Run: the objects look right, and only the storage system shows
// it.
var LateDetachKillsNewAttach = check.Check{
	Code:     "VD123",
	Name:     "late-detach-kills-new-attach",
	Title:    "An old detach ends after the new attach and takes the volume away again",
	Severity: finding.Error,
}
