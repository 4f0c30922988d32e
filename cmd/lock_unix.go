//go:build unix

package cmd

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// appendOnly makes every write of a journal go to the end of the file.
const appendOnly = os.O_APPEND

// lock locks the file for this process until it is closed, or fails with errLocked. The lock
// is advisory.
func lock(file *os.File) error {
	err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return errLocked
	}
	return err
}
