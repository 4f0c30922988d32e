package driverwords

import (
	_ "embed" // for classes.txt
	"regexp"
	"slices"
	"strings"
)

// class is a kind of error that plain English words show, whoever writes them. The words are
// compared with Message.Rest.
type class struct {
	meaning Meaning
	words   *regexp.Regexp
}

// Parts of the classes' words.
const (
	machine = `(?:nodes?|hosts?|instances?|machines?|vms?|vmi|servers?|droplets?|linodes?|compute)`
	volume  = `(?:volumes?|disks?|images?|shares?|luns?|file ?systems?|buckets?|pvcs?|pvs?|datasets?|zvols?|containers?|devices?|resources?|snapshots?)`
	// inState is what stands before the name of a state. "error creating" is no state.
	inState = `(?:^|\b(?:is|are|was|were|be|being|still|currently|status|state|phase|in|transient)(?: is| =|=)? )`
)

//go:embed classes.txt
var classesText string

// classes are those of classes.txt in their order. missing reads what is not found, after certain
// and before likely.
var certain, likely = func() (certain, likely []class) {
	first, second, _ := strings.Cut(classesText, "\n# likely:")
	return readClasses(first), readClasses(second)
}()

func readClasses(text string) (classes []class) {
	parts := strings.NewReplacer("{machine}", machine, "{volume}", volume, "{state}", inState)
	_, text, _ = strings.Cut(text, "\n\n") // the comment
	for block := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		lines := strings.Split(block, "\n  ")
		if _, known := meanings[Meaning(lines[0])]; !known || len(lines) == 1 {
			panic("classes.txt: no meaning with its words: " + lines[0])
		}
		words := parts.Replace(strings.Join(lines[1:], "|"))
		classes = append(classes, class{Meaning(lines[0]), regexp.MustCompile(`(?:^|[^a-z0-9])(?:` + words + `)(?:$|[^a-z0-9])`)})
	}
	return classes
}

// missing is the class of objects that are not found. The meaning depends on the nearest noun,
// before the words as in "node n1 not found" or behind them as in "could not find node n1".
var (
	absentAfter  = regexp.MustCompile(`\b(?:(?:is |was |were |be |could be )?not (?:be )?found|notfound|(?:does|do|did) not exist|not exist(?:ent)?|no longer exists?|(?:could not|cannot) be found|is missing|has been deleted|is deleting|missing|no such file or directory|file does not exist|(?:is |was )?not known|not registered|not in the list)\b`)
	absentBefore = regexp.MustCompile(`\b(?:(?:could|can|did|does) ?not (?:find|retrieve|get|look ?up|locate|determine)|(?:cannot|unable to|not able to|failed to|error|failed) (?:find(?:ing)?|retriev(?:e|ing)|get(?:ting)?|fetch(?:ing)?|load(?:ing)?|look(?:ing)? ?up|locat(?:e|ing)|discover(?:ing)?|determin(?:e|ing))|no such|non-?existent|found 0|missing|no matching|received empty)\b`)
	// notGot is a failed request for an object. The reason stands behind it, and need not be that
	// the object is missing.
	notGot = regexp.MustCompile(`\b(?:retriev(?:e|ing)|get(?:ting)?|fetch(?:ing)?|load(?:ing)?|look(?:ing)? ?up|determin(?:e|ing)|error|failed)$`)
	nouns  = regexp.MustCompile(`\b(?:(?:volume )?attachments?|mappings?|assignment|secrets?|config ?maps?|passwords?|credentials?|account ?keys?|account ?names?|user ?ids?|user ?keys?|multipath devices?|target ports?|device paths?|disk paths?|block devices?|virtual ?machines?|volume ?snapshots?|secret provider ?class|(?:volume ?snapshot|storage|device|volume attributes)[ -]?class(?:es)?|cluster id|persistent volume claims?|persistent volumes?|boot volume|volume id|logical ?volumes?|block storage|storage volume|file ?systems?|share id|datastores?|volume context|provider ?id|disks? on lun|` +
		`nodes?|hosts?|instances?|machines?|vms?|vmi|servers?|droplets?|linodes?|compute|sdc|volumes?|disks?|images?|shares?|buckets?|pvc|pv|lv|dataset|zvol|pools?|containers?|snapshots?|devices?|luns?|dm|initiators?|sessions?|targets?|portals?|wwns?|paths?|hba|tools?|binary|modules?|program|dependency|config(?:uration)?|backends?|domain labels|variable|zones?|regions?|topology|topologies|parameters?|attributes?|fields?|keys?|annotations?|providers?|resources?|objects?|files?|information|fsmeta|export|mount ?points?)\b|<device>`)
	nounMeans = []struct {
		noun    *regexp.Regexp
		meaning Meaning
	}{
		{regexp.MustCompile(`^(?:multipath devices?|target ports?|initiators?|sessions?|targets?|portals?|wwns?|hba)$`), PathsMissing},
		{regexp.MustCompile(`^(?:volume )?attachments?$|^mappings?$|^assignment$`), NotAttached},
		{regexp.MustCompile(`^(?:secrets?|config ?maps?|passwords?|credentials?|account ?keys?|account ?names?|user ?ids?|user ?keys?)$`), SecretMissing},
		{regexp.MustCompile(`^(?:disks? on lun|device paths?|disk paths?|block devices?|devices?|luns?|dm|<device>)$`), DeviceMissing},
		{regexp.MustCompile(`^mount ?points?$`), StaleMount},
		{regexp.MustCompile(`^(?:nodes?|hosts?|sdc|provider ?id)$`), NodeUnknown},
		{regexp.MustCompile(`^(?:virtual ?machines?|instances?|machines?|vms?|vmi|servers?|droplets?|linodes?|compute)$`), NodeUnknown},
		{regexp.MustCompile(`^(?:boot volume|volume id|logical ?volumes?|block storage|storage volume|file ?systems?|share id|datastores?|volume context|volumes?|disks?|images?|shares?|buckets?|lv|dataset|zvol|containers?|fsmeta|export)$`), VolumeNotFound},
		{regexp.MustCompile(`^(?:(?:volume ?snapshot|storage|device|volume attributes)[ -]?class(?:es)?|volume ?snapshots?|pools?|snapshots?)$`), NameNotFound},
		{regexp.MustCompile(`^(?:pvc|pv|persistent volume claims?|persistent volumes?)$`), RecordMissing},
		{regexp.MustCompile(`^(?:tools?|binary|modules?|program|dependency)$`), ToolMissing},
		{regexp.MustCompile(`^(?:config(?:uration)?|backends?|domain labels|variable|cluster id)$`), DriverConfig},
		{regexp.MustCompile(`^(?:zones?|regions?|topology|topologies)$`), ZoneMismatch},
		{regexp.MustCompile(`^(?:parameters?|attributes?|fields?|keys?|information|annotations?|secret provider ?class)$`), BadParameters},
		{regexp.MustCompile(`^(?:resources?|objects?)$`), ObjectNotFound},
	}
)

// clauseEnds are where one clause of an error ends. Each wraps the next one.
var clauseEnds = regexp.MustCompile(`[:.;!?]+ |, | - |\n| err=`)

// advice is a clause that says what to do, not what is wrong.
var advice = regexp.MustCompile(`^(?:please|check|ensure|verify|make sure|try|see|contact|read the|refer|and try|will retry|retrying|action)\b`)

// An error that offers several reasons, joined by "or", is certain about none: the first counts.
var (
	alternative  = regexp.MustCompile(` or access denied\b|, or you may not be authori[sz]ed\b`)
	alternatives = regexp.MustCompile(`, or other error\b`)
)

// fieldRefused is the API server's refusal of a field of an object, and no missing right.
var fieldRefused = regexp.MustCompile(`(is invalid: \S+ )forbidden: `)

// admission is how the API server refuses a write. Only with a user behind it are rights missing;
// else it is a rule, a quota or a limit.
const admission = " is forbidden: "

// classMeans returns the meaning of the plain words, and the words that show it. An error ends in
// its reason, so the last clause with a meaning goes first. A time-out, or a missing field
// without its object, goes last.
func classMeans(rest string) (Meaning, string, bool) {
	rest = alternative.ReplaceAllString(fieldRefused.ReplaceAllString(rest, "$1"), "")
	if object, why, refused := strings.Cut(rest, admission); refused && !strings.HasPrefix(why, "user ") {
		rest = object + ": " + why
	}
	parts := clauseEnds.Split(rest, -1)
	if alternatives.MatchString(rest) {
		parts = []string{rest}
	}
	var weak Meaning
	var words string
	for i := len(parts) - 1; i >= 0; i-- {
		part := strings.TrimSpace(parts[i])
		if part == "" || advice.MatchString(part) {
			continue
		}
		meaning, found, ok := clauseMeans(part, strings.Join(parts[i+1:], " "))
		switch {
		case !ok:
		case meaning == TimedOut || meaning == BadParameters && strings.Count(part, " ") <= 2:
			if weak == "" {
				weak, words = meaning, found
			}
		case meaning == Unreachable && local.MatchString(rest):
			return DriverUnavailable, found, true
		default:
			return meaning, found, true
		}
	}
	return weak, words, weak != ""
}

// local is a connection within the node, without a network.
var local = regexp.MustCompile(`\bdbus\b|\bunix (?:socket )?<(?:path|url)>|\b(?:dial|accept|connect) unix\b`)

// clauseMeans reads one clause of an error; reason is the text behind it.
func clauseMeans(clause, reason string) (Meaning, string, bool) {
	for _, c := range certain {
		if found := c.words.FindString(clause); found != "" {
			return c.meaning, trimmed(found), true
		}
	}
	if meaning, words, ok := missing(clause, reason); ok {
		return meaning, words, true
	}
	for _, c := range likely {
		if found := c.words.FindString(clause); found != "" {
			return c.meaning, trimmed(found), true
		}
	}
	return "", "", false
}

func trimmed(words string) string {
	return strings.Trim(words, " :,.;()[]{}\"'=")
}

// nounsReach is the largest distance of a noun from the words that it was not found.
const nounsReach = 90

func missing(rest, reason string) (Meaning, string, bool) {
	another := reason != "" && !absentAfter.MatchString(reason)
	for _, at := range absentBefore.FindAllStringIndex(rest, -1) {
		tail := rest[at[1]:min(len(rest), at[1]+nounsReach)]
		if noun := nounsIn(tail); len(noun) > 0 {
			meaning, ok := nounMeaning(tail[noun[0][0]:noun[0][1]])
			if meaning == DeviceMissing && strings.Contains(tail[:noun[0][0]], " of ") {
				continue // something of the device is missing
			}
			if another && ofStorage(meaning) && notGot.MatchString(rest[:at[1]]) {
				continue
			}
			if ok && meaning != ObjectNotFound {
				return ofHolder(meaning, rest), trimmed(rest[at[0] : at[1]+noun[0][1]]), true
			}
		}
	}
	for _, at := range absentAfter.FindAllStringIndex(rest, -1) {
		start := max(0, at[0]-nounsReach)
		head := rest[start:at[0]]
		all := nounsIn(head)
		for i := len(all) - 1; i >= 0; i-- {
			if meaning, ok := nounMeaning(head[all[i][0]:all[i][1]]); ok {
				return ofHolder(meaning, rest), trimmed(rest[start+all[i][0] : at[1]]), true
			}
		}
	}
	return "", "", false
}

// ofStorage reports whether the meaning is that a volume or a machine is gone, upon which
// somebody may restore or delete something.
func ofStorage(m Meaning) bool {
	return m == VolumeNotFound || m == NodeUnknown || m == RecordMissing
}

// nounsIn finds the nouns that are whole words, not parts of a name.
func nounsIn(text string) [][]int {
	return slices.DeleteFunc(nouns.FindAllStringIndex(text, -1), func(at []int) bool {
		return at[0] > 0 && strings.ContainsRune("-.<", rune(text[at[0]-1])) || at[1] < len(text) && text[at[1]] == '-'
	})
}

func nounMeaning(noun string) (Meaning, bool) {
	for _, n := range nounMeans {
		if n.noun.MatchString(strings.TrimSpace(noun)) {
			return n.meaning, true
		}
	}
	return "", false
}

// ofHolder is the meaning of a missing field, by the object that should have it.
func ofHolder(meaning Meaning, clause string) Meaning {
	switch {
	case meaning == DriverConfig && strings.Contains(clause, "configmap"):
		return SecretMissing
	case meaning != BadParameters:
		return meaning
	case strings.Contains(clause, "secret") && !strings.Contains(clause, "secret provider"), strings.Contains(clause, "credential"):
		return SecretMissing
	case strings.Contains(clause, "publish context"):
		return NotAttached
	default:
		return meaning
	}
}
