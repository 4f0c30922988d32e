package serve_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/command"
)

// process is the command, serving.
type process struct {
	cmd     *exec.Cmd
	stderr  *buffer
	address string
	done    chan struct{}
}

// buffer may be read while it is written.
type buffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// start runs the command on a port of its own.
func start(t *testing.T, kubeconfig string, args ...string) *process {
	t.Helper()
	dir, err := command.Build()
	must(t, err)
	cmd := exec.Command(filepath.Join(dir, command.Serve), append([]string{"--listen", "127.0.0.1:0"}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	return run(t, cmd)
}

// run starts serve, and ends it with the test.
func run(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{cmd: cmd, stderr: &buffer{}, done: make(chan struct{})}
	p.cmd.Stderr = p.stderr
	must(t, p.cmd.Start())
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // fails where it has ended
		<-p.done
		if t.Failed() {
			t.Logf("%v said:\n%s", cmd.Args, p.stderr)
		}
	})
	go func() {
		_ = p.cmd.Wait() // an exit code is no failure
		close(p.done)
	}()
	const begin = "listening on "
	line := p.says(t, begin)
	p.address = strings.TrimPrefix(line, begin)
	return p
}

// says waits until the process has written a line with the text, and gives it.
func (p *process) says(t *testing.T, text string) string {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		for line := range strings.Lines(p.stderr.String()) {
			if strings.Contains(line, text) {
				return strings.TrimSpace(line)
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("it does not say %q but\n%s", text, p.stderr)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// wait gives the exit code, once the process has ended.
func (p *process) wait(t *testing.T, patience time.Duration) int {
	t.Helper()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		t.Fatalf("it has not ended within %s", patience)
		return -1
	}
}

// scrape has the value of each series of one scrape.
type scrape map[string]float64

func (p *process) scrape(t *testing.T) scrape {
	t.Helper()
	code, text := p.get(t, "/metrics", "")
	if code != http.StatusOK {
		t.Fatalf("/metrics: %d %s", code, text)
	}
	m := scrape{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		value, err := strconv.ParseFloat(line[at+1:], 64)
		must(t, err)
		m[line[:at]] = value
	}
	return m
}

// until scrapes until something holds.
func (p *process) until(t *testing.T, patience time.Duration, what string, holds func(scrape) bool) scrape {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		m := p.scrape(t)
		if holds(m) {
			return m
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s; %v", patience, what, m)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// has reports whether the series is there, with the value.
func (m scrape) has(series string, value float64) bool {
	got, there := m[series]
	return there && got == value
}

// series are the series of the metric.
func (m scrape) series(metric string) scrape {
	found := scrape{}
	for series, value := range m {
		if strings.HasPrefix(series, metric) {
			found[series] = value
		}
	}
	return found
}

// count is how many series begin like this and have all the labels.
func (m scrape) count(begin string, labels ...string) int {
	n := 0
	for series := range m.series(begin) {
		all := true
		for _, label := range labels {
			all = all && strings.Contains(series, label)
		}
		if all {
			n++
		}
	}
	return n
}
