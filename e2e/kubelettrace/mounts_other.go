//go:build !linux

package kubelettrace

import "syscall"

// ownMounts is for Linux alone: elsewhere the tests are skipped.
func ownMounts() *syscall.SysProcAttr { return nil }
