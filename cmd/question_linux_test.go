package cmd_test

import (
	"os"
	"testing"
)

// TestInterruptAtTheQuestion: the answer is read from a terminal, which blocks; without an
// answer nothing is written.
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

// terminal is a terminal at which nobody types.
func terminal(t testing.TB) *os.File {
	t.Helper()
	master, slave, err := openTerminal(80)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { slave.Close(); master.Close() })
	return slave
}
