package driver

import (
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
)

var DriverCRDisagrees = check.Check{
	Code:     "VD611",
	Name:     "driver-cr-disagrees",
	Title:    "A driver's own record of an attachment disagrees with the VolumeAttachment",
	Severity: finding.Warning,
}
