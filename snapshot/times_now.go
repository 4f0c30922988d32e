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
	leases []evidence // the latest of these, as latest may have none left
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
	if len(c.leases) < 3 || c.leases[0].machine == "" {
		return nil
	}
	if next := c.leases[1].at; c.leases[0].at.Sub(next) <= renewals || next.Sub(c.leases[2].at) > renewals {
		return nil
	}
	return &c.leases[0]
}

// lone returns the latest time of a clock that no other confirms: it is more than ClockTolerance later than
// three leases that agree, and no other machine shows a time so late, nor any other object that no machine
// has dated. nil if there is none. Leases that stand still are of a list that was read earlier: then the
// other lists have several such times.
func (c *fileClock) lone() *evidence {
	if len(c.leases) < 3 || c.leases[0].at.Sub(c.leases[2].at) > renewals || !c.isLate(c.latest[0]) {
		return nil
	}
	for _, e := range c.latest[1:] {
		if c.isLate(e) && (e.machine == "" || e.machine != c.latest[0].machine) {
			return nil
		}
	}
	return &c.latest[0]
}

func (c *fileClock) isLate(e evidence) bool { return e.at.Sub(c.leases[0].at) > ClockTolerance }

// believed returns the times of machines whose clocks are not ahead, the latest first.
func (c *fileClock) believed() []evidence {
	ahead, lone := c.ahead(), c.lone()
	if ahead == nil && lone == nil {
		return c.latest
	}
	believed := slices.DeleteFunc(slices.Clone(c.latest), func(e evidence) bool {
		return ahead != nil && e.machine == ahead.machine || lone != nil && c.isLate(e)
	})
	if len(believed) == 0 {
		return slices.DeleteFunc(slices.Clone(c.leases), func(e evidence) bool { return ahead != nil && e.machine == ahead.machine })
	}
	return believed
}

func (c *fileClock) add(e evidence) {
	c.latest = addLatest(c.latest, e)
	if e.resource != nil && e.resource.Kind == Leases {
		c.leases = addLatest(c.leases, e)
	}
}

// addLatest adds the time to those that are sorted, the latest first, and keeps mostEvidence of them.
func addLatest(list []evidence, e evidence) []evidence {
	if e.at.IsZero() || len(list) == mostEvidence && !e.at.After(list[mostEvidence-1].at) {
		return list
	}
	i := slices.IndexFunc(list, func(other evidence) bool { return e.at.After(other.at) })
	if i < 0 {
		i = len(list)
	}
	list = slices.Insert(list, i, e)
	return list[:min(len(list), mostEvidence)]
}

func (c *fileClock) merge(o *fileClock) {
	for _, e := range o.latest {
		c.latest = addLatest(c.latest, e)
	}
	for _, e := range o.leases {
		c.leases = addLatest(c.leases, e)
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
	case clock.lone() != nil:
		lone, at := clock.lone(), clock.believed()[0].at
		whose := "its clock"
		if lone.machine != "" {
			whose = "the clock of node " + plain(lone.machine)
		}
		c.notes = append(c.notes, Warning(fmt.Sprintf("%s is %s, %s later than all others: %s is taken to be ahead (if it is right: --now)",
			lone, lone.at.UTC().Format(time.RFC3339), lone.at.Sub(at).Round(time.Second), whose)))
		return at, nil
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
		if nearHeader || c.clock.lone() != nil || c.clock.shown == 1 || c.clock.confirmed(i) {
			return &e
		}
	}
	return nil
}
