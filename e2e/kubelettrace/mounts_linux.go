package kubelettrace

import "syscall"

// ownMounts puts a machine into a mount namespace of its own, which Go makes private,
// so that the machine of the tests never sees what is mounted, and has it die with
// whoever started it.
func ownMounts() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
