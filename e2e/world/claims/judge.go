package claims

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
)

// Act is something that somebody did to the world, or a fault that began or was cured.
type Act struct {
	At   time.Time
	What string
	// Shown is when the first object could show it. Until then nobody can know better.
	Shown time.Time
}

// Record is all that there is of a world that has ended.
type Record struct {
	Began, Ended time.Time
	Looks        []Look
	Pods         []Pod
	Acts         []Act
	// Stopped are the times in which a node's kubelet did not run: what is on it waits for
	// the kubelet, and for no volume.
	Stopped map[string][]Span
	// GivenUp is when each node was seen not to be Ready any more, or to be gone: some 50 s after
	// its kubelet has fallen silent.
	GivenUp map[string][]time.Time
	// Drained are the pods that a drain of the history has evicted, namespace/name.
	Drained []string
	// Causes are what was wrong, and when.
	Causes []Cause
	// Tries are the calls of the driver, in the order of their ends, and Cures what was wrong
	// with it until then. Breaks are what was wrong with it from then on.
	Tries, Cures, Breaks []Try
}

// Try is a call of the driver, or all of those that a fault was about: then the volume, its
// handle, or the node may be "".
type Try struct {
	At                 time.Time
	Call, Volume, Node string
	Failed             bool
}

// of reports whether the call is one of those.
func (t Try) of(all Try) bool {
	return t.Call == all.Call && (all.Volume == "" || t.Volume == all.Volume) && (all.Node == "" || t.Node == all.Node)
}

// Span is a time; the end is zero where it never ended.
type Span struct{ From, To time.Time }

// covers reports whether the span has that moment.
func (s Span) covers(when time.Time) bool {
	return !when.Before(s.From) && (s.To.IsZero() || when.Before(s.To))
}

// Cause is something that was wrong with the world for a while.
type Cause struct {
	Span
	// Kind is what it was, such as "driver refuses the detach".
	Kind string
	// Volume, its handle, and Node are what it was about, where it was not about all. Claim is the
	// claim of what was about whichever volume the claim leads to.
	Volume, Node, Claim string
}

// untouched is the end of the time, from then on, in which nobody acted.
func (r *Record) untouched(from time.Time) time.Time {
	for _, a := range r.Acts {
		if !a.At.Before(from) {
			return a.At
		}
	}
	return r.Ended
}

// calm reports whether nobody has done anything that could show between the two moments, no
// call of the driver that had failed has succeeded, and none was the first to fail as it was told to.
func (r *Record) calm(from, to time.Time) bool {
	failed := map[Try]bool{}
	for _, t := range r.Tries {
		key := Try{Call: t.Call, Volume: t.Volume, Node: t.Node}
		if failed[key] && !t.Failed && t.At.After(from) && !t.At.After(to) {
			return false
		}
		failed[key] = t.Failed
	}
	for _, b := range r.Breaks {
		first := slices.IndexFunc(r.Tries, func(t Try) bool { return t.Failed && t.of(b) && t.At.After(b.At) })
		if first >= 0 && r.Tries[first].At.After(from) && !r.Tries[first].At.After(to) {
			return false
		}
	}
	return !slices.ContainsFunc(r.Acts, func(a Act) bool { return (!a.At.Before(from) || a.Shown.After(from)) && !a.At.After(to) })
}

// unshown reports whether somebody has done something by then that no object can show yet:
// that a driver works again is noticed when it is asked for the volume again. The volume is
// its unique name; "" is any.
func (r *Record) unshown(when time.Time, volume string) bool {
	if slices.ContainsFunc(r.Acts, func(a Act) bool { return !a.At.After(when) && a.Shown.After(when) }) {
		return true
	}
	_, handle, _ := strings.Cut(volume, "^")
	for _, cure := range r.Cures {
		if cure.At.After(when) || handle != "" && cure.Volume != "" && cure.Volume != handle {
			continue
		}
		about := cure
		about.Volume = cmp.Or(cure.Volume, handle)
		last := map[Try]Try{}
		for _, t := range r.Tries {
			if t.of(about) && !t.At.After(when) {
				last[Try{Volume: t.Volume, Node: t.Node}] = t
			}
		}
		for _, t := range last {
			if t.Failed && !t.At.After(cure.At) || !t.Failed && !t.At.Before(cure.At) && when.Sub(t.At) < reports {
				return true
			}
		}
	}
	return false
}

// stopped reports whether the node's kubelet did not run at that moment.
func (r *Record) stopped(node string, when time.Time) bool {
	return slices.ContainsFunc(r.Stopped[node], func(s Span) bool { return s.covers(when) })
}

// lost reports whether the actor is a part of a node that was seen to be lost between the two
// moments: nobody could tell before that it would not act, and then another one has to.
func (r *Record) lost(actor string, from, to time.Time) bool {
	node := actor[strings.LastIndex(actor, " ")+1:]
	return slices.ContainsFunc(r.GivenUp[node], func(t time.Time) bool { return t.After(from) && !t.After(to) })
}

// at is the pod of the name at that time; nil where there is none.
func (r *Record) at(name string, when time.Time) *Pod {
	for i := range r.Pods {
		if p := &r.Pods[i]; p.Name == name && !p.Created.After(when) && !is(p.Gone, when) {
			return p
		}
	}
	return nil
}

// False is a claim that the world contradicts.
type False struct {
	// Judge says what kind of claim it is.
	Judge string `json:"judge"`
	// Code is the code of the finding; "" where it is none's.
	Code string `json:"code,omitempty"`
	// At is the time in the world of the look.
	At time.Duration `json:"at"`
	// Claim is what was said, and Truth what happened.
	Claim string `json:"claim"`
	Truth string `json:"truth"`
}

func (f False) String() string {
	return fmt.Sprintf("%s at %02d:%02d: %s: %s; but %s", f.Judge, int(f.At.Minutes()), int(f.At.Seconds())%60, f.Code, f.Claim, f.Truth)
}

// Key tells the kinds of false claims apart: a history that shrinks keeps its own.
func (f False) Key() string { return f.Judge + " " + f.Code }

// Tally counts what was judged.
type Tally struct {
	// Judged are the claims, by their judge.
	Judged map[string]int `json:"judged"`
	// Exempt are those that nothing can be said of, by judge and reason.
	Exempt map[string]int `json:"exempt"`
	// Codes are the findings seen, each once in a history, by code and confidence.
	Codes map[string]int `json:"codes"`
	False []False        `json:"false"`
}

// NewTally is an empty one.
func NewTally() *Tally {
	return &Tally{Judged: map[string]int{}, Exempt: map[string]int{}, Codes: map[string]int{}}
}

// Add adds the counts of another one.
func (t *Tally) Add(other *Tally) {
	for _, m := range []struct{ to, from map[string]int }{{t.Judged, other.Judged}, {t.Exempt, other.Exempt}, {t.Codes, other.Codes}} {
		for k, n := range m.from {
			m.to[k] += n
		}
	}
	t.False = append(t.False, other.False...)
}

// The tolerances: the tool's times are whole seconds, its looks 15 s apart, and the world's
// parts take a few seconds for what follows.
const (
	slack = 60 * time.Second
	// unmentioned is how long a pod may wait, after a look that has no word about it, before
	// that look was wrong: less than the usual time of the shortest stage.
	unmentioned = 3 * time.Minute
	// reports is how long the success of a call may take to stand in an object: a kubelet
	// updates its node's status every ten seconds.
	reports = 12 * time.Second
	// moves is how much later a wait may be due than was said, when an object has come that it
	// is counted from: an attach that the controller begins anew has a minute to fail.
	moves = facts.RefusalGrace
	// handsOver is the same where another part has to act since then: a driver may take that
	// long without an answer.
	handsOver = facts.NoAnswerGrace
	// begun is how long a wait may be younger than the lists of a look.
	begun = 20 * time.Second
)

// Judge judges every claim of every look.
func Judge(r *Record) *Tally {
	j := &judging{Record: r, Tally: NewTally(), told: map[string]bool{}}
	codes := map[string]bool{}
	for i, l := range r.Looks {
		j.silence(l)
		j.exits(i)
		for _, w := range l.Report.Waiting {
			j.waiting(i, w)
			j.actor(l, w)
		}
		for _, f := range l.Report.Findings {
			codes[string(f.Code)+" "+confidence(f)] = true
			j.healing(i, f)
			j.cause(l, f)
		}
	}
	for c := range codes {
		j.Codes[c]++
	}
	return j.Tally
}

func confidence(f finding.Finding) string {
	if f.Confidence == "" {
		return "certain"
	}
	return string(f.Confidence)
}

// creates begins the name of who has to make what a pod lacks.
const creates = "whoever is to create "

// lostSince is why a claim is not judged that counts on a part of a node.
const lostSince = "the node that had to act was seen to be lost since"

// judging is the work on one record.
type judging struct {
	*Record
	*Tally
	// told are the false claims that an earlier look has made in the same words.
	told map[string]bool
}

func (j *judging) false(judge, code string, l Look, claim, truth string) {
	key := judge + code + claim
	if j.told[key] {
		return
	}
	j.told[key] = true
	j.False = append(j.False, False{judge, code, l.At.Sub(j.Began), claim, truth})
}

func (j *judging) exempt(judge, why string) { j.Exempt[judge+": "+why]++ }

// since is the time of the world at that moment.
func (j *judging) since(when time.Time) string {
	d := when.Sub(j.Began)
	return fmt.Sprintf("%02d:%02d", int(d.Minutes()), int(d.Seconds())%60)
}

// silence judges that nothing waits but what the report names.
func (j *judging) silence(l Look) {
	const judge = "nothing is wrong"
	for i := range j.Pods {
		p := &j.Pods[i]
		if len(p.Claims) == 0 || !p.Waits(l.At) || !p.Waits(l.At.Add(-begun)) {
			continue
		}
		j.Judged[judge]++
		if l.Waiting(p.Name) != nil || slices.ContainsFunc(l.Report.Findings, func(f finding.Finding) bool { return f.Names(p.Name) }) {
			continue
		}
		end := l.At.Add(unmentioned)
		switch {
		case j.stopped(p.Node, l.At):
			j.exempt(judge, "the node's kubelet does not run")
		case j.untouched(l.At).Before(end):
			j.exempt(judge, "somebody acted")
		case p.Waits(end):
			j.false(judge, "", l, fmt.Sprintf("exit %d, and no word about %s", l.Exit(), p.Name), fmt.Sprintf("it still waits at %s", j.since(end)))
		}
	}
}

// exits judges the exit code: a stuck pod has a finding that makes it 1, and it does not go
// back to 0 while the same pods wait and nobody has acted.
func (j *judging) exits(i int) {
	l := j.Looks[i]
	j.Judged["exit code"]++
	if len(l.Report.Gaps) > 0 {
		j.false("exit code", "", l, fmt.Sprintf("gaps %v", l.Report.Gaps), "every kind could be read")
	}
	for _, w := range l.Report.Waiting {
		if w.Verdict == finding.Stuck && !slices.ContainsFunc(l.Report.Findings, func(f finding.Finding) bool { return f.Names(w.Pod) && f.Severity.AtLeast(finding.Warning) }) {
			j.false("exit code", "", l, w.Pod+" is stuck", "no finding of warning or worse names it")
		}
	}
	if i == 0 || l.Exit() >= j.Looks[i-1].Exit() || !j.calm(j.Looks[i-1].At, l.ended()) {
		return
	}
	var same []string
	lost := 0
	for _, w := range j.Looks[i-1].Report.Waiting {
		now := l.Waiting(w.Pod)
		if p := j.at(w.Pod, l.At); w.Verdict == finding.Stuck && p == j.at(w.Pod, j.Looks[i-1].At) && p.Waits(l.ended()) && !j.stopped(p.Node, l.At) && (now == nil || now.Stage == w.Stage) {
			if now != nil && strings.HasPrefix(w.Actor, creates) && !strings.HasPrefix(now.Actor, creates) {
				j.exempt("exit code", "what a pod lacked has been made")
				continue
			}
			same = append(same, w.Pod)
			if j.lost(w.Actor, j.Looks[i-1].At, l.ended()) {
				lost++
			}
		}
	}
	switch {
	case len(same) == 0:
	case lost == len(same):
		j.exempt("exit code", lostSince)
	case j.gone(same, j.Looks[i-1].At, l.ended()):
		j.exempt("exit code", "another pod with a claim of the one that waits has gone")
	case l.attachments() != j.Looks[i-1].attachments():
		j.exempt("exit code", "a VolumeAttachment has come or gone, is attached, or is being deleted now")
	default:
		j.false("exit code", "", l, fmt.Sprintf("exit %d after exit %d", l.Exit(), j.Looks[i-1].Exit()), fmt.Sprintf("%s was stuck then, and waits on in the same stage", strings.Join(same, ", ")))
	}
}

// gone reports whether a pod with a claim of one of the named pods has gone between the two moments.
func (r *Record) gone(names []string, from, to time.Time) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		waits := r.at(name, to)
		return slices.ContainsFunc(r.Pods, func(p Pod) bool {
			return p.Gone.After(from) && !p.Gone.After(to) && slices.ContainsFunc(p.Claims, func(claim string) bool { return slices.Contains(waits.Claims, claim) })
		})
	})
}

// waiting judges an entry about a pod that waits.
func (j *judging) waiting(i int, w finding.Waiting) {
	l := j.Looks[i]
	if w.Verdict != finding.InFlight || w.DueAt == nil {
		return
	}
	const judge = "in flight"
	j.Judged[judge]++
	said := fmt.Sprintf("%s is in flight, stage %s, due at %s", w.Pod, w.Stage, j.since(w.DueAt.Time))
	for _, f := range l.Report.Findings {
		if f.Stays() && f.Severity.AtLeast(finding.Warning) && slices.Contains(f.Pods, w.Pod) {
			j.false(judge, string(f.Code), l, said, string(f.Code)+" says that its cause does not heal by itself")
		}
	}
	if i > 0 {
		before := j.Looks[i-1]
		if b := before.Waiting(w.Pod); b != nil && b.Verdict == finding.Stuck && b.Volume == w.Volume && b.Stage == w.Stage && b.Actor == w.Actor && j.at(w.Pod, before.At) == j.at(w.Pod, l.At) && j.calm(before.At, l.ended()) {
			j.false(judge, "", l, said, "it was stuck for the same volume in that stage, with that actor, at the look before, and nobody has acted")
		}
	}
	for _, later := range j.Looks[i+1:] {
		if later.At.Before(w.DueAt.Time) {
			continue
		}
		if !j.calm(l.At, later.ended()) {
			j.exempt(judge, "somebody acted")
			return
		}
		p := j.at(w.Pod, later.At)
		if now := later.Waiting(w.Pod); now != nil && now.Verdict == finding.InFlight && now.Stage == w.Stage && p.Waits(l.At) && p.Waits(later.At) {
			if j.lost(w.Actor, l.At, later.ended()) {
				j.exempt(judge, lostSince)
				return
			}
			if j.came(p, l.At, later.At) {
				j.exempt(judge, "another of its volumes was due then, and has come")
				return
			}
			truth := "it is in flight in that stage at " + j.since(later.At)
			if now.DueAt != nil {
				switch later := now.DueAt.Sub(w.DueAt.Time); {
				case later <= moves:
					j.exempt(judge, "its time moved by at most "+moves.String())
					return
				case now.Actor != w.Actor && later <= handsOver:
					j.exempt(judge, "another part has to act, and its time moved by at most "+handsOver.String())
					return
				}
				truth += ", due at " + j.since(now.DueAt.Time)
			}
			j.false(judge, "", l, said, truth)
		}
		return
	}
	j.exempt(judge, "the world ended")
}

// came reports whether the pod has several volumes, and the driver has attached or mounted one on its
// node between the two moments, or had mounted one before, which no object shows: the wait was due when
// the first of them was.
func (j *judging) came(p *Pod, from, to time.Time) bool {
	return len(p.Claims) > 1 && slices.ContainsFunc(j.Tries, func(t Try) bool {
		is := func(kind string) bool { return strings.HasPrefix(kind, t.Call+" ") }
		since := from
		if slices.ContainsFunc(mounts, is) {
			since = p.Scheduled
		} else if !slices.ContainsFunc(attaches, is) {
			return false
		}
		return !t.Failed && t.Node == p.Node && t.At.After(since) && !t.At.After(to)
	})
}

// healing judges what a finding says of healing.
func (j *judging) healing(i int, f finding.Finding) {
	l := j.Looks[i]
	if f.SelfHeals.Will {
		j.heals(i, f)
		return
	}
	const judge = "does not heal"
	if !f.Stays() {
		return
	}
	end := j.untouched(l.At)
	claim := fmt.Sprintf("%s certain, does not heal: %s", f.Code, f.Message)
	var waits []*Pod
	for _, name := range f.About() {
		if p := j.at(name, l.At); p.Waits(l.At) {
			waits = append(waits, p)
		}
	}
	if len(waits) == 0 {
		j.stands(i, f, claim)
		return
	}
	j.Judged[judge]++
	if j.unshown(l.At, string(f.Volume)) {
		j.exempt(judge, "what had been done was not to be seen yet")
		return
	}
	var served []string
	for _, p := range waits {
		if s, ran := p.Served(l.At); !s.IsZero() && s.Before(end) && s.After(l.At.Add(2*time.Second)) && (ran || is(p.Deleted, l.At)) {
			served = append(served, fmt.Sprintf("%s at %s", p.Name, j.since(s)))
		}
	}
	switch {
	case len(served) == len(waits):
		j.false(judge, string(f.Code), l, claim, "left alone, it healed: "+strings.Join(served, ", "))
	case !end.Equal(j.Ended):
		j.exempt(judge, "somebody acted")
	}
}

// stands judges a finding that does not heal and for which no pod waits: it stands, or
// another one about the same does, unless somebody has just acted or does.
func (j *judging) stands(i int, f finding.Finding, claim string) {
	const judge = "stands"
	l := j.Looks[i]
	j.Judged[judge]++
	if j.unshown(l.At, string(f.Volume)) {
		j.exempt(judge, "what had been done was not to be seen yet")
		return
	}
	for _, later := range j.Looks[i+1:] {
		acted := func(a Act) bool { return a.At.After(l.At.Add(-slack)) && !a.At.After(later.ended()) } // it may end it yet
		if slices.ContainsFunc(j.Acts, acted) || !j.calm(l.At, later.ended()) {
			break
		}
		if !slices.ContainsFunc(later.Report.Findings, func(g finding.Finding) bool {
			return g.Fingerprint == f.Fingerprint || f.Subject.Name != "" && g.Subject == f.Subject || f.Volume != "" && g.Volume == f.Volume
		}) {
			j.false(judge, string(f.Code), l, claim, "nobody had acted, and it is gone at "+j.since(later.At))
			return
		}
	}
}

// heals judges a finding that heals by itself within a time.
func (j *judging) heals(i int, f finding.Finding) {
	const judge = "heals"
	l := j.Looks[i]
	within, err := time.ParseDuration(f.SelfHeals.After)
	if err != nil {
		j.exempt(judge, "without a time")
		return
	}
	j.Judged[judge]++
	due := l.At.Add(within + slack)
	switch end := j.untouched(l.At); {
	case end.Before(due) && end.Equal(j.Ended):
		j.exempt(judge, "the world ended")
		return
	case end.Before(due):
		j.exempt(judge, "somebody acted")
		return
	}
	for _, later := range j.Looks[i+1:] {
		if later.At.Before(due) {
			continue
		}
		if slices.ContainsFunc(later.Report.Findings, func(g finding.Finding) bool { return g.Fingerprint == f.Fingerprint }) {
			j.false(judge, string(f.Code), l, fmt.Sprintf("%s heals within %s: %s", f.Code, f.SelfHeals.After, f.Message), "it is there at "+j.since(later.At))
		}
		return
	}
}
