package main_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestPipeThatEnds: whoever reads the sandbox's output stops reading in the middle of the
// start, as "make sandbox | head" does, and nothing is left: no folder with the admin's
// kubeconfig and etcd's data, no process.
func TestPipeThatEnds(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "sandbox")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, last := range []string{"starting etcd", "The sandbox is up"} {
		t.Run(last, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "s") // short: it holds a socket
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			reader, writer, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			run := exec.CommandContext(t.Context(), binary)
			run.Env = append(os.Environ(), "TMPDIR="+dir)
			run.Stdout, run.Stderr = writer, writer
			keys, err := run.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := run.Start(); err != nil {
				t.Fatal(err)
			}
			_ = writer.Close()
			for lines := bufio.NewScanner(reader); lines.Scan() && !strings.Contains(lines.Text(), last); {
			}
			_ = reader.Close()
			_, _ = keys.Write([]byte("\n")) // whatever it says next, nobody reads
			ended := make(chan error, 1)
			go func() { ended <- run.Wait() }()
			select {
			case <-ended:
			case <-time.After(5 * time.Minute):
				t.Fatal("it goes on")
			}
			if left, err := filepath.Glob(filepath.Join(dir, "volume-doctor-[0-9]*")); err != nil || len(left) > 0 {
				t.Errorf("left: %v %v", left, err)
			}
			if out, _ := exec.Command("pgrep", "-f", dir).Output(); len(out) > 0 {
				t.Errorf("still running: %s", out)
			}
		})
	}
}
