package reconcile

import "testing"

func TestAttacherName(t *testing.T) {
	for driver, want := range map[string]string{
		"ebs.csi.aws.com": "ebs-csi-aws-com",
		"my_driver.":      "my-driver-X",
	} {
		if got := AttacherName(driver); got != want {
			t.Errorf("%s: %s", driver, got)
		}
	}
}

func TestCSIVolumeNameIsTheWayBackFromParseCSI(t *testing.T) {
	driver, handle, ok := ParseCSI(CSIVolumeName("ebs.csi.aws.com", "a/b"))
	if !ok || driver != "ebs.csi.aws.com" || handle != "a/b" {
		t.Error(driver, handle, ok)
	}
}
