package output

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// PlanUntil is one event that may end a decision after the first pass; the first of several events
// ends it. After and Bound are durations since the controller's start: the earliest and the latest
// moment of the event. Bound is absent if no latest moment is known.
type PlanUntil struct {
	Event reconcile.Event `json:"event"`
	After string          `json:"after"`
	Bound string          `json:"bound,omitempty"`
	// Running gives the same two moments for a controller that already runs, counted from the
	// snapshot.
	Running PlanSpan       `json:"running"`
	Then    reconcile.Verb `json:"then,omitempty"`
	// Contenders are the nodes that compete for the volume then: one of them gets it.
	Contenders []types.NodeName `json:"contenders,omitempty"`
}

// PlanSpan is the earliest and the latest moment of an event.
type PlanSpan struct {
	After string `json:"after"`
	Bound string `json:"bound,omitempty"`
}

func (s PlanSpan) String() string {
	switch {
	case s.Bound == "" && s.After == "0s":
		return "at any time, or never"
	case s.Bound == "":
		return "in " + rounded(s.After) + " or later, or never"
	case s.After == "0s":
		return "within " + rounded(s.Bound)
	}
	return "in " + rounded(s.After) + " to " + rounded(s.Bound)
}

// rounded returns the duration of a plan as all reports show one.
func rounded(duration string) string {
	d, err := time.ParseDuration(duration)
	if err != nil || d < time.Second {
		return duration
	}
	return facts.Rounded(d)
}

func planUntil(d reconcile.Decision) []PlanUntil {
	list := make([]PlanUntil, 0, len(d.Until))
	for _, row := range d.Until {
		u := PlanUntil{Event: row.Event, After: row.After.String(), Then: row.Then, Contenders: row.Contenders}
		after, bound := row.Running(d)
		u.Running.After = after.String()
		if row.Bound > 0 {
			u.Bound = row.Bound.String()
		}
		if bound > 0 {
			u.Running.Bound = bound.String()
		}
		list = append(list, u)
	}
	return list
}

// untilText tells when what happens next, and what the controller's log adds; "" if there is
// nothing to tell.
func untilText(d PlanDecision) string {
	return strings.Join(said(untilRows(d), waitedForText(d), runningText(d), d.Remembered.text()), "; ")
}

// waitedForText names the nodes that get the volume next; "" if there is none.
func waitedForText(d PlanDecision) string {
	switch n := len(d.WaitedFor); n {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("node %s waits for it", d.WaitedFor[0])
	default:
		return fmt.Sprintf("%d nodes wait for it: %s", n, some(texts(d.WaitedFor, func(n types.NodeName) string { return string(n) })))
	}
}

// runningText says what a running controller may do differently; "" if no difference is known.
func runningText(d PlanDecision) string {
	switch {
	case len(d.MayKeep) > 0:
		return "a running controller may keep it for " + joined(d.MayKeep, ",") + ", and does nothing then"
	case d.Late != "" && d.Verb == reconcile.Attach:
		return "a running controller: up to " + rounded(d.Late) + " later, where a claimRef, a CSIDriver or the node's annotation has come since"
	case d.Late != "":
		return "a running controller: up to " + rounded(d.Late) + " later, for it finds one volume a minute of a pod whose claims went first"
	default:
		return ""
	}
}

func untilRows(d PlanDecision) string {
	if len(d.Until) == 0 {
		switch d.Verb {
		case reconcile.Wait, reconcile.Blocked, reconcile.MultiAttach:
			return "never by itself"
		default:
			return ""
		}
	}
	timeout := slices.ContainsFunc(d.Until, func(u PlanUntil) bool { return u.Event == reconcile.MaxWaitForUnmount })
	var text string
	for _, u := range d.Until {
		switch {
		case timeout && u.Event == reconcile.Unmount:
			continue // "unless the node returns" already says this
		case u.Event == reconcile.MaxWaitForUnmount && d.Verb == reconcile.Detach && len(d.Until) == 1:
			continue // nothing shows that this detach fails
		case text == "":
		case u.Event == reconcile.Backoff:
			text += "; "
		default:
			text += ", or "
		}
		text += untilWay(d, u)
	}
	return text
}

func untilWay(d PlanDecision, u PlanUntil) string {
	then := map[reconcile.Verb]string{
		reconcile.Attach: "attach", reconcile.Detach: "detach", reconcile.ForceDetach: "detach by force",
		reconcile.MultiAttach: "wait for the new holder", reconcile.Blocked: "try, and find that it cannot be detached",
		"": "forget it",
	}[u.Then]
	atMost := ""
	if u.Bound != "" {
		atMost = ", at most " + rounded(u.Bound) + " after the start"
	}
	if len(u.Contenders) > 0 && u.Then == reconcile.Attach {
		then = "attach, to whichever of " + nodesText(u.Contenders) + " comes first,"
	}
	switch u.Event {
	case reconcile.NodeUpdate:
		return fmt.Sprintf("%s at the next update of node %s%s", then, d.Node, atMost)
	case reconcile.Unmount:
		return fmt.Sprintf("%s once node %s has unmounted it", then, d.Node)
	case reconcile.MaxWaitForUnmount:
		running := u.Running.String()
		if d.Overdue != "" {
			running = "overdue by " + rounded(d.Overdue) + ", unless the last pod there left late"
		}
		if d.Verb == reconcile.Detach {
			return fmt.Sprintf("%s %s after the start (a running controller: %s) if it has not worked by then, Ready node or not", then, rounded(u.After), running)
		}
		return fmt.Sprintf("%s %s after the start (a running controller: %s) unless %s returns", then, rounded(u.After), running, d.Node)
	case reconcile.VerifySync:
		if u.Then == reconcile.Attach && len(u.Contenders) == 0 {
			then = "attach again"
		}
		after := rounded(u.After)
		if u.Bound != u.After {
			after += " to " + rounded(u.Bound)
		}
		return fmt.Sprintf("%s %s after the start (a running controller: %s) unless its VolumeAttachment is attached then",
			then, after, u.Running)
	case reconcile.HolderLeaves:
		return fmt.Sprintf("%s once %s has let go of it%s", then, nodesText(d.Holders), atMost)
	case reconcile.OperationEnds:
		if len(d.Holders) > 0 {
			return fmt.Sprintf("%s once the detach from %s ends%s", then, nodesText(d.Holders), atMost)
		}
		others := slices.DeleteFunc(slices.Clone(d.Contenders), func(n types.NodeName) bool { return n == d.Node })
		return fmt.Sprintf("%s where %s comes first%s", then, nodesText(others), atMost)
	case reconcile.Backoff:
		return fmt.Sprintf("it fails now: %s again after %s, then at pauses of up to %s", then, rounded(u.After), rounded(u.Bound))
	default:
		return cmp.Or(string(u.Then), "end") + " on " + string(u.Event)
	}
}

func nodesText(nodes []types.NodeName) string { return joined(nodes, ",") }
