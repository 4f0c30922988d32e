//go:build unix

package cmd

import (
	"os"
	"syscall"
)

// become replaces this process by the program, which keeps its streams, its signals and its
// exit code. It returns only with an error.
func become(program string, args []string) error {
	return syscall.Exec(program, append([]string{program}, args...), os.Environ())
}
