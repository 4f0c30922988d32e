package step

import (
	"regexp"
	"slices"
	"strings"
)

// thing is a noun that can be the object of a verb in an advice.
type thing struct {
	kind  Kind // "" where it neither runs nor serves a mount
	words *regexp.Regexp
}

func thingNamed(kind Kind, words string) thing {
	return thing{kind, regexp.MustCompile(`(?i)\b(?:` + words + `)\b`)}
}

// things are recognized by their names. Where two match at the same position, the first of the
// list counts.
var things = []thing{
	thingNamed(RestartManager, `kube-controller-manager(?: leader)?`),
	thingNamed(RestartKubelet, `kubelets?(?:'s)?`),
	thingNamed(RestartNodePlugin, `(?:driver(?:'s|s')? |Trident )?node (?:plugin|driver|pod)s?(?:'s?)?(?: pods?)?|plugin(?:'s)?(?: pods?)?|`+
		`driver's pod on this node`),
	thingNamed(RestartController, `(?:CSI |driver's )?controller(?:'s pods?| pods?)?|attacher(?:'s pods?)?`),
	thingNamed(RestartDriver, `(?:its|driver's) pods|driver|DaemonSets?`),
	thingNamed(RestartService, `iscsid|multipathd`),
	thingNamed("", `\w*VolumeAttachments?|(?:attachment|claim|volume|finalizer|record|object|CSINode|Secret|Lease|disk|snapshot|namespace)s?|PersistentVolumes?|`+
		`access points|what is not needed|entry|-k`),
	thingNamed(DeletePod, `pods?`),
	thingNamed(RebootNode, `(?:node|machine|instance|VM|server)s?`),
}

var (
	sentences = regexp.MustCompile(`[.;:](?:\s+|$)|\n\s*\n`)
	// verbs match the verbs with which an advice deletes, restarts or stops something.
	verbs = regexp.MustCompile(`(?i)\b(delete|restart|reboot|drain|kill|evict|roll out|power)\b|\bhave ([^.;:]+?) restarted\b`)
	// noAdvice matches what comes right before a verb that is not an advice.
	noAdvice = regexp.MustCompile(`(?i)\b(?:do not|don't|never|neither|nor|before|without|unless|cannot|must not|not to|does|no|a|an|the|each|every|next|this|that|after|quick|in|of)(?: \w+ly)? $`)
	// later matches what comes before a verb where the step is for another time, or is done by
	// a user's program.
	later = regexp.MustCompile(`(?i)\bfor the next time\b|\bhave whatever\b`)
	// places match phrases that only say where something is, as in "on the node".
	places     = regexp.MustCompile(`(?i)\b(?:on|of|from|behind|in|to|at) (?:(?:this|that|the|its|each|another|a) )?(?:(?:other|same|volume's) )?(?:node|machine|instance|VM|server)\b`)
	nothing    = regexp.MustCompile(`(?i)^ (?:no|nothing)\b`)
	nodeObject = regexp.MustCompile(`^ (?:(?:the|its|their|that) )?Nodes?\b`)
)

// In returns the kinds of the steps that the text advises, in the order of Reaches. strange
// lists the verbs that delete, restart or stop something that the text does not name.
func In(text string) (kinds []Kind, strange []string) {
	found, earlier := map[Kind]bool{}, ""
	for _, sentence := range sentences.Split(text, -1) {
		sentence = " " + strings.Join(strings.Fields(places.ReplaceAllString(sentence, "")), " ")
		for _, at := range verbs.FindAllStringSubmatchIndex(sentence, -1) {
			before, verb, after := sentence[:at[0]], strings.ToLower(sentence[at[0]:at[1]]), sentence[at[1]:]
			if at[4] >= 0 { // have it restarted
				verb, after = "restart", " "+sentence[at[4]:at[5]]
			}
			if noAdvice.MatchString(before) || later.MatchString(before) || nothing.MatchString(after) || verb == "power" && !strings.Contains(after, " off") {
				continue
			}
			objects := objectsOf(verb, after)
			if objects == nil {
				objects = nearest(verb, earlier+before)
			}
			switch verb {
			case "reboot":
				objects = []Kind{RebootNode}
			case "drain":
				objects = []Kind{DrainNode}
			case "power":
				objects = []Kind{PowerOff}
			}
			if objects == nil {
				strange = append(strange, strings.TrimSpace(sentence[at[0]:]))
			}
			for _, kind := range objects {
				found[kind] = true
			}
		}
		earlier = sentence
	}
	for _, r := range Reaches() {
		if found[r.Kind] {
			kinds = append(kinds, r.Kind)
		}
	}
	return kinds, strange
}

// mention is a place where a text names a thing, in bytes.
type mention struct {
	start, end int
	kind       Kind
}

// mentions are the things that the text names, in its order, without overlaps.
func mentions(text string) []mention {
	var all, list []mention
	for _, t := range things {
		for _, at := range t.words.FindAllStringIndex(text, -1) {
			all = append(all, mention{at[0], at[1], t.kind})
		}
	}
	slices.SortStableFunc(all, func(a, b mention) int { return a.start - b.start })
	for _, m := range all {
		if strings.HasPrefix(text[m.end:], "'s") {
			continue // the text means a part of it
		}
		if len(list) == 0 || m.start >= list[len(list)-1].end {
			list = append(list, m)
		}
	}
	return list
}

// objectsOf are the kinds of the verb's objects: the first thing after the verb, and the things
// that a comma, "and" or "or" joins to it.
func objectsOf(verb, after string) []Kind {
	if nodeObject.MatchString(after) && verb == "delete" {
		return []Kind{DeleteNode}
	}
	var kinds []Kind
	end := 0
	for _, m := range mentions(after) {
		if len(kinds) > 0 && !joined.MatchString(after[end:m.start]) {
			break
		}
		kinds, end = append(kinds, as(verb, m.kind)), m.end
	}
	return kinds
}

// joined matches the text between two objects of one verb.
var joined = regexp.MustCompile(`^(?:, which [^,]+,)?(?:,| and| or)(?: then)?(?: the| its)* $`)

// nearest is the object of a verb whose object is a pronoun: the last thing that the sentence
// names before the verb.
func nearest(verb, before string) []Kind {
	list := mentions(before)
	if len(list) == 0 {
		return nil
	}
	return []Kind{as(verb, list[len(list)-1].kind)}
}

// as is the kind of the step in which the verb has that object.
func as(verb string, object Kind) Kind {
	if verb == "delete" && object == RebootNode {
		return DeleteNode // a node can only be deleted as an object
	}
	if object == RebootNode && verb == "evict" {
		return DrainNode
	}
	return object
}
