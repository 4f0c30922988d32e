package attached

import (
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
)

// EtcdRewind has no Run: no object shows that it is an old version.
var EtcdRewind = check.Check{
	Code:     "VD124",
	Name:     "etcd-rewind",
	Title:    "etcd was restored from a backup, and the objects describe the past",
	Severity: finding.Error,
}
