//go:build !linux

package controlplane

import (
	"errors"
	"syscall"
)

// dieWithParent has no counterpart here: only an orderly stop ends the
// components.
func dieWithParent() *syscall.SysProcAttr { return nil }

// suspend has no counterpart on every other system.
func (p *process) suspend() error { return errors.ErrUnsupported }
