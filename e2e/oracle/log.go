package main

import (
	"flag"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// passOver begins the last line of the controller's first pass, logged once its
// node statuses are written.
const passOver = "Skipping reconciling attached volumes still attached since it is disabled via the command line"

// line is one line of the controller's structured log.
type line struct {
	err    error
	msg    string
	values map[string]any
}

// recorder keeps the controller's log. It is the only place where most
// decisions show: each branch of the pass writes one line and goes on.
type recorder struct {
	mu    sync.Mutex
	lines []line
	// over is sent to at the end of each pass; two are all that there are.
	over chan struct{}
	// text is nil but in a life.
	text *text
}

func newRecorder() *recorder { return &recorder{over: make(chan struct{}, 2)} }

func (r *recorder) add(err error, msg string, keysAndValues []any) {
	l := line{err: err, msg: msg, values: map[string]any{}}
	for i := 0; i+1 < len(keysAndValues); i += 2 {
		if key, ok := keysAndValues[i].(string); ok {
			l.values[key] = keysAndValues[i+1]
		}
	}
	l = unformatted(l)
	r.mu.Lock()
	r.lines = append(r.lines, l)
	r.mu.Unlock()
	if r.isPassOver(l) {
		r.over <- struct{}{}
	}
}

// isPassOver reports whether the line ends a pass that somebody waits for. In a life nobody
// does, and the line is there where the sync is off.
func (r *recorder) isPassOver(l line) bool {
	return r.text == nil && strings.HasPrefix(l.msg, passOver)
}

// take returns what was logged up to the end of a pass, and forgets it.
func (r *recorder) take() []line {
	r.mu.Lock()
	defer r.mu.Unlock()
	end := slices.IndexFunc(r.lines, r.isPassOver)
	if end < 0 {
		end = len(r.lines)
	}
	lines := r.lines[:end]
	r.lines = r.lines[min(end+1, len(r.lines)):]
	return lines
}

// sink is a log at the highest verbosity that goes to a recorder.
type sink struct {
	to func() *recorder
	// named reports whether it is the controller's own sink, to which nothing else logs.
	named bool
}

var _ logr.LogSink = sink{}

func (sink) Init(logr.RuntimeInfo) {}
func (sink) Enabled(int) bool      { return true }
func (s sink) Info(level int, msg string, kv ...any) {
	if r := s.to(); r != nil && r.text != nil && level <= textVerbosity {
		r.text.add(nil, false, s.named, msg, kv)
	}
	s.add(nil, msg, kv)
}
func (s sink) Error(err error, msg string, kv ...any) {
	if r := s.to(); r != nil && r.text != nil {
		r.text.add(err, true, s.named, msg, kv)
	}
	s.add(err, msg, kv)
}
func (s sink) WithValues(...any) logr.LogSink { return s }
func (s sink) WithName(string) logr.LogSink   { return s }

func (s sink) add(err error, msg string, kv []any) {
	if r := s.to(); r != nil {
		r.add(err, msg, kv)
	}
}

// current is the recorder of the request that is being answered.
var current atomic.Pointer[recorder]

// recordGlobalLog sends what is logged through klog's package functions to the
// current recorder. Up to 1.26 that is all that the controller logs.
func recordGlobalLog() {
	flags := flag.NewFlagSet("klog", flag.PanicOnError)
	klog.InitFlags(flags)
	_ = flags.Set("v", "10")
	klog.SetLogger(logr.New(sink{to: current.Load}))
}
