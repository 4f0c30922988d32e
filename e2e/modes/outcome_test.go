package modes_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
)

// answeredWithin is how long after the due time of a wait, by the report itself, a finding
// must name the pod. Two looks are lookEvery apart, and a run of the command takes time.
const answeredWithin = time.Minute

// moment is when something was first seen, counted from the end of the story.
type moment struct {
	seen  bool
	after time.Duration
	// ahead reports whether it was seen only in a snapshot diagnosed as of a later moment,
	// and announced whether a finding only says when it will be so.
	ahead, announced bool
}

// wait is the observed wait of a pod.
type wait struct {
	due      time.Time // when it was to count as stuck; zero where it did from the first look on
	answered bool
	late     time.Duration // how long after the due time a finding named it
}

// outcome is when and how a mode was found.
type outcome struct {
	finding *finding.Finding // the first one of the mode's check, suspected or certain
	named   moment           // when that was
	grave   moment           // when one was first a warning or worse, of which somebody is alerted
	certain moment
	also    map[string]bool // the consequences that were seen
	waits   map[string]*wait

	// present reports whether the last look found it, too.
	present    bool
	looksAhead bool

	later, announced bool
	mu               sync.Mutex
	provoked         time.Time // zero: not yet
	failed           bool      // and never will be provoked
}

func newOutcome(m mode) *outcome {
	return &outcome{later: m.later, announced: m.announced, also: map[string]bool{}, waits: map[string]*wait{}}
}

func (o *outcome) since() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.provoked
}

// awaited reports whether the mode's story goes on, or its finding is still to come.
func (o *outcome) awaited() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	found := o.later || o.certain.seen && (o.announced || !o.certain.announced)
	return !o.failed && (o.provoked.IsZero() || !found)
}

func (o *outcome) end(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failed = err != nil
	if err == nil {
		o.provoked = time.Now()
	}
}

// note records when the mode was first found, suspected and certain, and which of its
// consequences were.
func (o *outcome) note(report finding.Report, m mode) {
	at := o.since()
	o.present = false
	for i, f := range report.Findings {
		if !belongs(f, m) {
			continue
		}
		if slices.Contains(m.also, f.Check) {
			o.also[f.Check] = true
		}
		if at.IsZero() || f.Check != m.check {
			continue
		}
		o.present = true
		now := moment{seen: true, after: max(0, report.TakenAt.Sub(at)), ahead: o.looksAhead}
		if !o.named.seen {
			o.finding, o.named = &report.Findings[i], now
		}
		if !o.grave.seen && f.Severity.AtLeast(finding.Warning) {
			o.grave = now
		}
		switch certain := f.Confidence != finding.Suspected; {
		case certain && (!o.certain.seen || o.certain.announced):
			o.certain = now
		case !certain && f.Settles != nil && !o.later && (!o.certain.seen || o.certain.announced):
			o.certain = moment{seen: true, after: f.Settles.At.Sub(at), announced: true}
		}
	}
}

// answers records when a finding named each waiting pod of the mode, and returns where the
// report contradicts itself about a pod or is late.
func (o *outcome) answers(report finding.Report, m mode) (faults []string) {
	for _, w := range report.Waiting {
		if !strings.HasPrefix(w.Pod, m.name+"/") {
			continue
		}
		seen := o.waits[w.Pod]
		if seen == nil {
			seen = &wait{}
			o.waits[w.Pod] = seen
		}
		i := slices.IndexFunc(report.Findings, func(f finding.Finding) bool { return f.Severity.AtLeast(finding.Warning) && f.Names(w.Pod) })
		switch {
		case w.Verdict == finding.Stuck && i < 0:
			faults = append(faults, fmt.Sprintf("%s is stuck in %s, and no finding names it", w.Pod, w.Stage))
		case w.Verdict == finding.InFlight && i >= 0:
			faults = append(faults, fmt.Sprintf("%s still has time in %s, and %s is a warning about it", w.Pod, w.Stage, report.Findings[i].Check))
		}
		switch {
		case seen.answered:
		case i >= 0:
			seen.answered = true
			if !seen.due.IsZero() {
				seen.late = max(0, report.TakenAt.Sub(seen.due))
			}
			if seen.late > answeredWithin {
				faults = append(faults, fmt.Sprintf("%s was answered for %s after it was due", w.Pod, seen.late))
			}
		case w.DueAt != nil:
			seen.due = w.DueAt.Time
			if seen.due.Before(report.TakenAt.Time) {
				faults = append(faults, fmt.Sprintf("%s still has time in %s, but only until a moment that has passed", w.Pod, w.Stage))
			}
		}
	}
	return faults
}

// answered is how late the last of the mode's pods was named.
func (o *outcome) answered() string {
	if len(o.waits) == 0 {
		return "-"
	}
	late, some := time.Duration(0), false
	for _, w := range o.waits {
		if w.answered {
			late, some = max(late, w.late), true
		}
	}
	if !some {
		return "not due"
	}
	return fmt.Sprintf("%d s", int(late.Round(time.Second).Seconds()))
}

// complain reports what is missing for the mode, and logs what was seen of it.
func (o *outcome) complain(t *testing.T, m mode) {
	if o.since().IsZero() {
		return
	}
	if o.finding == nil {
		t.Errorf("%s: no finding %s", m.name, m.check)
	} else if !o.present && !m.heals {
		t.Errorf("%s: %s was found, and is no longer, though nothing has changed", m.name, m.check)
	} else if !o.certain.seen {
		t.Errorf("%s: %s was suspected, and never certain", m.name, m.check)
	}
	for _, check := range m.also {
		if !o.also[check] {
			t.Errorf("%s: its consequence %s was never found", m.name, check)
		}
	}
	if o.finding != nil {
		t.Logf("%s: %s, %s, named after %s, certain after %s, answered %s", m.name, m.check, o.finding.Severity,
			o.named.after.Round(time.Second), o.certain.after.Round(time.Second), o.answered())
	}
}
