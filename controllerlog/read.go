// Package controllerlog replays the log of kube-controller-manager to what its
// attach/detach controller remembers.
//
// The log comes from a stranger's ticket as often as from the own cluster. What a
// line can make the reader hold or do is bounded, and text that a driver or a pod
// put there can look like a line of the controller's: nobody may rest a write on it.
package controllerlog

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// The bounds of what is read and held of a log.
const (
	// MaxLog bounds the bytes of a log. At --v=4 a busy controller writes some 100 MB
	// an hour.
	MaxLog = 2 << 30
	// maxLine is how much of a line is looked at. A structured line puts the names
	// first; up to 1.26 a dump of the pods follows them.
	maxLine = 64 << 10
	// maxError is how much is kept of an error.
	maxError = 1 << 10
	// MaxPairs bounds the pairs of volume and node about which something is held. The largest
	// clusters that Kubernetes supports attach fewer.
	MaxPairs = 200_000
)

// Options are what a log does not say itself.
type Options struct {
	// Now is when the objects were read beside which the log stands. What was logged
	// later is left out.
	Now time.Time
	// Release is the API server's. The log's own goes before it.
	Release string
}

// Read reads a log in klog's text or JSON format, as a container's file, `kubectl
// logs` or a log service has it. Every error is one line.
func Read(r io.Reader, opts Options) (*snapshot.Controller, error) {
	p := &parser{program: reconcile.ControllerManager, tooLong: ": give the part since the controller started", now: opts.Now, zone: time.UTC}
	m := newMemory(opts.Release)
	for e, err := range p.entries(r) {
		if err != nil {
			return nil, err
		}
		if by := p.learnZone(e); by != 0 {
			m.shift(by)
			e.at = e.at.Add(by)
		}
		m.take(e)
	}
	switch {
	case len(m.pairs) > MaxPairs:
		return nil, fmt.Errorf("names more than %d volumes on nodes", MaxPairs)
	case m.last.IsZero():
		return nil, fmt.Errorf("all of it was logged after %s, when the objects were read", opts.Now.UTC().Format(time.RFC3339))
	}
	return m.proves(), nil
}

// entries are the entries of a log, up to the first that is later than now.
func (p *parser) entries(r io.Reader) iter.Seq2[*entry, error] {
	return func(yield func(*entry, error) bool) {
		in := bufio.NewReaderSize(io.LimitReader(r, MaxLog+1), maxLine)
		var read int64
		of := len(p.hosts) == 0 // what is read is of one of the hosts
		for ended := false; !ended && !p.over; {
			text, n, err := readLine(in)
			if read += n; read > MaxLog {
				yield(nil, fmt.Errorf("more than %d GiB%s", MaxLog>>30, p.tooLong))
				return
			}
			if ended = errors.Is(err, io.EOF); err != nil && !ended {
				yield(nil, err)
				return
			}
			if p.journal {
				if text, of = p.fromJournal(text, of); !of {
					continue
				}
			}
			if e := p.next(text); e != nil && !yield(e, nil) {
				return
			}
		}
		if e := p.end(); e != nil && !yield(e, nil) {
			return
		}
		if p.lines == 0 && len(p.hosts) > 0 {
			yield(nil, ErrOtherHosts)
		} else if p.lines == 0 {
			yield(nil, fmt.Errorf("not a log of %s: no line begins as klog's do, in text or JSON", p.program))
		}
	}
}

// readLine reads to the end of a line, returns no more than maxLine of it, and
// how long it was.
func readLine(in *bufio.Reader) (text string, read int64, err error) {
	first, err := in.ReadSlice('\n')
	text, read = string(first), int64(len(first))
	for errors.Is(err, bufio.ErrBufferFull) {
		var more []byte
		more, err = in.ReadSlice('\n')
		read += int64(len(more))
	}
	return text, read, err
}
