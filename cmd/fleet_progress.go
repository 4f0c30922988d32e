package cmd

import (
	"bytes"
	"fmt"
	"io"
	"sync"

	"github.com/schollz/progressbar/v3"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/output"
)

// fleetProgress reports on each cluster as soon as its result is known: a line for each where
// something is wrong, or that could not be read. On a terminal the others are counted.
type fleetProgress struct {
	w   io.Writer
	mu  sync.Mutex // keeps lines whole
	all int
	bar *progressbar.ProgressBar
}

// newFleetProgress is a progress for that many clusters. Lines go to w, and the count goes to
// terminal, which is nil where there is no terminal.
func newFleetProgress(w, terminal io.Writer, clusters int) *fleetProgress {
	p := &fleetProgress{w: w, all: clusters}
	if terminal != nil && clusters > 1 {
		p.bar = progressbar.NewOptions(clusters, progressbar.OptionSetWriter(terminal), progressbar.OptionClearOnFinish(),
			progressbar.OptionShowCount(), progressbar.OptionSetDescription("clusters"))
	}
	return p
}

// Of is a writer for messages about one cluster: it puts the name before each line.
func (p *fleetProgress) Of(name string) io.Writer { return &prefixed{prefix: name + ": ", to: p} }

// Read notes the report on a cluster.
func (p *fleetProgress) Read(r *finding.Report) {
	text := ""
	if s := r.Summary; s.Error+s.Warning > 0 {
		text = fmt.Sprintf("%s: errors: %d, warnings: %d", output.Safe(r.Source.Context), s.Error, s.Warning)
	}
	p.ended(text)
}

// Unread notes that a cluster could not be read.
func (p *fleetProgress) Unread(name, why string) {
	p.ended(fmt.Sprintf("error: %s: %s", output.Safe(name), output.Safe(why)))
}

func (p *fleetProgress) ended(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if text != "" && p.all > 1 { // for a single cluster, the report or the error says it
		p.say(text + "\n")
	}
	if p.bar != nil {
		_ = p.bar.Add(1)
	}
}

// say writes whole lines, and clears the count before.
func (p *fleetProgress) say(lines string) {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
	_, _ = io.WriteString(p.w, lines)
}

// End removes the count from the terminal.
func (p *fleetProgress) End() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}

// prefixed puts a name before each line, and keeps the lines of several writers whole: each
// Write must be one or more whole lines.
type prefixed struct {
	prefix string
	to     *fleetProgress
}

func (p *prefixed) Write(text []byte) (int, error) {
	var lines bytes.Buffer
	for line := range bytes.Lines(text) {
		lines.WriteString(p.prefix)
		lines.Write(line)
	}
	p.to.mu.Lock()
	defer p.to.mu.Unlock()
	p.to.say(lines.String())
	return len(text), nil
}
