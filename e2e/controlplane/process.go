package controlplane

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"
)

// pollInterval is how often a readiness condition is looked at.
const pollInterval = 50 * time.Millisecond

// process is one running component.
type process struct {
	name    string
	logPath string
	cmd     *exec.Cmd
	done    chan struct{} // closed when the process has ended
	err     error         // why it ended; to be read after done
}

// startProcess runs a binary with its output appended to a log file.
func startProcess(name, binary, logPath string, args ...string) (*process, error) {
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer func() { _ = log.Close() }() // the process has its own descriptor
	// Not tied to a context: a component lives until it is killed, not until
	// the start-up that it belongs to is over.
	cmd := exec.Command(binary, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = dieWithParent()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &process{name: name, logPath: logPath, cmd: cmd, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// kill ends the process at once and waits until it is gone. Nothing here needs
// an orderly end, and a kube-apiserver that is asked for one holds its port for
// up to a minute.
func (p *process) kill() {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Kill() // fails only if it has already ended
	<-p.done
}

// await looks at ready until it returns nil. It fails when ctx ends first, or
// when the process does.
func (p *process) await(ctx context.Context, ready func(context.Context) error) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s ended while starting: %w\n%s", p.name, p.err, p.logTail())
		case <-ctx.Done():
			return fmt.Errorf("%s did not get ready: %w (last: %w)\n%s", p.name, context.Cause(ctx), err, p.logTail())
		case <-ticker.C:
		}
	}
}

// logTail returns the end of the log, for error messages.
func (p *process) logTail() string {
	const lines = 20
	content, err := os.ReadFile(p.logPath)
	if err != nil {
		return err.Error()
	}
	all := bytes.Split(bytes.TrimSpace(content), []byte("\n"))
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	return fmt.Sprintf("--- end of %s\n%s", p.logPath, bytes.Join(all, []byte("\n")))
}
