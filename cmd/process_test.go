//go:build unix

package cmd_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/repair/apply"
)

// tooLong is the time after which a process counts as one that does not end.
const tooLong = 2 * time.Minute

// process is the command as a process of its own.
type process struct {
	*exec.Cmd
	t testing.TB

	mu     sync.Mutex
	said   strings.Builder // its output on standard error
	spoken chan struct{}   // receives when it has printed more
	ended  chan error
}

// start runs the command in dir, with standard input from in.
func start(t testing.TB, dir string, in io.Reader, args ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command("kubectl-volume_doctor", args...), t: t, spoken: make(chan struct{}, 1), ended: make(chan error, 1)}
	p.Dir, p.Stdin, p.Stderr = dir, in, p
	p.WaitDelay = time.Second // standard input may have no end
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.ended <- p.Wait() }()
	t.Cleanup(func() { _ = p.Process.Kill() })
	return p
}

func (p *process) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said.Write(text)
	select {
	case p.spoken <- struct{}{}:
	default:
	}
	return len(text), nil
}

func (p *process) stderr() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.String()
}

// says waits until the process has printed the text.
func (p *process) says(text string) {
	p.t.Helper()
	end := time.After(tooLong)
	for !strings.Contains(p.stderr(), text) {
		select {
		case <-p.spoken:
		case <-end:
			p.t.Fatalf("it does not say %q:\n%s", text, p.stderr())
		}
	}
}

func (p *process) interrupt() {
	p.t.Helper()
	if err := p.Process.Signal(os.Interrupt); err != nil {
		p.t.Fatal(err)
	}
}

// exits waits for the end and checks the exit code.
func (p *process) exits(want int) {
	p.t.Helper()
	select {
	case err := <-p.ended:
		if err != nil && !errors.As(err, new(*exec.ExitError)) && !errors.Is(err, exec.ErrWaitDelay) {
			p.t.Fatal(err)
		}
	case <-time.After(tooLong):
		p.t.Fatalf("it does not end:\n%s", p.stderr())
	}
	if got := p.ProcessState.ExitCode(); got != want {
		p.t.Fatalf("exit code %d, want %d:\n%s", got, want, p.stderr())
	}
}

func fifo(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestInterruptWhileAFileIsOpened: the open of a FIFO blocks while nobody writes to it.
func TestInterruptWhileAFileIsOpened(t *testing.T) {
	ignore, silent := fifo(t, "ignore"), fifo(t, "silent")
	p := start(t, t.TempDir(), nil, "diagnose", "--ignore", ignore, "-f", silent)
	// Opening this file waits for the process, which reads it first.
	if err := os.WriteFile(ignore, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p.interrupt()
	p.exits(2)
	p.says("error: interrupted")
}

// TestInterruptWhileAFileIsRead: the process reads a file that has no end.
func TestInterruptWhileAFileIsRead(t *testing.T) {
	in, feed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer feed.Close()
	p := start(t, t.TempDir(), in, "diagnose", "-f", "-")
	in.Close()
	// This is more than a pipe holds: the process has read some of it.
	for range 1 << 12 {
		if _, err := io.WriteString(feed, strings.Repeat("# nothing\n", 100)); err != nil {
			t.Fatalf("%v\n%s", err, p.stderr())
		}
	}
	p.interrupt()
	p.exits(2)
	p.says("error: interrupted")
}

// await waits for the channel to be closed, or for the end of the test.
func await(t testing.TB, c <-chan struct{}) {
	select {
	case <-c:
	case <-t.Context().Done():
	}
}

const lostEntry = "vd301-clobbered"

// applyArgs are the arguments that repair the case, and hold the repair for settle.
func applyArgs(kubeconfig, settle string, more ...string) []string {
	return append([]string{"--kubeconfig", kubeconfig, "diagnose", "--check", "VD301", "--for", "1s", "--apply", "--settle", settle}, more...)
}

func readJournal(t testing.TB, name string) []apply.Entry {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	entries, _, err := apply.ReadJournal(file)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

// TestInterruptAfterAWrite: the write is finished, the journal has its outcome, and the exit
// code shows that something is left undone. at is the moment of the interrupt.
func TestInterruptAfterAWrite(t *testing.T) {
	for _, at := range []string{"while the request is under way", "while the repair must hold", "in the last look"} {
		t.Run(at, func(t *testing.T) {
			server, kubeconfig := newAPI(t, lostEntry)
			journal := filepath.Join(t.TempDir(), "journal")
			settle := "5m"
			if at == "in the last look" {
				settle = "0s"
			}
			sent := make(chan struct{})
			goOn := make(chan struct{})
			server.onWrite(func() { close(sent); await(t, goOn) })
			p := start(t, t.TempDir(), nil, applyArgs(kubeconfig, settle, "--yes", "--journal", journal)...)
			select {
			case <-sent:
			case <-time.After(tooLong):
				t.Fatalf("nothing is written:\n%s", p.stderr())
			}
			want := apply.Unverified
			switch at {
			case "while the request is under way":
				p.interrupt()
				close(goOn)
			case "while the repair must hold":
				close(goOn)
				p.says("watching that it stays")
				p.interrupt()
			case "in the last look":
				interrupt := sync.OnceFunc(p.interrupt) // kinds are read side by side, and a second interrupt ends the process
				server.onLook(func() {
					if strings.Contains(p.stderr(), "Repaired") {
						interrupt()
						<-t.Context().Done()
					}
				})
				close(goOn)
				want = apply.Repaired
			}
			p.exits(3)
			entries := readJournal(t, journal)
			if len(entries) != 2 || entries[1].Outcome != want || server.writes() != 1 {
				t.Errorf("%d writes, %+v\n%s", server.writes(), entries, p.stderr())
			}
		})
	}
}

// TestTwoRunsAtTheSameTime: two runs in the same folder have different journals, and each of
// them can be taken back.
func TestTwoRunsAtTheSameTime(t *testing.T) {
	dir := t.TempDir()
	var open atomic.Int32
	both := make(chan struct{})
	var runs []*process
	for range 2 {
		server, kubeconfig := newAPI(t, lostEntry)
		server.onWrite(func() { // both journals are open, and have their intents
			if open.Add(1) == 2 {
				close(both)
			}
			await(t, both)
		})
		runs = append(runs, start(t, dir, nil, applyArgs(kubeconfig, "0s", "--yes")...))
	}
	for _, p := range runs {
		p.exits(0)
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.journal"))
	if err != nil || len(names) != 2 {
		t.Fatalf("journals %v, %v", names, err)
	}
	for _, name := range names {
		if entries := readJournal(t, name); len(entries) != 2 || entries[1].Outcome != apply.Repaired {
			t.Errorf("%s: %+v", name, entries)
		}
	}
}

// TestSecondRunOnOneJournal: the second run on a journal ends with one line and writes
// nothing.
func TestSecondRunOnOneJournal(t *testing.T) {
	journal := filepath.Join(t.TempDir(), "journal")
	first, kubeconfig := newAPI(t, lostEntry)
	sent, goOn := make(chan struct{}), make(chan struct{})
	first.onWrite(func() { close(sent); await(t, goOn) })
	p := start(t, t.TempDir(), nil, applyArgs(kubeconfig, "0s", "--yes", "--journal", journal)...)
	select {
	case <-sent:
	case <-time.After(tooLong):
		t.Fatal(p.stderr())
	}
	second, other := newAPI(t, lostEntry)
	q := start(t, t.TempDir(), nil, applyArgs(other, "0s", "--yes", "--journal", journal)...)
	q.exits(2)
	q.says(fmt.Sprintf("error: journal %s: another run is writing to this journal", journal))
	if second.writes() != 0 {
		t.Error("the second run writes")
	}
	close(goOn)
	p.exits(0)
	if entries := readJournal(t, journal); len(entries) != 2 {
		t.Errorf("%+v", entries)
	}
}
