package controlplane

import "syscall"

// dieWithParent puts a component into a process group of its own, so that a
// Ctrl-C at the terminal reaches only the program that stops it in order, and
// has the kernel kill it should that program die without stopping anything. The kernel means the thread that
// started the process; Go ends a thread only with a goroutine that is locked to
// it, and there is none here.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// suspend stops the process as it is; only a kill ends that.
func (p *process) suspend() error { return p.cmd.Process.Signal(syscall.SIGSTOP) }
