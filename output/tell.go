package output

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	advised "github.com/volume-doctor/kubectl-volume-doctor/diagnose/step"
)

// telling is the content that every format shows for one cause, in this order: what is wrong, who
// is affected, why, whether to wait, what to do and what not to do.
type telling struct {
	finding.Finding
	what string // the headline
	sums string // the end of the headline, which counts volumes and pods; "" if there is nothing to count
	// first is the cause's own message if the headline speaks for several findings.
	first string
	said  string   // the message of a driver, a kubelet or a controller; "" if there is none
	who   string   // who is affected; "" if the headline already names the only pod
	where []string // the clusters, if the cause is shared by several
	why   string
	wait  string
	do    []step
	hits  []string // who is hit by the steps that delete or restart something
	dont  string
	also  string // "" if no other finding follows from the cause
	// refused is the reason why no repair may be made now; "" if none is refused.
	refused string
}

// step is one thing to do: a sentence, or a command on a line of its own. If whose is set, the step
// only says who wrote the other steps.
type step struct {
	text, command string
	whose         bool
}

// tell makes the telling of a cause. The tree is the cause followed by its consequences.
func tell(r *finding.Report, tree []finding.Finding) telling {
	f := tree[0]
	pods := r.WaitingFor(tree)
	t := telling{Finding: f, said: quoted(f.Said, r.TakenAt), wait: wait(r, f, pods), dont: f.Never, also: also(tree)}
	t.what, t.sums = headline(tree, pods)
	detail := f.Detail
	if t.what != f.Message {
		t.first, detail = f.Text(), ""
	}
	t.why = why(r, f, detail)
	t.who = who(r, tree, pods, t.first != "")
	t.refused = refused(f.Repair)
	t.do = append(besideWhy(f, r.TakenAt.Time, t.refused), likeOthers(tree, r.TakenAt.Time)...)
	t.hits = hits(f.Steps)
	if r.SavedIn != "" {
		t.asSaved(r)
	}
	return t
}

// asSaved marks the telling as quoted from a saved report. What its steps can hit is not taken from
// the file alone: the general warning of this program stands first.
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

// kinds returns the kinds of the finding's steps, and the kinds of what its other instructions
// delete or restart.
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

// attributed returns the text, marked as quoted if the report was read from a file.
func attributed(r *finding.Report, text string) string {
	if r.SavedIn == "" {
		return text
	}
	return "as " + r.SavedIn + " says: " + text
}

// headline returns the text that the findings of the tree share, or the message of the first, and
// the number of pods that wait, and of other pods that such findings are about.
func headline(tree []finding.Finding, pods []finding.Waiting) (text, sums string) {
	f, waiting := tree[0], len(pods)
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
			text = numbered(text, len(volumes))
		}
	}
	if waiting > 1 || waiting == 1 && len(shared) > 1 {
		if n := len(distinct(texts(alike(tree), func(f finding.Finding) string { return f.PersistentVolume }))); n > 1 && f.Subject.Kind != "Pod" {
			counts = append(counts, count(n, "volume"))
		}
		waits := podsWait(waiting)
		if n := alsoAffected(shared, pods); n > 0 {
			waits += fmt.Sprintf(", %d more are affected", n)
		}
		if len(counts) == 0 || len(strings.Fields(text+" "+counts[0]+" "+waits)) <= finding.MostWords {
			counts = append(counts, waits) // else "who" has them
		}
	} else if n := len(alike(tree)) - 1; n > 0 {
		counts = append(counts, fmt.Sprintf("%d more like it", n))
	}
	if len(counts) > 0 {
		return text, "; " + strings.Join(counts, ", ")
	}
	return text, ""
}

// alsoAffected counts the pods of the findings that do not wait, such as pods that no successor can
// replace.
func alsoAffected(findings []finding.Finding, waiting []finding.Waiting) int {
	pods := sets.New[string]()
	for _, f := range findings {
		pods.Insert(f.Pods...)
	}
	return pods.Delete(texts(waiting, func(w finding.Waiting) string { return w.Pod })...).Len()
}

// numbered puts the number of volumes before the nouns of a headline that stand for them. A node
// or a driver may have such a noun as a part of its name.
func numbered(headline string, volumes int) string {
	words := strings.Split(headline, " ")
	for i, word := range words {
		if noun := strings.ToLower(word); noun == "volumes" || noun == "disks" {
			words[i] = fmt.Sprintf("%d %s", volumes, noun)
		}
	}
	return strings.Join(words, " ")
}

// alike returns the cause and the findings that it represents, which differ from it only in names.
func alike(tree []finding.Finding) []finding.Finding {
	f := tree[0]
	return slices.DeleteFunc(slices.Clone(tree), func(other finding.Finding) bool {
		return other.Code != f.Code || other.Headline != "" || other.Fingerprint != f.Fingerprint && other.CausedBy != f.Fingerprint
	})
}

// likeOthers returns the step that says to do the same to the objects of the other findings
// that the cause stands for, as far as they are of its check. It returns no step if nothing is
// done to an object that only the cause names, or if one command line makes all the repairs.
func likeOthers(tree []finding.Finding, at time.Time) []step {
	f := tree[0]
	var done, commands []string
	for _, a := range finding.ActionsOf(f, at) {
		if a.Kind == finding.Look || a.Kind == finding.ApplyRepair && f.Repair.ApplyAll != "" {
			continue
		}
		done, commands = append(done, a.Sentence), append(commands, said(a.Command)...)
	}
	text := strings.Join(append(done, commands...), "\n")
	var others []finding.Finding
	for _, other := range tree[1:] {
		if other.Code == f.Code && (other.CausedBy == f.Fingerprint || other.Headline != "" && other.Headline == f.Headline) {
			others = append(others, other)
		}
	}
	for _, kind := range ownObjects {
		own := kind.of(f)
		if name := own[strings.LastIndex(own, "/")+1:]; name == "" || !finding.Names(text, name) {
			continue
		}
		names := distinct(slices.DeleteFunc(texts(others, kind.of), func(name string) bool { return name == "" || name == own }))
		if len(names) == 0 {
			continue
		}
		says := fmt.Sprintf("the same for %s %s", kind.noun, names[0])
		switch {
		case len(names) > 1 && kind.long:
			says = fmt.Sprintf("the same for %d other %ss", len(names), kind.noun)
		case len(names) > 1:
			says = fmt.Sprintf("the same for %ss %s", kind.noun, some(names))
		}
		if len(commands) > 0 {
			says += " (-o wide has each command)"
		}
		return []step{{text: says}}
	}
	return nil
}

// ownObjects are the objects of a finding to which something can be done.
var ownObjects = []struct {
	noun string
	long bool // some of their names would fill a line each
	of   func(finding.Finding) string
}{
	{"pod", false, func(f finding.Finding) string {
		if f.Subject.Kind != "Pod" {
			return ""
		}
		return f.Subject.Namespace + "/" + f.Subject.Name
	}},
	{"volume", false, func(f finding.Finding) string { return f.PersistentVolume }},
	{"VolumeAttachment", true, func(f finding.Finding) string { return f.VolumeAttachment }},
}

// longestWait names the pod that has waited longest, its node, and for how long; "" if no pod
// waits.
func longestWait(r *finding.Report, waiting []finding.Waiting) string {
	w := finding.LongestWait(waiting)
	text := w.Pod
	if w.Node != "" {
		text += " on " + w.Node
	}
	if w.Since != nil {
		text += ", waiting " + ago(r.TakenAt.Sub(w.Since.Time))
	}
	return text
}

// who names the workloads of the tree's pods, with the number of pods of each, and the pod that has
// waited longest. It is "" for a single pod, which the headline names already, unless the headline
// speaks for several findings.
func who(r *finding.Report, tree []finding.Finding, waiting []finding.Waiting, several bool) string {
	var pods, alone []string
	made, counted := map[string][]string{}, true
	for _, f := range tree {
		pods = append(pods, f.Pods...)
		if len(f.Workloads) == 0 {
			alone = append(alone, f.Pods...)
		}
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
	if len(made) > 0 {
		for _, pod := range alone {
			made[strings.Replace(pod, "/", "/Pod/", 1)] = []string{pod}
		}
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

// makers returns the workloads, given as namespace/Kind/name, sorted by kind. If counted, those
// with the most pods come first, with their number; a pod that nobody made stands for itself. A
// workload of the same kind as the one before it does not repeat the kind.
func makers(made map[string][]string, counted bool) []string {
	var lines []string
	last := ""
	for _, workload := range slices.SortedFunc(maps.Keys(made), func(a, b string) int {
		most := 0
		if counted {
			most = len(distinct(made[b])) - len(distinct(made[a]))
		}
		return cmp.Or(most, cmp.Compare(kindOf(a), kindOf(b)), cmp.Compare(a, b))
	}) {
		name := workload
		if parts := strings.SplitN(workload, "/", 3); len(parts) == 3 {
			name = parts[0] + "/" + parts[2]
		}
		if kind := kindOf(workload); kind != last {
			name, last = kind+" "+name, kind
		}
		switch n := len(distinct(made[workload])); {
		case !counted || last == "Pod":
		case len(lines) == 0:
			name += fmt.Sprintf(" (%s)", count(n, "pod"))
		default:
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

// wait answers whether waiting helps and why, or what ends the wait. It adds for how long the only
// pod that waits has waited, or else since when the finding holds.
func wait(r *finding.Report, f finding.Finding, pods []finding.Waiting) string {
	h := f.SelfHeals
	reason, _ := h.Reason()
	text := "no"
	switch {
	case h.Will && h.After != "":
		text, reason = "yes, it ends by itself within "+h.After, h.Because
	case h.Will:
		text, reason = "yes, it ends by itself", h.Because
	case f.Confidence == finding.Suspected && f.Settles != nil: // "why" says what makes it certain
		text, reason = "not known before "+f.Settles.At.UTC().Format(time.RFC3339), onlySuspected
	case f.Confidence == finding.Suspected:
		text, reason = "not known yet", onlySuspected
	case h.Unknown:
		text = "not known"
	}
	if reason != "" {
		text += ": " + reason
	}
	switch {
	case len(pods) == 1 && pods[0].Since != nil:
		text += fmt.Sprintf(" (waiting %s)", ago(r.TakenAt.Sub(pods[0].Since.Time)))
	case f.Since != nil:
		text += fmt.Sprintf(" (began %s ago)", ago(r.TakenAt.Sub(f.Since.Time)))
	case !h.Will && len(pods) < 2 && f.Severity.AtLeast(finding.Warning):
		text += " (age not known)"
	}
	return text
}

const onlySuspected = "only suspected"

// why joins the omitted cause of the finding, its detail, its own cause, and what else there is to
// say of the reason why waiting does not help.
func why(r *finding.Report, f finding.Finding, detail string) string {
	texts := slices.Compact(said(omittedCause(r, f), detail, causeText(f)))
	if !f.SelfHeals.Will && f.Confidence != finding.Suspected {
		_, more := f.SelfHeals.Reason()
		texts = append(texts, said(more)...)
	}
	return strings.Join(texts, "; ")
}

// causeText is the cause of the finding. When a suspected one becomes certain, "wait?" says.
func causeText(f finding.Finding) string {
	if f.Settles == nil {
		return f.Cause
	}
	return strings.Replace(f.Cause, "suspected, and certain "+f.Settles.Until(), "certain then if "+f.Settles.If, 1)
}

// refused returns the reason if a guard refuses the repair and no flag allows it; else "".
func refused(r *finding.Repair) string {
	if r == nil || r.Apply != "" {
		return ""
	}
	return r.Against()
}

// NotRepaired returns a line for each reason why --apply leaves the finding alone, and for each
// step that would allow the repair. These are the steps that every format shows.
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

// hits says who is hit by each step, except for steps whose own text says so.
func hits(steps []finding.Step) []string {
	var list []string
	for _, s := range steps {
		if !s.Told {
			list = append(list, s.Says)
		}
	}
	return list
}

// steps returns what a person has to do, in order, and why nothing is repaired now.
func steps(f finding.Finding, at time.Time, refused string) []step {
	var list []step
	if refused != "" && f.Confidence != finding.Suspected {
		list = append(list, step{text: nothingNow + refused})
	}
	joins := false // two pieces of advice without a command between them are one step, unless they end or restart something
	actions := finding.ActionsOf(f, at)
	for i, a := range actions {
		alone := a.Command != "" || a.When == finding.Later || !a.Advised || len(a.Hits) > 0 || i+1 < len(actions) && actions[i+1].Told
		switch {
		case a.Told:
		case joins && !alone:
			list[len(list)-1].text += "; " + a.Sentence
		default:
			list = append(list, step{text: when[a.When] + a.Sentence})
		}
		joins = !alone
		if a.Command != "" {
			list = append(list, step{command: a.Command})
		}
	}
	if refused != "" && f.Confidence == finding.Suspected { // only the repair has to wait, so the other steps come first
		later := len(list)
		for later > 0 && strings.HasPrefix(list[later-1].text, when[finding.Later]) {
			later--
		}
		list = slices.Insert(list, later, step{text: strings.TrimSuffix(nothingNow+refused+"; "+f.Repair.SafeOnce, "; ")})
	}
	return list
}

// nothingNow begins the step that says why a guard refuses the repair.
const nothingNow = "nothing with --apply now: "

// when is the prefix of a step that is not for now.
var when = map[finding.When]string{finding.Later: "later: "}

// besideWhy returns the steps for a place that shows "why" as well. That names the condition under
// which the cause becomes certain, so the step gives only the time.
func besideWhy(f finding.Finding, at time.Time, refused string) []step {
	list := steps(f, at, refused)
	if f.Confidence == finding.Suspected && f.Settles != nil && strings.HasPrefix(refused, "the cause is only suspected") {
		for i := range list {
			if strings.HasPrefix(list[i].text, nothingNow) {
				list[i].text = fmt.Sprintf("look again at %s; no --apply before that", f.Settles.At.UTC().Format(time.RFC3339))
			}
		}
	}
	return list
}

// byHand returns the commands that do the repair's work without its guards.
func byHand(f finding.Finding) []string {
	if f.Repair == nil || refused(f.Repair) != "" {
		return nil
	}
	return append(slices.Clone(f.Repair.Commands), f.AdviceCommands...)
}

// riskOf names the repair and its risk; "" if no repair can be made.
func riskOf(r *finding.Repair) string {
	if r == nil || refused(r) != "" {
		return ""
	}
	return fmt.Sprintf("%s (risk %s)", r.Kind, r.Risk)
}

// omittedCause names the cause of the finding if that cause was filtered out of the report.
func omittedCause(r *finding.Report, f finding.Finding) string {
	for _, c := range r.OmittedCauses {
		if c.Fingerprint == f.CausedBy {
			return fmt.Sprintf("it follows from %s %s on %s: %s", c.Code, c.Check, c.Subject, c.Message)
		}
	}
	return ""
}

// also counts the consequences of the cause, by check.
func also(tree []finding.Finding) string {
	name := func(f finding.Finding) string { return fmt.Sprintf("%s %s", f.Code, f.Check) }
	groups := finding.Alike(tree[1:], name)
	slices.SortFunc(groups, func(a, b []finding.Finding) int { return cmp.Compare(name(a[0]), name(b[0])) })
	return strings.Join(texts(groups, func(group []finding.Finding) string {
		return fmt.Sprintf("%d more %s", len(group), name(group[0]))
	}), ", ")
}

// plainLines returns a finding as labelled lines of plain text. Lines without content are left out.
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
	line("Why", why(r, f, "")) // the detail is part of the message
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

// some names the first few entries of the list and counts the rest.
func some(list []string) string {
	const few = 3
	if len(list) <= few+1 { // "and 1 more" would take as much room as the name
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
