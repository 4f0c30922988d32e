package cmd

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// appendOnly is 0 here: a file opened to append cannot be cut, which a torn last line needs.
// The lock keeps other runs away.
const appendOnly = 0

// lock locks the file for this process until it is closed, or fails with errLocked. On
// Windows nobody else can read a locked byte, so the locked one lies behind the end of any
// journal.
func lock(file *os.File) error {
	behind := &windows.Overlapped{OffsetHigh: 1}
	err := windows.LockFileEx(windows.Handle(file.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, behind)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return errLocked
	}
	return err
}
