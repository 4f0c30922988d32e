package kubelettrace

import "syscall"

// ownMounts gives a machine a mount namespace of its own, which Go makes private, so that its
// mounts never show on the machine of the tests; the machine dies with its parent.
func ownMounts() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
