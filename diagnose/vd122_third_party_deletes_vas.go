package diagnose

// thirdPartyDeletesVAs shows only over time: an object's new UID, and who
// deleted the old one.
var thirdPartyDeletesVAs = Check{
	Code:     "VD122",
	Name:     "third-party-deletes-vas",
	Title:    "Another program deletes VolumeAttachments while the controller works on them",
	Severity: Warning,
}
