//go:build linux

package containers

import (
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// start starts a process with the word in its command line, as a container of the pod.
// The channel is closed when it has ended.
func start(t *testing.T, root, word string) (number int, ended <-chan struct{}) {
	t.Helper()
	cmd := exec.Command("sh", "-c", "read line", word)
	says, err := cmd.StdinPipe() // which says nothing
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := Start(cmd, root, "pod", "data"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = says.Close() }) // with which it ends
	end := make(chan struct{})
	go func() {
		_, _ = out.Read(make([]byte, 1)) // it writes nothing
		close(end)
	}()
	return cmd.Process.Pid, end
}

func TestStop(t *testing.T) {
	root := t.TempDir()
	_, ended := start(t, root, filepath.Join(root, "pods"))
	if pods := Pods(root); len(pods) != 1 || pods[0] != "pod" {
		t.Errorf("the pods are %v, want pod", pods)
	}
	if err := Stop(root, "pod"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the container is not killed")
	}
	if err := Stop(root, "pod"); err != nil {
		t.Errorf("it is stopped again: %v", err)
	}
}

// TestStopSparesOthers: by now another process has the number of one that has ended.
func TestStopSparesOthers(t *testing.T) {
	root := t.TempDir()
	number, _ := start(t, root, "somebody else's")
	if err := Stop(root, "pod"); err != nil {
		t.Fatal(err)
	}
	if len(commandLine(number)) == 0 {
		t.Error("it was killed")
	}
}
