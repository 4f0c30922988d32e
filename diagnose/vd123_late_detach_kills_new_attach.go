package diagnose

// lateDetachKillsNewAttach is known to the storage system alone: the objects
// look right afterwards.
var lateDetachKillsNewAttach = Check{
	Code:     "VD123",
	Name:     "late-detach-kills-new-attach",
	Title:    "An old detach ends after the new attach and takes the volume away again",
	Severity: Error,
}
