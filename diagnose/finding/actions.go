package finding

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/step"
)

// Action is one thing to do about a finding. Every format makes its advice from actions.
type Action struct {
	Kind ActionKind `json:"kind"`
	// Object is the object of the action, such as "pod/default/web-0"; "" where there is not
	// exactly one.
	Object string `json:"object,omitempty"`
	// Sentence says what to do, and names the object of the command.
	Sentence string `json:"sentence"`
	// Command is a command line that does it.
	Command string `json:"command,omitempty"`
	// Hits are the things that it ends or restarts, each with the pods that this hits.
	Hits []Step `json:"hits,omitempty"`
	When When   `json:"when"`
	// Until is when a wait will be over, where that is known.
	Until string `json:"until,omitempty"`
	// Told marks a command whose sentence belongs to the action before it.
	Told bool `json:"-"`
	// Advised marks an action from the advice, and ByHand one from Finding.ByHand, which is
	// part of it.
	Advised, ByHand bool `json:"-"`
}

// ActionKind is the kind of an action: one of those below, or a kind of package step, which
// ends or restarts something.
type ActionKind string

// The kinds of actions that end and restart nothing.
const (
	Look          ActionKind = "look"
	FixObject     ActionKind = "fix-object"
	MakeSafe      ActionKind = "make-safe"
	PowerOff      ActionKind = "power-off-and-fence"
	SeeDetached   ActionKind = "see-detached"
	ApplyRepair   ActionKind = "repair"
	Wait          ActionKind = "wait"
	DoAsTheySay   ActionKind = "prose"
	deletePodKind            = ActionKind(step.DeletePod)
)

// InWords reports whether words alone tell what the action does.
func (a Action) InWords() bool {
	return slices.Contains([]ActionKind{DoAsTheySay, ActionKind(step.Change), ActionKind(step.Final), ActionKind(step.Fix), ActionKind(step.Note)}, a.Kind)
}

// Line is the action in one line.
func (a Action) Line() string {
	if a.Command == "" {
		return a.Sentence
	}
	return a.Sentence + ": " + a.Command
}

// Next is the first action, for now or a look that changes nothing; the zero Action where there
// is none.
func (f Finding) Next() Action {
	for _, a := range f.Actions {
		if a.When != Later {
			return a
		}
	}
	return Action{}
}

// When is the time of an action.
type When string

// The times: now, first as a look that changes nothing, or the next time.
const (
	Now   When = "now"
	Check When = "check"
	Later When = "later"
)

// Sentences joins the sentences of the actions.
func Sentences(actions []Action) string {
	var list []string
	for _, a := range actions {
		if !a.Told {
			list = append(list, a.Sentence)
		}
	}
	return strings.Join(list, "; ")
}

// Advised sets Advice and Steps from Do: the sentences of the actions, and each thing that they
// end or restart, once.
func (f *Finding) Advised() {
	f.Advice, f.Steps = Sentences(f.Do), nil
	for _, a := range f.Do {
		for _, s := range a.Hits {
			if !slices.ContainsFunc(f.Steps, func(other Step) bool { return other.Kind == s.Kind && other.Object == s.Object }) {
				f.Steps = append(f.Steps, s)
			}
		}
	}
	reach := func(s Step) int {
		return slices.IndexFunc(step.Reaches(), func(r step.Reach) bool { return r.Kind == s.Kind })
	}
	slices.SortStableFunc(f.Steps, func(a, b Step) int { return reach(a) - reach(b) })
}

// ActionsOf are the actions for the finding, in their order: those for the next time come last. at
// is the time of its report. A repair that a guard refuses is not among them.
func ActionsOf(f Finding, at time.Time) []Action {
	list := actionsOf(f, at)
	slices.SortStableFunc(list, func(a, b Action) int { return order(a) - order(b) })
	return saysUndone(list)
}

// saysUndone adds to each sentence whether what the commands below it do can be undone, unless it says
// so. A repair says it itself.
func saysUndone(list []Action) []Action {
	above := 0
	for i, a := range list {
		says := undone(a.Command)
		if !a.Told {
			above = i
		}
		if s := &list[above].Sentence; says != "" && a.Kind != ApplyRepair && !strings.Contains(*s, says) {
			*s = step.Enclosed(*s, len(*s), says)
		}
	}
	return list
}

// undone is a clause: whether what a command of kubectl changes can be undone; "" for a look.
func undone(command string) string {
	switch verb, _ := ObjectOf(command); {
	case verb == "delete",
		verb == "patch" && strings.Contains(command, "/claimRef/"): // the claim that is then bound keeps the volume
		return step.ForGood
	case verb == "taint" && !strings.HasSuffix(command, "-"):
		return step.PodsStayAway
	case verb != "" && verbsOf[verb].kind == "":
		return step.ForNow
	}
	return ""
}

// order is 1 for what is done later, and else 0.
func order(a Action) int {
	if a.When == Later {
		return 1
	}
	return 0
}

func actionsOf(f Finding, at time.Time) []Action {
	refused := f.Repair != nil && f.Repair.Apply == "" && f.Repair.BlockedBy != ""
	advised := f.advised()
	for i := range advised {
		if f.Repair != nil && advised[i].Kind != Look {
			advised[i].Command = "" // it has its own commands, or is refused
		}
	}
	list := slices.DeleteFunc(advised, func(a Action) bool { return a.Told && a.Command == "" })
	switch {
	case !refused || f.Confidence == Suspected || f.Repair.SafeOnce == "" || f.Repair.SafeOnceTold:
	case f.SelfHeals.Will: // nobody has to make anything safe
		if !slices.ContainsFunc(list, func(a Action) bool { return a.Kind == Wait }) {
			list = append(list, f.waiting("wait", at))
		}
	case slices.ContainsFunc(list, Action.saves): // its sentence covers the end of the pod
	case slices.ContainsFunc(list, func(a Action) bool { return a.Kind == deletePodKind }): // it ends the pod
	default:
		looks := 0 // the looks come first: what makes the repair safe may end a pod
		for looks < len(list) && list[looks].When == Check {
			looks++
		}
		safe := Action{Kind: MakeSafe, Sentence: "to make it safe: " + f.Repair.SafeOnce, Hits: f.Repair.SafeOnceHits, When: Now}
		if f.Repair.SafeOnceChanges && !slices.ContainsFunc(list[looks:], func(a Action) bool { return a.When == Now }) {
			safe.Sentence += "; diagnose again"
		}
		list = slices.Insert(list, looks, safe)
	}
	if f.Repair == nil {
		for _, command := range f.AdviceCommands {
			if !slices.ContainsFunc(list, func(a Action) bool { return a.Command == command }) {
				list = f.commandedBelow(list, f.Commanded(command))
			}
		}
		if len(list) == 0 && f.SelfHeals.Will {
			list = append(list, f.waiting("wait", at))
		}
		return list
	}
	if refused {
		return list
	}
	unless := "" // stands before the repair
	switch {
	case f.SelfHeals.Will:
		list, unless = append(list, f.waiting("wait", at)), "or, to have it sooner: "
	case f.SelfHeals.Unknown && f.Severity == Info:
		list, unless = append(list, f.waiting("wait a minute and diagnose again", at)), "only if it has not ended by then: "
	}
	repairing := slices.DeleteFunc(f.repairing(), func(asked Action) bool {
		return asked.Kind == PowerOff && slices.ContainsFunc(list, func(a Action) bool { return strings.HasPrefix(a.Sentence, asked.Sentence) })
	})
	if slices.ContainsFunc(repairing, func(a Action) bool { return a.Kind == SeeDetached }) && slices.ContainsFunc(list, func(a Action) bool { return a.InWords() && a.When == Now }) {
		unless = "or, instead of that: " // no driver has to detach any more
	}
	if len(repairing) > 0 {
		repairing[0].Sentence = unless + repairing[0].Sentence
	}
	return append(list, repairing...)
}

// commandedBelow puts a command of the advice below its sentence. A look at another object than
// the action before it names gets a sentence of its own, or a clause of that action where the
// headline names the object. It comes before an action that ends or restarts something.
func (f Finding) commandedBelow(list []Action, a Action) []Action {
	n, headline := len(list), Action{Sentence: f.Message}
	switch clause := a.aside(); {
	case n == 0 || a.Kind != Look:
	case list[n-1].Command == "" && len(list[n-1].Hits) > 0:
		a.Told = false
		return slices.Insert(list, n-1, a)
	case !strings.Contains(a.Object, "/") || list[n-1].Command == "" && list[n-1].Names(a.Object):
	case clause != "" && list[n-1].Command == "" && list[n-1].When != Later && headline.Names(a.Object):
		list[n-1].Sentence += "; " + clause + ":"
	default:
		a.Told = false
	}
	return append(list, a)
}

// aside is the look as a clause of another sentence; "" where it needs its own.
func (a Action) aside() string {
	verb, _ := ObjectOf(a.Command)
	if short := verbsOf[verb].short; short != "" {
		return short + " " + spoken(a.Object)
	}
	return ""
}

// saves reports whether the action saves data that would be lost with a pod, and then ends the
// pod.
func (a Action) saves() bool { return strings.HasPrefix(a.Sentence, "save the data") }

// advised are the actions of the advice. A saved finding has only the text of its advice.
func (f Finding) advised() []Action {
	if f.Do == nil && f.Advice != "" {
		return []Action{{Kind: DoAsTheySay, Sentence: f.Advice, Hits: f.Steps, When: Now}}
	}
	return slices.Clone(f.Do)
}

func (f Finding) waiting(sentence string, at time.Time) Action {
	a := Action{Kind: Wait, Sentence: sentence, When: Now}
	if after, err := time.ParseDuration(f.SelfHeals.After); err == nil {
		a.Until = at.Add(after).UTC().Format(time.RFC3339)
	}
	return a
}

// verbsOf are the purposes of commands of kubectl and of this program; any other command changes
// an object.
var verbsOf = map[string]struct {
	kind  ActionKind
	text  string
	when  When
	short string // the look as a clause
}{
	"get":           {Look, "look at", Check, ""},
	"describe":      {Look, "look at", Check, "see"},
	"logs":          {Look, "read the log of", Check, "read"},
	"volume-doctor": {Look, "look with this program at", Check, ""},
	"trace":         {Look, "see stage by stage what keeps", Check, "trace"},
	"plan":          {Look, "see what a controller that starts would do about", Check, ""},
	"delete":        {deletePodKind, "delete", Now, ""},
}

// Commanded is the action of the command line.
func (f Finding) Commanded(command string) Action {
	verb, object := ObjectOf(command)
	if object == "" && f.PersistentVolume != "" {
		object = "persistentvolume/" + f.PersistentVolume // an object that is made from standard input
	}
	known, found := verbsOf[verb]
	if !found {
		known.kind, known.text, known.when = FixObject, verb, Now
	}
	a := Action{Kind: known.kind, Object: object, Command: command, When: known.when, Told: true}
	a.Sentence = strings.TrimSpace(known.text + " " + spoken(object))
	if a.Kind == deletePodKind {
		a.Hits = slices.Clone(f.Steps)
	}
	return a
}

// Names reports whether the sentence names the object: one of a namespace with that, or with its kind.
func (a Action) Names(object string) bool {
	kind, full, _ := strings.Cut(object, "/")
	name := full[strings.LastIndex(full, "/")+1:]
	if name == full {
		return name != "" && Names(a.Sentence, name)
	}
	return Names(a.Sentence, full) || Names(a.Sentence, cmp.Or(nouns[kind], kind)+" "+name)
}

// nouns are the words for the objects of commands in sentences.
var nouns = map[string]string{"pv": "volume", "persistentvolume": "volume", "persistentvolumeclaim": "claim", "volumeattachment": "VolumeAttachment"}

// spoken is an object of a command as a sentence names it.
func spoken(object string) string {
	kind, name, found := strings.Cut(object, "/")
	if !found {
		return object
	}
	return cmp.Or(nouns[kind], kind) + " " + name
}

// ObjectOf returns the verb of a command line of kubectl and its object, with the namespace
// between kind and name.
func ObjectOf(command string) (verb, object string) {
	_, command, _ = strings.Cut(command, "kubectl ")
	namespace, words, kind := "", strings.Fields(command), 0
	for i, word := range words {
		flag, value, joined := strings.Cut(word, "=")
		switch {
		case flag == "--namespace" && joined:
			namespace = value
		case word == "-n" && i+1 < len(words):
			namespace = words[i+1]
		case strings.HasPrefix(word, "-"):
		case verb == "" || verb == "volume-doctor" && verbsOf[word].kind != "":
			verb, kind = word, i+1
		case object == "" && strings.Count(word, "/") == 1 && !strings.ContainsAny(word, "'{"):
			object = word
		}
	}
	if object == "" && kind < len(words) && !strings.HasPrefix(words[kind], "-") {
		return verb, words[kind] // all objects of a kind, or those with a label
	}
	if kind, name, found := strings.Cut(object, "/"); found && namespace != "" {
		object = kind + "/" + namespace + "/" + name
	}
	return verb, object
}

// MachineOff is what has to be made sure of before anything is taken from the node's machine.
func MachineOff(node string) string {
	return fmt.Sprintf("make sure that the machine behind %s is powered off and stays off", node)
}

// repairing are the actions that the user has to confirm for the repair, and the repair.
func (f Finding) repairing() []Action {
	var list []Action
	asked := ""
	for _, word := range f.Repair.Needs {
		flag, value, _ := strings.Cut(word, "=")
		switch flag {
		case "--fenced":
			list = append(list, Action{Kind: PowerOff, Object: "node/" + value, When: Check,
				Sentence: MachineOff(value)})
		case "--detached":
			list = append(list, Action{Kind: SeeDetached, Object: "volumeattachment/" + value, When: Check,
				Sentence: fmt.Sprintf("make sure that the storage system does not have the volume of VolumeAttachment %s attached to its node", value)})
		case "--allow":
			if asked = fmt.Sprintf("decide whether to allow %s: ", value); f.Repair.OnlyIf != "" {
				asked = fmt.Sprintf("only if %s, allow %s: ", f.Repair.OnlyIf, value)
			}
		}
	}
	// ApplyAll is for all findings that share the cause. Without either the repair is refused,
	// or the caller has not named this program's command line yet.
	a := Action{Kind: ApplyRepair, Sentence: asked + f.does(), Command: f.Repair.Apply, When: Now}
	if f.Repair.ApplyAll != "" {
		a.Command = f.Repair.ApplyAll
	}
	if a.Command != "" {
		list = append(list, a)
	}
	return list
}

// does is the sentence about the repair's command line: whether it can be undone, before the long
// names, and the object of the command. Of the VolumeAttachments of several repairs none is named.
func (f Finding) does() string {
	r := f.Repair
	says, undo := cmp.Or(r.Does, "makes the repair "+r.Kind), "" // an older program saved the report
	if i := strings.LastIndex(says, " ("); i >= 0 && strings.Contains(says[i:], " be undone") {
		says, undo = says[:i], says[i:]
	}
	switch attachment := attachmentName.FindString(says); {
	case !mostRepairs.MatchString(r.ApplyAll): // one write
	case attachment != "" && r.Others > 0:
		says = strings.Replace(says, attachment, fmt.Sprintf("the VolumeAttachments of %d of the %d findings; diagnose again for the rest", r.Alike, r.Alike+r.Others), 1)
	case attachment != "":
		says = strings.Replace(says, attachment, mostRepairs.ReplaceAllString(mostRepairs.FindString(r.ApplyAll), "$1 ")+"VolumeAttachments", 1)
	case r.Others > 0:
		says += fmt.Sprintf(", and the like for %d of the %d others", r.Alike-1, r.Alike-1+r.Others)
	default:
		says += ", and the like for the others"
	}
	if _, aim := ObjectOf(cmp.Or(r.ApplyAll, r.Apply)); strings.Contains(aim, "/") && !(Action{Sentence: says}).Names(aim) {
		what, purpose, _ := strings.Cut(says, ", so that ")
		if says = what + " for " + spoken(aim); purpose != "" {
			says += ", so that " + purpose
		}
	}
	// The volume and the node tell more than its name of 68 letters.
	if name := attachmentName.FindString(says); r.ApplyAll == "" && strings.HasPrefix(name, "VolumeAttachment csi-") && f.PersistentVolume != "" && f.Node != "" &&
		name == "VolumeAttachment "+f.VolumeAttachment {
		says = strings.Replace(says, name, fmt.Sprintf("the VolumeAttachment of volume %s on node %s", f.PersistentVolume, f.Node), 1)
	}
	if r.OneWrite > 1 {
		says += fmt.Sprintf("; one write for %d findings", r.OneWrite)
	}
	return "--apply" + undo + " " + says + ":"
}

var (
	attachmentName = regexp.MustCompile(`VolumeAttachment [a-z0-9.-]+`)
	mostRepairs    = regexp.MustCompile(`--max-repairs=([0-9]+)`)
)
