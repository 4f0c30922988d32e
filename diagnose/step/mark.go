package step

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// An advice is a text in which a mark stands for each thing that is deleted, restarted or
// waited for. A mark is a kind and, where the finding does not name the object, the object:
// "fix what it names; {delete-pod default/web-0}: its successor gets a new mount". The author
// of an advice names the action only: package facts makes its sentence, its command and the
// list of those whom it hits. "; " separates clauses, and each clause with a mark begins a new
// action.

// The marks of clauses that delete and restart nothing. Do begins an action of its own, under
// which its command stands; it says nothing about undo. Check is a look that changes nothing;
// ReadLog is a look at the log of the driver's pod; Later is what to do before the next time.
// Place begins no action: it stands in a sentence for the place from which the driver makes the call,
// which is the node or, as {place controller}, the pod of its controller.
// Wait is a wait: PastWait removes it, and with it the condition If of the next action.
const (
	Do      Kind = "do"
	Check   Kind = "check"
	ReadLog Kind = "read-log"
	Place   Kind = "place"
	Later   Kind = "later"
	Wait    Kind = "wait"
	If      Kind = "if"
)

// The marks of actions whose kind is not in Reaches. None of them begins an action. Each stands
// before the verb of its clause, and says of that clause:
//
//	Change  it makes or corrects something, which can be taken back: {change} create the claim
//	Reversible  it moves, ends or keeps away pods, and can be undone, which the clause says:
//	        {reversible} cordon node n1
//	Final   it cannot be undone, as it deletes an object, ends a process or detaches a disk, or
//	        because a field that cannot be changed needs a new object: {final} recreate the claim
//	Fix     it changes something that only a message or a log names, so that nobody knows whether
//	        it can be undone: {fix} fix what the driver reports
//	Note    it changes nothing, and unlike a Check it keeps its place among the steps
//
// In "add a node, or {reversible} uncordon n1" the mark counts for both alternatives: they are alike.
const (
	Change     Kind = "change"
	Reversible Kind = "reversible"
	Final      Kind = "final"
	Fix        Kind = "fix"
	Note       Kind = "note"
)

func (k Kind) begins() bool {
	return k != Place && k != Change && k != Reversible && k != Final && k != Fix && k != Note
}

// The clauses that say whether a change can be undone.
const (
	ForGood      = "cannot be undone"
	PodsStayAway = "can be undone; ended pods stay away"
	ForNow       = "can be undone"
)

// undoes lists these clauses, the worst last.
var undoes = []string{ForNow, PodsStayAway, ForGood}

// Undo is a clause: whether an action of the kind can be undone; "" where it changes nothing, or
// nobody knows.
func (k Kind) Undo() string {
	switch k {
	case Do, Check, ReadLog, Place, Later, Wait, If, Fix, Note, Change:
		return ""
	case Reversible:
		return ForNow
	case TaintNode, DrainNode, PowerOff:
		return PodsStayAway
	default: // what has ended does not go on, nor does what is deleted return
		return ForGood
	}
}

// Of is the mark of an action of the kind. Without objects, the finding names them.
func (k Kind) Of(objects ...string) string {
	if len(objects) == 0 {
		return "{" + string(k) + "}"
	}
	return "{" + string(k) + " " + strings.Join(objects, ",") + "}"
}

// Mark is an action that an advice names.
type Mark struct {
	Kind   Kind
	Object string // "" where the finding names it
}

var (
	marks     = regexp.MustCompile(`\{([a-z-]+)(?: ([^{}]*))?\}`)
	spaced    = regexp.MustCompile(marks.String() + `( ?)`)
	clauses   = regexp.MustCompile(`; |\. `)
	condition = regexp.MustCompile(`\{` + string(If) + ` [^{}]*\}`)
	leaning   = regexp.MustCompile(`(?i)^(?:and )?(?:only )?then `)
)

// Marks returns the marks of the text, in its order.
func Marks(text string) []Mark {
	var list []Mark
	for _, m := range marks.FindAllStringSubmatch(text, -1) {
		list = append(list, Mark{Kind(m[1]), m[2]})
	}
	return list
}

// Kinds returns the kinds of what the text deletes or restarts, in the order of Reaches.
func Kinds(text string) []Kind {
	found := Marks(text)
	var kinds []Kind
	for _, r := range Reaches() {
		if slices.ContainsFunc(found, func(m Mark) bool { return m.Kind == r.Kind }) {
			kinds = append(kinds, r.Kind)
		}
	}
	return kinds
}

// Actions splits an advice into its actions.
func Actions(text string) []string {
	var parts []string
	begin := 0
	cut := func(end int) {
		if part := strings.TrimSpace(text[begin:end]); part != "" {
			parts = append(parts, leaning.ReplaceAllString(part, ""))
		}
		begin = end
	}
	from := 0
	for _, at := range append(clauses.FindAllStringIndex(text, -1), []int{len(text), len(text)}) {
		if from > begin && slices.ContainsFunc(Marks(text[from:at[0]]), func(m Mark) bool { return m.Kind.begins() }) {
			cut(from)
		}
		from = at[1]
	}
	cut(len(text))
	for i, part := range parts {
		parts[i] = strings.TrimRight(part, ";. ")
	}
	return parts
}

// PastWait is the advice for a time after the usual end of the wait: without the wait, and
// without the condition of what follows. An advice that consists only of a wait stays.
func PastWait(text string) string {
	var parts []string
	past := false // the action before was a wait
	for _, part := range Actions(text) {
		if slices.Contains(Marks(part), Mark{Kind: Wait}) {
			past = true
			continue
		}
		if past {
			part = condition.ReplaceAllLiteralString(part, If.Of("")) // the mark still begins an action
		}
		parts, past = append(parts, part), false
	}
	if len(parts) == 0 {
		return text
	}
	return strings.Join(parts, "; ")
}

// Expand replaces each mark by the result of says. Where that is "", the space after the mark
// goes as well.
func Expand(text string, says func(Mark) string) string {
	said, _ := expand(text, says)
	return strings.TrimSpace(said)
}

// Say is Expand, and adds to each clause that advises a change whether that can be undone.
func Say(text string, says func(Mark) string) string {
	said, changes := expand(text, says)
	for i := len(changes) - 1; i >= 0; i-- {
		end, worst := clauseEnd(said, changes[i].from), changes[i].undo
		for ; i > 0 && clauseEnd(said, changes[i-1].from) == end; i-- {
			worst = max(worst, changes[i-1].undo)
		}
		said = Enclosed(said, end, undoes[worst])
	}
	return strings.TrimSpace(said)
}

// change is a change in a text: where its clause goes on, and its place in undoes.
type change struct{ from, undo int }

func expand(text string, says func(Mark) string) (string, []change) {
	var b strings.Builder
	var changes []change
	rest := 0
	for _, at := range spaced.FindAllStringSubmatchIndex(text, -1) {
		b.WriteString(text[rest:at[0]])
		m := Mark{Kind: Kind(text[at[2]:at[3]])}
		if at[4] >= 0 {
			m.Object = text[at[4]:at[5]]
		}
		if said := says(m); said != "" {
			b.WriteString(said + text[at[6]:at[7]])
		}
		if undo := slices.Index(undoes, m.Kind.Undo()); undo >= 0 {
			changes = append(changes, change{b.Len(), undo})
		}
		rest = at[1]
	}
	return b.String() + text[rest:], changes
}

// clauseEnds matches the end of a clause: a comma before an alternative, before what follows from
// a change or before what is done besides, too.
var clauseEnds = regexp.MustCompile(`^(?:[;.:]$|[;.:] |\n|, (?:and|or|so|let|until|as|but|if|which|where|with|find) )`)

// clauseEnd is the first end of a clause outside parentheses from the position on, or the end of
// the text.
func clauseEnd(text string, from int) int {
	depth := 0
	for i := from; i < len(text); i++ {
		switch c := text[i]; {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case depth == 0 && clauseEnds.MatchString(text[i:]):
			return i
		}
	}
	return len(text)
}

// Enclosed puts the clause in parentheses into the text, or into the parentheses that end there.
func Enclosed(text string, at int, clause string) string {
	if open, ends := strings.CutSuffix(text[:at], ")"); ends {
		return open + "; " + clause + ")" + text[at:]
	}
	return text[:at] + " (" + clause + ")" + text[at:]
}

// Plain is the advice for a page, which is about no particular cluster.
func Plain(text string) string {
	text = strings.TrimSpace(strings.NewReplacer("; then ", "; ", ": Check", ": check").Replace(WithoutMarks(text)))
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// WithoutMarks is the text with what its marks mean for any cluster.
func WithoutMarks(text string) string { return Expand(text, plain) }

func plain(m Mark) string {
	switch m.Kind {
	case Do, Check, Later, Change, Reversible, Final, Fix, Note:
		return ""
	case Wait:
		return "wait"
	case ReadLog:
		return "read the log of the driver's pod"
	case Place:
		return "the place that reports the error"
	case If:
		return m.Object
	case DeletePod:
		return "delete the pod"
	case StopPod:
		return "scale the workload of the pod to 0, or delete the pod if it has none"
	case RestartNodePlugin:
		return "restart the driver's node plugin on the node"
	case RestartController:
		return "restart the driver's controller"
	case RestartDriver:
		return "restart the driver's pods"
	case RestartService:
		return fmt.Sprintf("restart %s on the node", m.Object)
	case RestartKubelet:
		return "restart the kubelet on the node"
	case TaintNode:
		return "taint the node out-of-service"
	case DrainNode:
		return "drain the node"
	case RebootNode:
		return "restart the node"
	case PowerOff:
		return "power off the machine behind the node"
	case BlockAddress:
		return "block the address of that machine"
	case DeleteNode:
		return "delete the Node object"
	case RestartManager:
		return "restart the kube-controller-manager leader"
	}
	panic("an advice has no action of kind " + string(m.Kind)) // TestMarks checks every mark in the sources
}
