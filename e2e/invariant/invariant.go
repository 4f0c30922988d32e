// Package invariant looks for harm in what has happened: in the API server's
// audit log, the driver's calls, the doctors' journals and what was mounted
// where. It knows no cluster and no clock; whoever records a [History] may have
// made it up.
package invariant

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/csidriver"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/repair/apply"
)

// History is what has happened. The clocks of its parts are one.
type History struct {
	// Audit is the API server's audit log in its order, with the bodies of what
	// doctors write and of what is created of pods, claims and volumes.
	Audit []auditv1.Event
	// Doctor is the user that every doctor is.
	Doctor string
	// Sent tells, by the audit ID, what a doctor had done before it sent a write.
	Sent map[string]Sent
	// Calls are the calls of the driver, oldest first.
	Calls []csidriver.Call
	// Mounts are all there were, on machines that were on.
	Mounts []Mount
	// Machines are the driver's names for the nodes that do not have the node's
	// own.
	Machines map[string]string
	// Fenced are the nodes that somebody told a doctor to be off.
	Fenced map[string]bool
	// Reruns are the runs after the faults had ended.
	Reruns []Rerun
	// Runs are all runs, those among them.
	Runs []Run
	// Journals are the journals of all runs.
	Journals []Journal
	// Peers are the users whose writes a doctor may take for its own.
	Peers map[string]bool
}

// Sent is what a doctor had done when it sent a write.
type Sent struct {
	// Looked is when its last look at the cluster had begun.
	Looked time.Time
	// Journal is what its journal had on disk, or all those in its folder.
	Journal []apply.Entry
	// Reviewed is what the file of repairs has that its run was given. It is nil where
	// it was given none.
	Reviewed []repair.Operation
}

// Mount is a volume that was mounted on a node.
type Mount struct {
	Volume, Node string // the volume's handle
	From, Until  time.Time
}

// Rerun is a run of a doctor without faults after one with them.
type Rerun struct {
	Name     string
	Code     int
	Findings int
	// Said is what it printed.
	Said string
	// Unless are words that explain why it leaves the finding; none where it has
	// to mend it.
	Unless []string
}

// Invariant is the name of one.
type Invariant string

// The invariants.
const (
	// InUse: no volume is detached that a node has mounted, unless somebody said
	// that the node is fenced.
	InUse Invariant = "no detach of a volume in use"
	// Wanted: no VolumeAttachment is deleted, nor let go, that a pod wanted when
	// the doctor looked and wants still.
	Wanted Invariant = "no VolumeAttachment deleted that is wanted"
	// OneNode: no volume for a single node is published, or mounted, on two.
	OneNode Invariant = "no single-writer volume on two nodes"
	// TrueEntry: no entry is written to volumesAttached for what the driver does
	// not have there.
	TrueEntry Invariant = "no entry for what is not attached"
	// Conditional: no write is sent without preconditions.
	Conditional Invariant = "no write without preconditions"
	// Journaled: no write is sent that is not in the journal by then.
	Journaled Invariant = "no write without its journal entry"
	// Approved: a run that is given a file of reviewed repairs makes no others.
	Approved Invariant = "no write that was not reviewed"
	// Converges: a run without faults leaves no finding, or says why.
	Converges Invariant = "the second run converges"
	// Honest: no journal says NotWritten of a write that was stored, nor that one
	// was made that was not.
	Honest Invariant = "no journal that is wrong about a write"
	// Kept: what was announced stays in a journal, each run's in one of its own.
	Kept Invariant = "no journal lost"
	// Complete: no run ends with code 0 where its last look was incomplete.
	Complete Invariant = "no exit code 0 after an incomplete look"
	// NothingLeft: no run leaves behind what it was to take away without saying so.
	NothingLeft Invariant = "nothing left behind in silence"
	// OwnOnly: undo writes to the server of its journal, and takes away nothing that
	// has become somebody else's.
	OwnOnly Invariant = "no undo of what is not its own"
)

// Invariants are all of them.
func Invariants() []Invariant {
	return []Invariant{InUse, Wanted, OneNode, TrueEntry, Conditional, Journaled, Approved, Converges, Honest, Kept, Complete, NothingLeft, OwnOnly}
}

// Violation is one time that one did not hold.
type Violation struct {
	Invariant Invariant
	Text      string
}

func (v Violation) String() string { return string(v.Invariant) + ": " + v.Text }

// Check returns what was violated.
func (h *History) Check() []Violation {
	c := &checker{History: h, world: readWorld(h.Audit)}
	c.inUse()
	c.oneNode()
	for i := range h.Audit {
		if event := &h.Audit[i]; event.User.Username == h.Doctor && !exempt(event) {
			c.write(event)
		}
	}
	c.converges()
	c.runs()
	c.journals()
	return c.violations
}

type checker struct {
	*History
	world      *world
	violations []Violation
}

func (c *checker) violated(i Invariant, format string, args ...any) {
	c.violations = append(c.violations, Violation{i, fmt.Sprintf(format, args...)})
}

func (c *checker) machine(node string) string { return cmp.Or(c.Machines[node], node) }

func (c *checker) inUse() {
	for _, call := range c.Calls {
		if call.Publish || call.Err != nil {
			continue
		}
		for _, m := range c.Mounts {
			if m.Volume == call.Volume && c.machine(m.Node) == call.Node && !c.Fenced[m.Node] && m.span().at(call.At) {
				c.violated(InUse, "volume %s was detached from %s at %s, where it had been mounted since %s",
					call.Volume, call.Node, clock(call.At), clock(m.From))
			}
		}
	}
}

// span is a time; without an end it lasts.
type span struct{ from, until time.Time }

func (m Mount) span() span { return span{m.From, m.Until} }

func (s span) at(t time.Time) bool {
	return !t.Before(s.from) && (s.until.IsZero() || t.Before(s.until))
}

func (s span) overlaps(other span) bool { return s.at(other.from) || other.at(s.from) }

func (c *checker) oneNode() {
	mounted := map[string][]place{}
	for _, m := range c.Mounts {
		mounted[m.Volume] = append(mounted[m.Volume], place{c.machine(m.Node), m.span()})
	}
	for verb, places := range map[string]map[string][]place{"published": published(c.Calls), "mounted": mounted} {
		for volume, list := range places {
			if c.world.shared[volume] {
				continue
			}
			for i, a := range list {
				for _, b := range list[:i] {
					if a.machine != b.machine && a.span.overlaps(b.span) {
						c.violated(OneNode, "volume %s was %s on %s from %s and on %s from %s",
							volume, verb, b.machine, clock(b.span.from), a.machine, clock(a.span.from))
					}
				}
			}
		}
	}
}

// place is where a volume was for a time.
type place struct {
	machine string
	span    span
}

// published is where each volume was, by the driver's calls.
func published(calls []csidriver.Call) map[string][]place {
	places := map[string][]place{}
	for _, call := range calls {
		if call.Err != nil {
			continue
		}
		list := places[call.Volume]
		open := slices.IndexFunc(list, func(p place) bool { return p.machine == call.Node && p.span.until.IsZero() })
		switch {
		case call.Publish && open < 0:
			places[call.Volume] = append(list, place{call.Node, span{from: call.At}})
		case !call.Publish && open >= 0:
			list[open].span.until = call.At
		}
	}
	return places
}

func (c *checker) converges() {
	for _, r := range c.Reruns {
		if r.Code == 0 && r.Findings == 0 || r.Code == 3 && explained(r) {
			continue
		}
		c.violated(Converges, "%s ended with code %d and %d findings, and said %q", r.Name, r.Code, r.Findings, r.Said)
	}
}

func clock(t time.Time) string { return t.Format("15:04:05.000") }
