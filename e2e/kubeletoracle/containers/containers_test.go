//go:build linux

package containers

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// start starts a process with the word in its command line, as a container of the pod.
func start(t *testing.T, root, word string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sh", "-c", "read line", word)
	if _, err := cmd.StdinPipe(); err != nil { // which says nothing
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it may have ended
	file := File(root, "pod", "data")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strconv.Itoa(cmd.Process.Pid)), 0o600); err != nil {
		t.Fatal(err)
	}
	return cmd
}

func TestStop(t *testing.T) {
	root := t.TempDir()
	cmd := start(t, root, filepath.Join(root, "pods"))
	if pods := Pods(root); len(pods) != 1 || pods[0] != "pod" {
		t.Errorf("the pods are %v, want pod", pods)
	}
	if err := Stop(root, "pod"); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the container ended by itself")
	}
	if err := Stop(root, "pod"); err != nil {
		t.Errorf("it is stopped again: %v", err)
	}
}

// TestStopSparesOthers: by now another process has the number of one that has ended.
func TestStopSparesOthers(t *testing.T) {
	root := t.TempDir()
	cmd := start(t, root, "somebody else's")
	if err := Stop(root, "pod"); err != nil {
		t.Fatal(err)
	}
	line, err := os.ReadFile("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/cmdline")
	if err != nil || len(line) == 0 {
		t.Errorf("it was killed: %v", err)
	}
}
