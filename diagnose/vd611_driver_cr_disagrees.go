package diagnose

var driverCRDisagrees = Check{
	Code:     "VD611",
	Name:     "driver-cr-disagrees",
	Title:    "A driver's own record of an attachment disagrees with the VolumeAttachment",
	Severity: Warning,
}
