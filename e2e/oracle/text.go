package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2/textlogger"
)

// controllerName is under what name kube-controller-manager runs the controller.
const controllerName = "persistentvolume-attach-detach-controller"

// textVerbosity is the --v of the log that is written as text.
const textVerbosity = 2

// text is the log as kube-controller-manager writes it at that verbosity.
type text struct {
	began  time.Time
	mu     sync.Mutex
	b      bytes.Buffer
	logger logr.Logger
}

func newText() *text {
	t := &text{began: time.Now()}
	t.logger = textlogger.NewLogger(textlogger.NewConfig(textlogger.Verbosity(textVerbosity), textlogger.Output(t)))
	return t
}

func (t *text) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.Write(p)
}

func (t *text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.String()
}

// add writes a line, as klog's Infof where it comes from there and as its InfoS
// otherwise. named says that it comes from the controller's own logger.
func (t *text) add(err error, isError, named bool, msg string, keysAndValues []any) {
	if time.Since(t.began) > 365*24*time.Hour {
		return // a goroutine that lives outside of the bubble, by another clock
	}
	logger := t.logger
	if named {
		logger = logger.WithValues("logger", controllerName)
	}
	switch {
	case !named && formatted():
		severity := 'I'
		if isError {
			severity = 'E'
		}
		_, _ = fmt.Fprintf(t, "%c%s %7d oracle.go:1] %s\n", severity, time.Now().Format("0102 15:04:05.000000"), os.Getpid(), strings.TrimRight(msg, "\n"))
	case isError:
		logger.Error(err, msg, keysAndValues...)
	default:
		logger.Info(msg, keysAndValues...)
	}
}

// formatted reports whether the line being logged was formatted before it reached the log.
func formatted() bool {
	callers := make([]uintptr, 16)
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers)])
	for {
		frame, more := frames.Next()
		if strings.Contains(frame.Function, "klog/v2.(*loggingT).print") {
			return !strings.HasSuffix(frame.Function, "printS")
		}
		if !more {
			return false
		}
	}
}
