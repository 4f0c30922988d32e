//go:build !linux

package kubelettrace

import "syscall"

// ownMounts is only for Linux: elsewhere the tests are skipped.
func ownMounts() *syscall.SysProcAttr { return nil }
