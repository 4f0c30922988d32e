package cmd

import (
	"context"
	"os"
	"sync"
	"time"
)

// windDown is how long an interrupted command has to end by itself, so that it can clear its
// progress bar, before the process ends without it.
const windDown = 250 * time.Millisecond

// interrupts decides how the process ends at Ctrl-C. The command runs in a goroutine of its
// own, and Main does not wait for it: it may be blocked in a read from the terminal or in the
// open of a FIFO, or it may be computing. Main waits only for those that call hold.
type interrupts struct {
	mu sync.Mutex
	// held counts the calls of hold that have not been released.
	held     int
	released sync.Cond
	// ending reports whether the process is ending, so that nothing may begin.
	ending bool
	// code is the exit code of an interrupted process.
	code int
	// temporary are the files to be removed when the process ends.
	temporary map[string]bool
}

func newInterrupts() *interrupts {
	i := &interrupts{code: exitNoAnswer, temporary: map[string]bool{}}
	i.released.L = &i.mu
	return i
}

type interruptsKey struct{}

// interruptsOf returns those of the process; for a context without any it returns one that is
// never interrupted.
func interruptsOf(ctx context.Context) *interrupts {
	if i, ok := ctx.Value(interruptsKey{}).(*interrupts); ok {
		return i
	}
	return newInterrupts()
}

// hold keeps an interrupted process from ending until release is called. If the process is
// already ending, hold never returns.
func (i *interrupts) hold() {
	i.mu.Lock()
	defer i.mu.Unlock()
	for i.ending {
		i.released.Wait()
	}
	i.held++
}

func (i *interrupts) release() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.held--
	i.released.Broadcast()
}

// end waits until nothing holds the process. Then it removes the temporary files, and keeps
// everything else from beginning.
func (i *interrupts) end() {
	i.mu.Lock()
	defer i.mu.Unlock()
	for i.held > 0 {
		i.released.Wait()
	}
	i.ending = true
	for name := range i.temporary {
		_ = os.Remove(name) // a leftover does no harm
	}
}

// exitsWith sets the exit code of a process that is interrupted from now on.
func (i *interrupts) exitsWith(code int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.code = code
}

func (i *interrupts) exitCode() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.code
}

// setTemporary sets whether the file must be removed when the process is interrupted.
func (i *interrupts) setTemporary(name string, temporary bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if temporary {
		i.temporary[name] = true
	} else {
		delete(i.temporary, name)
	}
}

// run runs the command, and returns when the command does. If ctx ends before, run returns the
// error of ctx: windDown later, as soon as nothing holds the process. The command is left behind.
func (i *interrupts) run(ctx context.Context, command func(context.Context) error) error {
	ended := make(chan error, 1)
	go func() { ended <- command(context.WithValue(ctx, interruptsKey{}, i)) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-ended:
		return err
	case <-time.After(windDown):
	}
	idle := make(chan struct{})
	go func() {
		i.end()
		close(idle)
	}()
	select {
	case err := <-ended:
		return err
	case <-idle:
		return ctx.Err()
	}
}
