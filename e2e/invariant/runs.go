package invariant

import (
	"cmp"
	"slices"
	"strings"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/repair/apply"
)

// Run is one process of a doctor, whatever happened to it.
type Run struct {
	// Name is the beginning of its audit IDs.
	Name string
	// Code is its exit code; -1 where it was killed.
	Code int
	// Missing are the kinds that it could not read when it last looked.
	Missing []string
	// Left is what it was to take away or to put back, has not, and does not say so.
	Left []string
	// Foreign says why nothing there is its own to write to; "" where something is.
	Foreign string
	// Said is what it printed.
	Said string
}

// Journal is what one file has when all runs are over.
type Journal struct {
	Name    string
	Entries []apply.Entry
	// Err says why the file cannot be read as a journal.
	Err error
}

// runs checks what the doctors' exit codes say.
func (c *checker) runs() {
	for _, r := range c.Runs {
		if r.Code == 0 && len(r.Missing) > 0 {
			c.violated(Complete, "%s ended with code 0, and could not read %s: %q", r.Name, strings.Join(r.Missing, ", "), r.Said)
		}
		if len(r.Left) > 0 {
			c.violated(NothingLeft, "%s ended with code %d, and there is still %s: %q", r.Name, r.Code, strings.Join(r.Left, ", "), r.Said)
		}
		for i := range c.Audit {
			if e := &c.Audit[i]; r.Foreign != "" && runOf(e) == r.Name && !exempt(e) {
				c.violated(OwnOnly, "%s sent the %s, though %s", r.Name, name(e), r.Foreign)
			}
		}
	}
}

// account is what is known of one and the same write: which runs sent it, how
// often it was stored, and what the journals say.
type account struct {
	key     string
	runs    map[string]bool
	stored  []*auditv1.Event
	intents int
	// notWritten counts the intents that ended so.
	notWritten int
	// claims are when an intent was announced that ended as made, and until when.
	claims []span
}

// landed are the words of an outcome that claims a write whose answer was lost.
const landed = "the object shows the write"

// journals compares the journals with what was sent and stored.
func (c *checker) journals() {
	accounts := map[string]*account{}
	of := func(key string) *account {
		if accounts[key] == nil {
			accounts[key] = &account{key: key, runs: map[string]bool{}}
		}
		return accounts[key]
	}
	for i := range c.Audit {
		e := &c.Audit[i]
		if e.User.Username != c.Doctor || exempt(e) || !announced(c.Sent[string(e.AuditID)].Journal, e) {
			continue // Journaled is about what nobody announced
		}
		a := of(eventKey(e))
		a.runs[runOf(e)] = true
		if stored(e) {
			a.stored = append(a.stored, e)
		}
	}
	for _, j := range c.Journals {
		if j.Err != nil {
			c.violated(Kept, "journal %s cannot be read: %v", j.Name, j.Err)
		}
		outcomes := map[int]apply.Entry{}
		for _, e := range j.Entries {
			if e.Type == apply.Ended {
				outcomes[e.Write] = e
			}
		}
		for _, e := range j.Entries {
			if e.Type != apply.Intent || e.Operation == nil {
				continue
			}
			a := of(opKey(e.Operation))
			a.intents++
			switch end := outcomes[e.Write]; {
			case end.Outcome == apply.NotWritten:
				a.notWritten++
			case end.Outcome == apply.Repaired, end.Outcome == apply.Undone, strings.Contains(end.Detail, landed):
				a.claims = append(a.claims, span{e.Time.Time, end.Time.Add(time.Second)}) // they are whole seconds
			}
		}
	}
	for _, a := range accounts {
		c.account(a)
	}
	slices.SortFunc(c.violations, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.Invariant, b.Invariant), cmp.Compare(a.Text, b.Text))
	})
}

func (c *checker) account(a *account) {
	switch {
	case len(a.runs) > a.intents:
		c.violated(Kept, "%d runs sent the %s, and the journals have %d entries of it", len(a.runs), a.key, a.intents)
	case a.notWritten > 0 && len(a.stored) > a.intents-a.notWritten:
		c.violated(Honest, "the %s was stored, and its journal says %s", a.key, apply.NotWritten)
	}
	for _, claim := range a.claims {
		if !c.wroteDuring(a.key, claim) {
			c.violated(Honest, "the %s was not stored by %s, and a journal says that it was made", a.key, clock(claim.until))
		}
	}
}

// wroteDuring reports whether a doctor, or somebody whose writes can be taken for a
// doctor's own, has written to the object by then. Whoever it was, what the write was
// for is true then: two doctors that send the same cannot tell whose it was.
func (c *checker) wroteDuring(key string, claim span) bool {
	target := strings.Join(strings.Split(key, " ")[1:3], " ")
	return slices.ContainsFunc(c.Audit, func(e auditv1.Event) bool {
		return (c.Peers[e.User.Username] || e.User.Username == c.Doctor) && !exempt(&e) && stored(&e) && targetOf(&e) == target &&
			claim.at(e.StageTimestamp.Time)
	})
}

// runOf is the name of the run that sent the request.
func runOf(e *auditv1.Event) string {
	id := string(e.AuditID)
	return id[:max(0, strings.LastIndex(id, "."))]
}
