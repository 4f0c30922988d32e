// Package controllerlog replays the log of kube-controller-manager to find what its
// attach/detach controller remembers.
//
// The log comes from a stranger's ticket as often as from one's own cluster. The memory and
// the time that a line can cost are bounded. A driver's or a pod's text in the log can look
// like a line of the controller's: no write may rest on it.
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

// The bounds on reading and keeping a log.
const (
	// MaxLog bounds the bytes of a log. At --v=4 a busy controller writes some 100 MB
	// an hour.
	MaxLog = 2 << 30
	// maxLine is how much of a line is read. A structured line has the names first; up to
	// 1.26 a dump of the pods follows them.
	maxLine = 64 << 10
	// maxError is the longest kept text of an error.
	maxError = 1 << 10
	// MaxPairs bounds the pairs of volume and node that are kept. The largest clusters that
	// Kubernetes supports attach fewer.
	MaxPairs = 200_000
)

// Options are facts that a log does not contain.
type Options struct {
	// Now is the time at which the objects beside the log were read. Later lines are left
	// out.
	Now time.Time
	// Release is the API server's release. A release in the log takes precedence.
	Release string
}

// Read reads a log in klog's text or JSON format, as it comes from a container's file, from
// `kubectl logs` or from a log service. Every error is one line.
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
		of := len(p.hosts) == 0 // whether the current lines are of one of the hosts
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
			yield(nil, fmt.Errorf("not a log of %s: %w", p.program, ErrNoLine))
		}
	}
}

// readLine reads to the end of a line. It returns no more than maxLine of the line, and the
// line's length.
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
