package histories

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/oracle/wire"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// compareNow checks that the controller does, within a few passes, what the model says it
// does now, for one of the contenders where there are several.
func (c *comparison) compareNow(m *moment, deeds []wire.Deed) {
	if m.Blind || m.Losing || m.until-m.At <= slack {
		return
	}
	for _, d := range m.plan.Decisions {
		if d.Verb != reconcile.Attach && d.Verb != reconcile.Detach && d.Verb != reconcile.ForceDetach {
			continue
		}
		if m.busy(d.Volume) || m.otherMemory(d.Volume) != "" {
			continue
		}
		nodes := d.Contenders
		if len(nodes) == 0 {
			nodes = []types.NodeName{d.Node}
		}
		served := 0
		for _, deed := range deeds {
			if deed.Volume == string(d.Volume) && slices.Contains(nodes, types.NodeName(deed.Node)) && deed.At-m.At <= slack {
				served++
			}
		}
		if served == 0 {
			c.differ(m.until, d.VolumeNode, "nothing since %s, and the model says %s", m.At, decisionText(&d))
		}
	}
}

// debt is a row with a latest moment.
type debt struct {
	reconcile.VolumeNode
	event reconcile.Event
	then  reconcile.Verb
}

// due is the time by which the event of a row must have happened, and the model's row.
type due struct {
	by, since time.Duration
	text      string
}

// compareBounds checks that each row with a latest moment is gone by then: its event has
// happened, or the objects have changed so that the row does not apply.
func (c *comparison) compareBounds(i int) {
	m := &c.moments[i]
	if m.Blind || m.Losing || m.justStarted() {
		clear(c.owed)
	}
	if m.Blind || m.Losing {
		return
	}
	for key, owed := range c.owed { // the first of several rows to come true ends a decision
		if slices.ContainsFunc(c.story.Deeds, func(d wire.Deed) bool {
			return pairOf(d.Pair) == key.VolumeNode && d.At > owed.since && d.At <= m.At
		}) {
			delete(c.owed, key)
		}
	}
	standing := map[debt]*due{}
	for _, d := range m.plan.Decisions {
		for _, u := range d.Until {
			if u.Bound == 0 || u.Event == reconcile.Backoff || d.Verb == reconcile.Detach || d.Verb == reconcile.Attach {
				continue
			}
			if u.Event == reconcile.OperationEnds && u.Then == reconcile.MultiAttach && !m.pending(d.Volume) {
				continue // the operation has ended and failed, which no deed shows
			}
			key := debt{d.VolumeNode, u.Event, u.Then}
			by, ok := m.by(&d, u)
			was := c.owed[key]
			switch {
			case was != nil && (!ok || was.by <= by):
				standing[key] = was
			case ok:
				standing[key] = &due{by: by, since: m.At, text: decisionText(&d)}
				c.Counts["bounds"]++
				c.Counts["bound "+string(d.Verb)+" "+string(u.Event)]++
			}
		}
	}
	c.owed = standing
	for key, d := range standing {
		if d.by+slack < m.until {
			c.differ(m.until, key.VolumeNode, "not by %s, as the model says since %s: %s", d.by, d.since, d.text)
			d.by = 1 << 62 // report it only once
		}
	}
}

// by is the latest time at which the row's event must happen, where there is a bound for the
// controller that is at work.
func (m *moment) by(d *reconcile.Decision, u reconcile.Until) (time.Duration, bool) {
	if m.justStarted() {
		return m.Started + u.Bound, true
	}
	_, bound := u.Running(*d)
	return m.At + bound, bound > 0 && !m.Touched
}
