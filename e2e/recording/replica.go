package recording

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/command"
)

// Replica is the place of one process of serve, which is recorded. Like a pod's container
// the process is started again a second after it has ended.
type Replica struct {
	*Recording
	start func() (*exec.Cmd, *speech, error)

	mu    sync.Mutex
	cmd   *exec.Cmd
	codes []int // exit codes, in order; -1 for a process that was killed
	said  string
	ended bool
}

// Serve runs the command beside the test and records it.
func Serve(t *testing.T, kubeconfig string) *Recording {
	t.Helper()
	return Start(t, "volume-doctor", kubeconfig, "--leader-elect=false").Recording
}

// Start runs serve with the arguments until the test ends.
func Start(t *testing.T, name, kubeconfig string, args ...string) *Replica {
	t.Helper()
	dir, err := command.Build()
	if err != nil {
		t.Fatal(err)
	}
	r := &Replica{start: func() (*exec.Cmd, *speech, error) {
		said := &speech{address: make(chan string, 1)}
		cmd := exec.Command(filepath.Join(dir, command.Serve), append([]string{"--listen", "127.0.0.1:0"}, args...)...)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
		cmd.Stderr = said
		return cmd, said, cmd.Start()
	}}
	cmd, said, err := r.start()
	if err != nil {
		t.Fatal(err)
	}
	r.cmd = cmd
	over := make(chan struct{})
	t.Cleanup(func() {
		r.Stop()
		<-over
		if t.Failed() {
			t.Logf("%s said:\n%s", name, r.said)
		}
	})
	address, ok := said.listens()
	if !ok {
		close(over)
		_ = cmd.Process.Kill() // its exit code is of no interest
		_ = cmd.Wait()
		t.Fatalf("serve does not say where it listens: %s", said)
	}
	r.Recording = of(t, name, address, Every)
	go func() {
		defer close(over)
		r.keep(said)
	}()
	return r
}

// keep starts the process again whenever it has ended.
func (r *Replica) keep(said *speech) {
	for {
		_ = r.cmd.Wait() // an exit code is no failure
		r.at("")
		r.mu.Lock()
		r.codes = append(r.codes, r.cmd.ProcessState.ExitCode())
		r.said += said.String()
		ended := r.ended
		r.mu.Unlock()
		if ended {
			return
		}
		time.Sleep(time.Second)
		r.mu.Lock()
		if r.ended {
			r.mu.Unlock()
			return
		}
		cmd, next, err := r.start()
		if err != nil {
			r.said += err.Error()
			r.mu.Unlock()
			return
		}
		r.cmd, said = cmd, next
		r.mu.Unlock()
		if address, ok := said.listens(); ok {
			r.at(address)
		}
	}
}

// Kill kills the process.
func (r *Replica) Kill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.cmd.Process.Kill() // fails where it has ended
}

// Stop kills the process for good.
func (r *Replica) Stop() {
	r.mu.Lock()
	r.ended = true
	r.mu.Unlock()
	r.Kill()
}

// Ended are the exit codes of the processes that have ended, -1 for one that was killed.
func (r *Replica) Ended() []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]int(nil), r.codes...)
}

// Metrics is what the process answers to a scrape now.
func (r *Replica) Metrics(ctx context.Context) string {
	if address := r.Address(); address != "" {
		return Metrics(ctx, address)
	}
	return ""
}

// speech is the output of a process, and the address in it at which it listens.
type speech struct {
	mu      sync.Mutex
	text    strings.Builder
	address chan string
	found   bool
}

// Write implements io.Writer.
func (s *speech) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text.Write(p)
	if s.found {
		return len(p), nil
	}
	for line := range strings.Lines(s.text.String()) {
		if _, address, ok := strings.Cut(line, "listening on "); ok && strings.HasSuffix(line, "\n") {
			s.address <- strings.TrimSpace(address)
			s.found = true
			break
		}
	}
	return len(p), nil
}

func (s *speech) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// listens waits until it is said where the process listens.
func (s *speech) listens() (address string, ok bool) {
	select {
	case address = <-s.address:
		return address, true
	case <-time.After(time.Minute):
		return "", false
	}
}
