package output

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	advised "github.com/volume-doctor/kubectl-volume-doctor/diagnose/step"
)

// telling is what every format says of one cause, and in this order: what is
// wrong, who suffers, why, whether to wait, what to do and what not to do.
type telling struct {
	finding.Finding
	what string // the headline
	sums string // its end, which counts volumes and pods; "" where there is nothing to count
	// first is the cause's own message where the headline is about all that share it.
	first string
	said  string   // what a driver, a kubelet or a controller said; "" where none said anything
	who   string   // "" where what names the only pod
	where []string // the clusters, where they are several
	why   string
	wait  string
	do    []step
	hits  []string // whom the steps hit that delete or restart something
	dont  string
	also  string // "" where no other code follows from it
	// refused is why no repair may be made now; "" where none is refused.
	refused string
}

// step is one thing to do: a sentence, or a command line that stands on a line of
// its own. One that says whose the others are is no step itself.
type step struct {
	text, command string
	whose         bool
}

// tell makes the telling of a cause and of what follows from it, the cause first.
func tell(r *finding.Report, tree []finding.Finding) telling {
	f := tree[0]
	pods := r.WaitingFor(tree)
	t := telling{Finding: f, said: quoted(f.Said, r.TakenAt), wait: wait(r, f), dont: f.Never, also: also(tree)}
	t.what, t.sums = headline(tree, len(pods))
	detail := f.Detail
	if t.what != f.Message {
		t.first, detail = f.Text(), ""
	}
	t.why = why(r, f, detail)
	t.who = who(r, tree, pods, t.first != "")
	t.refused = refused(f.Repair)
	t.do = besideWhy(f, r.TakenAt.Time, t.refused)
	t.hits = hits(f.Steps)
	if r.SavedIn != "" {
		t.asSaved(r)
	}
	return t
}

// asSaved makes the telling the word of the file that the report was read from. Whom the
// steps can hit is said by this program, too: it has not counted.
func (t *telling) asSaved(r *finding.Report) {
	said := t.hits
	t.hits = nil
	for _, kind := range t.kinds() {
		reach := advised.Of(kind)
		t.hits = append(t.hits, fmt.Sprintf("not counted by this run. %s: %s", reach.Whom, reach.Count))
	}
	t.hits = append(t.hits, texts(said, func(says string) string { return attributed(r, says) })...)
	if t.Withheld > 0 {
		t.do = append(t.do, step{text: fmt.Sprintf("%s of this file left out: only commands that a check may advise are shown", count(t.Withheld, "instruction"))})
	}
	if t.Unaimed {
		t.do = append(t.do, step{text: "the commands name no cluster, as the word of this file on that is left out: first see that your current context is the one that you mean"})
	}
	if len(t.do) > 0 {
		t.do = slices.Insert(t.do, 0, step{text: strings.TrimSpace(attributed(r, "")), whose: true})
	}
	t.what, t.wait = attributed(r, t.what), attributed(r, t.wait)
	if t.dont != "" {
		t.dont = attributed(r, t.dont)
	}
}

// kinds are the kinds of the steps that the finding has, and of what else it says to delete or
// restart.
func (t *telling) kinds() []advised.Kind {
	found := map[advised.Kind]bool{}
	for _, s := range t.Steps {
		found[s.Kind] = true
	}
	for _, s := range t.do {
		in, _ := advised.In(s.text)
		for _, kind := range in {
			found[kind] = true
		}
		if strings.HasPrefix(s.command, "kubectl delete pod/") {
			found[advised.DeletePod] = true
		}
	}
	var kinds []advised.Kind
	for _, reach := range advised.Reaches() {
		if found[reach.Kind] {
			kinds = append(kinds, reach.Kind)
		}
	}
	return kinds
}

// attributed is the text as the word of the file that the report was read from, if it was.
func attributed(r *finding.Report, text string) string {
	if r.SavedIn == "" {
		return text
	}
	return "as " + r.SavedIn + " says: " + text
}

// headline names what the findings of the tree share, if they share one cause, and
// counts the pods that wait.
func headline(tree []finding.Finding, waiting int) (text, sums string) {
	f := tree[0]
	text = f.Message
	var shared []finding.Finding
	for _, other := range tree {
		if f.Headline != "" && other.Headline == f.Headline {
			shared = append(shared, other)
		}
	}
	var counts []string
	if len(shared) > 1 {
		text = f.Headline
		volumes := distinct(texts(shared, func(other finding.Finding) string { return string(other.Volume) }))
		if len(volumes) > 1 {
			text = counted.ReplaceAllStringFunc(text, func(word string) string { return fmt.Sprintf("%d %s", len(volumes), strings.ToLower(word)) })
		}
	}
	if waiting > 1 || waiting == 1 && len(shared) > 1 {
		counts = append(counts, podsWait(waiting))
	} else if n := len(alike(tree)) - 1; n > 0 {
		counts = append(counts, fmt.Sprintf("%d more like it", n))
	}
	if len(counts) > 0 {
		return text, "; " + strings.Join(counts, ", ")
	}
	return text, ""
}

// counted is the word of a headline that what it is about is counted by.
var counted = regexp.MustCompile(`\b(?:[Vv]olumes|disks)\b`)

// alike are the cause and the findings for which it stands, as they differ in nothing but
// names.
func alike(tree []finding.Finding) []finding.Finding {
	f := tree[0]
	return slices.DeleteFunc(slices.Clone(tree), func(other finding.Finding) bool {
		return other.Code != f.Code || other.Headline != "" || other.Fingerprint != f.Fingerprint && other.CausedBy != f.Fingerprint
	})
}

// longestWait names the pod that has waited longest, where it does and for how long; "" where
// none waits.
func longestWait(r *finding.Report, waiting []finding.Waiting) string {
	w := finding.LongestWait(waiting)
	text := w.Pod
	if w.Node != "" {
		text += " on " + w.Node
	}
	if w.Since != nil {
		text += ", for " + ago(r.TakenAt.Sub(w.Since.Time))
	}
	return text
}

// who names what made the pods of the tree, with how many each made, and the pod that has
// waited longest. One pod alone stands in the headline, unless that is of several findings.
func who(r *finding.Report, tree []finding.Finding, waiting []finding.Waiting, several bool) string {
	var pods []string
	made, counted := map[string][]string{}, true
	for _, f := range tree {
		pods = append(pods, f.Pods...)
		counted = counted && len(f.Workloads) <= 1
		for _, workload := range f.Workloads {
			made[workload] = append(made[workload], f.Pods...)
		}
	}
	first := longestWait(r, waiting)
	switch pods = distinct(pods); {
	case len(pods) < 2 && len(alike(tree)) > 1:
		return "volumes " + some(distinct(texts(alike(tree), func(f finding.Finding) string { return f.PersistentVolume })))
	case len(pods) < 2 && len(waiting) < 2 && !several:
		return ""
	case len(pods) < 2:
		return first
	}
	text := some(makers(made, counted))
	if len(made) == 0 {
		text = fmt.Sprintf("%d pods: %s", len(pods), some(pods))
	} else if first == "" {
		first = pods[0]
	}
	if first == "" {
		return text
	}
	return text + "; first " + first
}

// makers are the workloads, as namespace/Kind/name, by kind and with how many pods
// each made, where that is known. A kind stands before the first of its workloads.
func makers(made map[string][]string, counted bool) []string {
	var lines []string
	last := ""
	for _, workload := range slices.SortedFunc(maps.Keys(made), func(a, b string) int {
		return cmp.Or(cmp.Compare(kindOf(a), kindOf(b)), cmp.Compare(a, b))
	}) {
		name := workload
		if parts := strings.SplitN(workload, "/", 3); len(parts) == 3 {
			name = parts[0] + "/" + parts[2]
		}
		if kind := kindOf(workload); kind != last {
			name, last = kind+" "+name, kind
		}
		if n := len(distinct(made[workload])); counted && len(lines) == 0 {
			name += fmt.Sprintf(" (%s)", count(n, "pod"))
		} else if counted {
			name += fmt.Sprintf(" (%d)", n)
		}
		lines = append(lines, name)
	}
	return lines
}

func kindOf(workload string) string {
	parts := strings.SplitN(workload, "/", 3)
	if len(parts) < 3 {
		return ""
	}
	return parts[1]
}

// wait says whether waiting helps, and what ends it.
func wait(r *finding.Report, f finding.Finding) string {
	text := "no"
	switch h := f.SelfHeals; {
	case f.Confidence == finding.Suspected && !h.Will:
		text = "not known yet" // "why" has when it is
	case h.Unknown:
		text = "not known"
	case h.Will && h.After != "":
		text = "yes, it ends by itself in " + h.After
	case h.Will:
		text = "yes, it ends by itself"
	}
	if f.Since != nil {
		text += "; it began " + ago(r.TakenAt.Sub(f.Since.Time)) + " ago"
	}
	if f.SelfHeals.Will && f.SelfHeals.Because != "" {
		text += ": " + f.SelfHeals.Because
	}
	return text
}

// why is what the finding follows from if that was not asked for, its detail, its cause, and
// why waiting does not end it.
func why(r *finding.Report, f finding.Finding, detail string) string {
	texts := slices.Compact(said(omittedCause(r, f), detail, f.Cause))
	if !f.SelfHeals.Will && f.SelfHeals.Because != "" && f.Confidence != finding.Suspected {
		texts = append(texts, f.SelfHeals.Because)
	}
	return strings.Join(texts, "; ")
}

// refused is the reason why a guard refuses the repair and no flag lifts that.
func refused(r *finding.Repair) string {
	if r == nil || r.Apply != "" {
		return ""
	}
	return r.Against()
}

// NotRepaired says, a line each, why --apply leaves the finding alone and what would
// let it be repaired: what every format says is to be done about it.
func NotRepaired(f finding.Finding) []string {
	var lines []string
	for _, s := range steps(f, time.Time{}, refused(f.Repair)) {
		lines = append(lines, Safe(s.text+s.command))
	}
	for _, says := range hits(f.Steps) {
		lines = append(lines, Safe(says))
	}
	return lines
}

// hits are whom the steps hit, but for the steps whose advice says it.
func hits(steps []finding.Step) []string {
	var list []string
	for _, s := range steps {
		if !s.Told {
			list = append(list, s.Says)
		}
	}
	return list
}

// steps are what a person does, in their order, and why nothing is repaired now.
func steps(f finding.Finding, at time.Time, refused string) []step {
	var list []step
	if refused != "" && f.Confidence != finding.Suspected {
		list = append(list, step{text: "nothing with --apply now: " + refused})
	}
	joins := false // two actions of the advice without a command between them are one step
	for _, a := range finding.ActionsOf(f, at) {
		switch {
		case a.Told:
		case joins && a.When != finding.Later && a.Advised && a.Command == "":
			list[len(list)-1].text += "; " + a.Sentence
		default:
			list = append(list, step{text: when[a.When] + a.Sentence})
		}
		joins = a.Command == "" && a.Advised && a.When != finding.Later
		if a.Command != "" {
			list = append(list, step{command: a.Command})
		}
	}
	if refused != "" && f.Confidence == finding.Suspected { // it is too early for the repair, and not for the rest
		list = append(list, step{text: strings.TrimSuffix("nothing with --apply now: "+refused+"; "+f.Repair.SafeOnce, "; ")})
	}
	return list
}

// when is said of what is to be done another time.
var when = map[finding.When]string{finding.Later: "later: "}

// besideWhy are the steps where "why" stands below them, which has what has to be so until
// the cause is certain.
func besideWhy(f finding.Finding, at time.Time, refused string) []step {
	list := steps(f, at, refused)
	if f.Confidence == finding.Suspected && f.Settles != nil && strings.HasPrefix(refused, "the cause is only suspected") {
		list[len(list)-1].text = "nothing with --apply before " + f.Settles.At.UTC().Format(time.RFC3339)
	}
	return list
}

// byHand are commands that do what the repair does, without its guards.
func byHand(f finding.Finding) []string {
	if f.Repair == nil || refused(f.Repair) != "" {
		return nil
	}
	return append(slices.Clone(f.Repair.Commands), f.AdviceCommands...)
}

// riskOf says what may go wrong with a repair that can be made; "" where none can.
func riskOf(r *finding.Repair) string {
	if r == nil || refused(r) != "" {
		return ""
	}
	return fmt.Sprintf("%s (risk %s)", r.Kind, r.Risk)
}

// omittedCause names what the finding follows from, if it was not asked for.
func omittedCause(r *finding.Report, f finding.Finding) string {
	for _, c := range r.OmittedCauses {
		if c.Fingerprint == f.CausedBy {
			return fmt.Sprintf("it follows from %s %s on %s: %s", c.Code, c.Check, c.Subject, c.Message)
		}
	}
	return ""
}

// also counts what follows from the cause, by check.
func also(tree []finding.Finding) string {
	name := func(f finding.Finding) string { return fmt.Sprintf("%s %s", f.Code, f.Check) }
	groups := finding.Alike(tree[1:], name)
	slices.SortFunc(groups, func(a, b []finding.Finding) int { return cmp.Compare(name(a[0]), name(b[0])) })
	return strings.Join(texts(groups, func(group []finding.Finding) string {
		return fmt.Sprintf("%d more %s", len(group), name(group[0]))
	}), ", ")
}

// plainLines tell a finding to formats that show plain text: those labelled lines that
// have something to say.
func plainLines(r *finding.Report, f finding.Finding) []string {
	t := tell(r, []finding.Finding{f})
	var lines []string
	line := func(label, text string) {
		if text != "" {
			lines = append(lines, label+": "+text)
		}
	}
	line("Affects", strings.Join(f.Pods, ", "))
	for _, s := range t.do {
		line("Do", s.text)
		line("Command", s.command)
	}
	for _, text := range t.hits {
		line("Hits", text)
	}
	line("Do not", t.dont)
	line("Wait?", t.wait)
	line("Why", why(r, f, "")) // the message has the detail
	line("Said", t.said)
	line("Repair", riskOf(f.Repair))
	for _, e := range f.Evidence {
		line("Proof", fmt.Sprintf("%s %s: %s", e.Object, e.Field, e.Value))
	}
	return lines
}

func suspected(f finding.Finding) string {
	if f.Confidence == finding.Suspected {
		return " (suspected)"
	}
	return ""
}

func distinct(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}

// some names the first few of the list and says how many more there are.
func some(list []string) string {
	const few = 3
	if len(list) <= few+1 { // "and 1 more" would take the room of its name
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:few], ", "), len(list)-few)
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
