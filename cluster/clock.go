package cluster

import (
	"fmt"
	"sync"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// clock notes the API server's time. An age is the distance between timestamps that servers
// wrote. The clock of the person's machine only measures how long the reading has taken so
// far.
type clock struct {
	mu sync.Mutex
	// first is the first date that was seen, and at the machine's time then.
	first, at time.Time
	// ahead and behind are the largest differences of a later date from the expected one,
	// which is the first date plus the time since: two API servers may answer at one address.
	ahead, behind time.Duration
}

// see notes the date of an answer.
func (c *clock) see(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.first.IsZero() {
		c.first, c.at = t, now
		return
	}
	// On a machine that sleeps one of its two clocks stops; on one whose time is set the
	// other one jumps.
	off, byDate := t.Sub(c.first)-now.Sub(c.at), t.Sub(c.first)-now.Round(0).Sub(c.at.Round(0))
	if byDate.Abs() < off.Abs() {
		off = byDate
	}
	c.ahead, c.behind = max(c.ahead, off), min(c.behind, off)
}

// read is the API server's present time; zero before its first answer.
func (c *clock) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.first.IsZero() {
		return time.Time{}
	}
	return c.first.Add(time.Since(c.at)).UTC()
}

// began is when the first answer came, by the machine's clock.
func (c *clock) began() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

// span returns the earliest and the latest time at which the reading may have begun. They are
// both the time of the first answer, unless the answers disagree. An object that was read
// later than that then counts as younger than it is, never as older, and drift is always
// about objects that are too old.
func (c *clock) span() (earliest, latest time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ahead-c.behind <= snapshot.ClockTolerance {
		return c.first, c.first
	}
	return c.first.Add(c.behind), c.first.Add(c.ahead)
}

// setTakenAt sets s.TakenAt, or fails where the time cannot be known. Where the answers
// disagree, the objects may show that the earlier clock is wrong; the later one then counts.
func (c *Cluster) setTakenAt(s *snapshot.Snapshot, now *clock) error {
	earliest, latest := now.span()
	if earliest.IsZero() {
		return fmt.Errorf("no answer of the API server at %s has a date, and no age can be told without", c.server)
	}
	s.TakenAt = earliest
	err := snapshot.ClockContradicted(s)
	switch {
	case err != nil && !latest.Equal(earliest):
		s.TakenAt = latest
		err = snapshot.ClockContradicted(s)
	case !latest.Equal(earliest):
		return fmt.Errorf("the answers at %s are of clocks that disagree, %s and %s, and no age can be told: several API servers may answer there",
			c.server, earliest.UTC().Format(time.RFC3339), latest.UTC().Format(time.RFC3339))
	}
	if err == nil {
		s.TakenAt, err = c.renewed.bound(s.TakenAt, now.began())
	}
	if err != nil {
		return c.wrongClock(err)
	}
	return nil
}

// wrongClock adds the server to the error. The wrong clock may also be on the node whose
// kubelet wrote the object.
func (c *Cluster) wrongClock(err error) error {
	return fmt.Errorf("no age can be told: the API server at %s and an object disagree about the time: %w", c.server, err)
}

// ticking is the API server's clock: the last date that it sent, and the time since then.
type ticking struct {
	mu       sync.Mutex
	date, at time.Time
}

func (c *ticking) see(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// A date has no fractions: a date that is slightly earlier than expected is the same
	// second once more.
	const late = 2 * time.Second
	now := time.Now()
	if ahead := c.date.Add(now.Sub(c.at)).Sub(t); c.date.IsZero() || ahead < 0 || ahead > late {
		c.date, c.at = t, now
	}
}

func (c *ticking) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.date.IsZero() {
		return time.Time{}
	}
	return c.date.Add(time.Since(c.at))
}
