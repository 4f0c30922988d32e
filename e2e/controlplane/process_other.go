//go:build !linux

package controlplane

import "syscall"

// dieWithParent has no counterpart here: only an orderly stop ends the
// components.
func dieWithParent() *syscall.SysProcAttr { return nil }
