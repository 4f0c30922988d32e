package snapshot

import (
	"fmt"
	"slices"
	"time"
)

const (
	// nearby is the largest distance between the latest time of a file without a header and a
	// second time that confirms it. Kubelets write the status of their node about every five
	// minutes, and their lease every ten seconds.
	nearby = time.Hour
	// renewals is a time in which each lease that is held is renewed: a kubelet renews its own every
	// ten seconds, and others are renewed more often.
	renewals = 20 * time.Second
	// mostEvidence is the number of times that a fileClock keeps.
	mostEvidence = 16
)

// fileClock keeps the latest times that the objects of a file show, one for each object, the latest
// first.
type fileClock struct {
	latest []evidence
	of     fileTimes
	shown  int // the number of objects that show a time
	nodes  int // the number of nodes that show a time
	beats  int // the number of objects that are written continually
}

func (c *fileClock) note(s *row, object apiObject) {
	e := evidenceOf(s, object)
	if e.at.IsZero() {
		return
	}
	beats := isBeating(object)
	c.of.note(s.Kind, e.at, beats)
	c.shown++
	if beats {
		c.beats++
	}
	if s.Kind == Nodes {
		c.nodes++
	}
	c.add(e)
}

// ahead returns the lease of the node whose clock may be ahead of all others: it is renewed more than
// renewals later than two other leases, which were renewed at about the same time as each other. nil
// if there is none. Leases are one list, read in one moment.
func (c *fileClock) ahead() *evidence {
	leases := slices.DeleteFunc(slices.Clone(c.latest), func(e evidence) bool { return e.resource.Kind != Leases })
	if len(leases) < 3 || leases[0].machine == "" {
		return nil
	}
	if next := leases[1].at; leases[0].at.Sub(next) <= renewals || next.Sub(leases[2].at) > renewals {
		return nil
	}
	return &leases[0]
}

// believed returns the times of machines whose clocks are not ahead, the latest first.
func (c *fileClock) believed() []evidence {
	ahead := c.ahead()
	if ahead == nil {
		return c.latest
	}
	return slices.DeleteFunc(slices.Clone(c.latest), func(e evidence) bool { return e.machine == ahead.machine })
}

func (c *fileClock) add(e evidence) {
	if e.at.IsZero() {
		return
	}
	if len(c.latest) == mostEvidence && !e.at.After(c.latest[mostEvidence-1].at) {
		return
	}
	i := slices.IndexFunc(c.latest, func(other evidence) bool { return e.at.After(other.at) })
	if i < 0 {
		i = len(c.latest)
	}
	c.latest = slices.Insert(c.latest, i, e)
	c.latest = c.latest[:min(len(c.latest), mostEvidence)]
}

func (c *fileClock) merge(o *fileClock) {
	for _, e := range o.latest {
		c.add(e)
	}
	c.shown += o.shown
	c.nodes += o.nodes
	c.beats += o.beats
}

// confirmed reports whether a second time is near the i-th: the time of another object or, if there
// is no other object or no other node, a second time of the same object.
func (c *fileClock) confirmed(i int) bool {
	e := c.latest[i]
	near := func(t time.Time) bool { return !t.Before(e.at.Add(-nearby)) }
	switch {
	case i+1 < len(c.latest) && near(c.latest[i+1].at):
		return true
	case c.shown == 1:
		return e.second.IsZero() || near(e.second)
	case e.resource.Kind == Nodes && c.nodes == 1:
		return near(e.second) // the heartbeats of the node
	}
	return false
}

// now returns the time of the snapshot: the time asked for, else the header's, else the latest time
// that the objects show. The error begins with the name of the input.
func (c *collector) now(name string, asked time.Time) (time.Time, error) {
	clock := &c.clock
	switch {
	case !asked.IsZero():
		if e := c.provenTime(); e != nil {
			if err := contradicted(asked, e.String(), e.at); err != nil {
				return time.Time{}, fmt.Errorf("%s: --now: %w", plain(name), err)
			}
		}
		return asked, nil
	case c.header != nil && !c.header.takenAt.IsZero():
		if believed := clock.believed(); len(believed) > 0 {
			if err := contradicted(c.header.takenAt, believed[0].String(), believed[0].at); err != nil {
				return time.Time{}, c.headerAt.errorf("Snapshot header: takenAt: %w; give the right time with --now", err)
			}
		}
		return c.header.takenAt, nil
	case len(clock.latest) == 0:
		return time.Time{}, fmt.Errorf("%s: nothing in it says when it was taken; say so with --now", plain(name))
	case !c.began.IsZero():
		// The clock of the machine that gathered may be wrong either way. The earlier of the two
		// times makes ages too short, never too long.
		if c.began.Before(clock.latest[0].at) {
			return c.began, nil
		}
		return clock.latest[0].at, nil
	case clock.ahead() != nil && clock.ahead().at.Equal(clock.latest[0].at):
		ahead := clock.ahead()
		return time.Time{}, fmt.Errorf("%s: %s is %s, later than any other lease: the clock of node %s is ahead, or all others have stopped; say with --now when the file was written",
			plain(name), ahead, ahead.at.UTC().Format(time.RFC3339), plain(ahead.machine))
	case !clock.confirmed(0):
		return time.Time{}, fmt.Errorf("%s: %s is %s, and no other object shows a time in the hour before that, so it may be wrong; say with --now when the file was written",
			plain(name), clock.latest[0], clock.latest[0].at.UTC().Format(time.RFC3339))
	}
	return clock.latest[0].at, nil
}

// provenTime returns the latest time that --now must not contradict, or nil if there is none. A
// single time that no other confirms does not count, because one wrong time must not make every
// --now wrong.
func (c *collector) provenTime() *evidence {
	believed := c.clock.believed()
	for i, e := range c.clock.latest {
		if !slices.Contains(believed, e) {
			continue
		}
		nearHeader := c.header != nil && c.header.takenAt.Sub(e.at).Abs() <= nearby
		if nearHeader || c.clock.shown == 1 || c.clock.confirmed(i) {
			return &e
		}
	}
	return nil
}
