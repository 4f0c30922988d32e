package controllerlog

import (
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// proves returns what all lines together prove.
func (m *memory) proves() *snapshot.Controller {
	c := &snapshot.Controller{Identity: m.identity, First: m.first.UTC(), Last: m.last.UTC(), Verbose: m.verbose, Started: instant(m.begun)}
	if m.ownRelease {
		c.Release = m.release
	}
	if len(m.flags) > 0 {
		c.Flags = maps.Clone(m.flags)
	}
	for pair, p := range m.pairs {
		r := snapshot.RememberedPair{Volume: pair.Volume, Node: pair.Node, Running: p.running, LastError: p.err}
		if s := m.possible(pair, p.states); s != unknown {
			r.Since = instant(p.since)
			for _, state := range []struct {
				is   states
				name snapshot.Remembered
			}{{isAbsent, snapshot.RememberedAbsent}, {isUncertain, snapshot.RememberedUncertain}, {isAttached, snapshot.RememberedAttached}} {
				if s&state.is != 0 {
					r.States = append(r.States, state.name)
				}
			}
		}
		if p.running != "" {
			r.RunningSince = instant(p.runningSince)
		}
		if p.err != "" {
			r.LastErrorAt = instant(p.errAt)
		}
		c.Pairs = append(c.Pairs, r)
	}
	for volume, list := range m.backOffs {
		for _, b := range list {
			if !b.pending && !b.until.IsZero() {
				c.BackOffs = append(c.BackOffs, snapshot.BackOff{Volume: volume, Node: b.node, Operation: b.operation, Until: b.until.UTC(), Doubtful: b.doubtful})
			}
		}
	}
	c.Unclear = slices.Collect(maps.Keys(m.unclear))
	c.Sort()
	return c
}

// possible are the states in which a pair may be, including those that it enters without a
// line in this log. An in-tree plugin may tell the controller of an attachment elsewhere,
// which is not logged (DanglingAttachError).
func (m *memory) possible(pair reconcile.VolumeNode, s states) states {
	if _, _, ok := reconcile.ParseCSI(pair.Volume); !ok {
		return unknown
	}
	if s&isAttached != 0 && !m.verbose {
		s |= isAbsent // the verify sync logs what it forgets only at --v=1
	}
	return s
}

func instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// cutError is an error as it is kept: without secrets, and cut to maxError in its middle. What
// failed is at its beginning, and why at its end.
func cutError(text string) string {
	text = safetext.Redact(strings.ToValidUTF8(strings.TrimSpace(text), "\uFFFD"))
	if len(text) <= maxError {
		return text
	}
	end := len(text) - maxError/2
	for !utf8.RuneStart(text[end]) {
		end++
	}
	return cut(text, maxError/2) + text[end:]
}

func cut(text string, most int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most] + "..."
}
