package cmd_test

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestInterruptAtTheQuestion: the answer is read from a terminal, which blocks,
// and nothing is written where nobody has answered.
func TestInterruptAtTheQuestion(t *testing.T) {
	server, kubeconfig := newAPI(t, lostEntry)
	dir := t.TempDir()
	p := start(t, dir, terminal(t), applyArgs(kubeconfig, "0s")...)
	p.says("[y/N]")
	p.interrupt()
	p.exits(2)
	p.says("error: interrupted")
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 || server.writes() > 0 {
		t.Errorf("%d writes, files %v, %v", server.writes(), left, err)
	}
}

// terminal is one at which nobody types.
func terminal(t testing.TB) *os.File {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { slave.Close(); master.Close() })
	return slave
}
