package driverwords

import (
	"regexp"
	"strings"
)

// Message is an error message taken apart: its wrappers, its numbers, the objects that it names,
// and the plain words that are left.
type Message struct {
	// Wrappers are the words that the kubelet, the controller, the provisioner and gRPC
	// put around the error, the outermost first.
	Wrappers []string
	// Code is the innermost gRPC code, such as NotFound; "" without one.
	Code string
	// Exits are the numbers that the message gives, each with the tool that it belongs to.
	Exits []Exit
	// Nouns are the objects and things that the message names, in its order.
	Nouns []Noun
	// Rest is the error in lower case, without its wrappers, with CamelCase names split
	// into words and with values such as ids, addresses and paths as placeholders.
	Rest string
}

// Exit is a number with the tool that gave it.
type Exit struct {
	Tool   string
	Number int
}

var (
	wrapperForms = []*regexp.Regexp{
		regexp.MustCompile(`^\(combined from similar events\): `),
		regexp.MustCompile(`^(?:AttachVolume|DetachVolume|MountVolume|UnmountVolume|UnmountDevice|MapVolume|UnmapVolume|NodeExpand[Vv]olume|VolumeFSResize)[A-Za-z. ]* (?:failed )?for volume "[^"]*" ?(?:\(UniqueName: [^)]*\) )?(?:on node \S+ ?|from node \S+ ?|pod "[^"]*" ?)*: ?`),
		regexp.MustCompile(`^failed to provision volume with StorageClass "[^"]*": `),
		regexp.MustCompile(`^(?:error|failed) (?:creating|to create) volume "[^"]*": `),
		regexp.MustCompile(`^kubernetes\.io/csi: (?:[A-Za-z]+\.[A-Za-z]+ failed: )?`),
		regexp.MustCompile(`^(?:attacher|mounter|blockMapper|Expander|expander)\.[A-Za-z]+ failed(?: to [a-zA-Z ]+)?: `),
		regexp.MustCompile(`^rpc error: code = \w+ desc = `),
	}
	codeForm = regexp.MustCompile(`rpc error: code = (\w+) desc = ?`)
)

// Apart takes a message apart.
func Apart(message string) Message {
	var m Message
	rest := strings.TrimSpace(message)
	for again := true; again; {
		again = false
		for _, form := range wrapperForms {
			if found := form.FindString(rest); found != "" {
				m.Wrappers = append(m.Wrappers, strings.TrimRight(found, ": "))
				rest, again = rest[len(found):], true
			}
		}
	}
	if codes := codeForm.FindAllStringSubmatch(message, -1); codes != nil {
		m.Code = codes[len(codes)-1][1]
	}
	m.Exits = exitsOf(message)
	m.Nouns = nounsOf(message)
	m.Rest = plain(codeForm.ReplaceAllString(rest, ""))
	return m
}

// The forms of values, which say nothing of the kind of an error.
var values = []struct {
	form        *regexp.Regexp
	placeholder string
}{
	{regexp.MustCompile(`(?i) under resource group ["']?[\w.-]+["']?`), " "},          // the place where Azure looked
	{regexp.MustCompile(`(?i)\b(?:sidecar|init|ephemeral) containers?\b`), "sidecar"}, // of a pod, and no place for data
	{regexp.MustCompile(`(?i)\bMicrosoft\.Compute/disks/[^\s"',)\]]+`), "disk <id>"},
	{regexp.MustCompile(`(?i)\bMicrosoft\.Compute/virtualMachine(?:s|ScaleSets)/[^\s"',)\]]+`), "machine <id>"},
	{regexp.MustCompile(`[a-z][a-z0-9+.-]*://[^\s"',)\]]+`), "<url>"},
	{regexp.MustCompile(`(?:^|[\s"'(\[=:])(/dev/[^\s"',)\]:]*)`), " <device> "},
	{regexp.MustCompile(`(?:^|[\s"'(\[=:])(/[^\s"',)\]:]*/globalmount)\b`), " <globalmount> "},
	{regexp.MustCompile(`(?:^|[\s"'(\[=:])(/[^\s"',)\]:]*/kubelet/pods/[^\s"',)\]:]*/volumes/[^\s"',)\]:]*)`), " <podmount> "},
	{regexp.MustCompile(`(?:^|[\s"'(\[=:])(/(?:[^\s"',)\]:]*))`), " <path> "},
	{regexp.MustCompile(`[^\s/"']*\d[^\s/"']*/[^\s"',)\]]+|[^\s/"']+/[^\s"',)\]]*\d[^\s"',)\]]*|[^\s/"']+(?:/[^\s/"']+){2,}`), "<id>"},
	{regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{4,}\b`), "<id>"},
	{regexp.MustCompile(`\b(?:vol|i|d|pvc|csi-vol|r006|ocid1[\w.]*)-[0-9a-z-]*[0-9][0-9a-z-]*\b`), "<id>"},
	{regexp.MustCompile(`\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b`), "<address>"},
}

var (
	camel    = regexp.MustCompile(`([a-z0-9])([A-Z][a-z])`)
	joints   = regexp.MustCompile(`([a-z])[._]([a-z])`)
	quoted   = regexp.MustCompile(`\\?["'\x60]([^\s"'\x60\\]*)\\?["'\x60]`)
	calls    = regexp.MustCompile(`\[?\b(?:Controller|Node)(?:Un)?(?:Publish|Stage|Expand|Attach|Detach|GetVolume)(?:Volume|Stats)?\b\]?:?`)
	exits    = regexp.MustCompile(`(?i)\(?\bexit (?:status|code) \d+\)?`)
	programs = regexp.MustCompile(`\b(nsenter|modprobe|[A-Z][a-z]+-(?:Disk|Partition\w*|Volume)) ?: `) // a program that the error is of
	either   = regexp.MustCompile(`([a-z])/([a-z])`)
	ofPath   = regexp.MustCompile(`(<\w+>)\s*: `) // an error number's text follows its path
	spaces   = regexp.MustCompile(`[ \t\r\n]+`)
	shouting = regexp.MustCompile(`\b[A-Z]+(?:_[A-Z]+)+\b`)
)

// plain is the text in lower case, as plain words.
func plain(text string) string {
	text = calls.ReplaceAllString(text, "")
	text = exits.ReplaceAllString(text, "")
	text = httpStatus.ReplaceAllString(text, "")
	text = programs.ReplaceAllString(text, "$1 ")
	for _, v := range values {
		text = v.form.ReplaceAllString(text, v.placeholder)
	}
	text = shouting.ReplaceAllStringFunc(text, func(name string) string { return strings.ReplaceAll(name, "_", " ") })
	text = quoted.ReplaceAllString(text, " $1 ")
	text = camel.ReplaceAllString(text, "$1 $2")
	text = strings.ToLower(text)
	text = joints.ReplaceAllString(text, "$1 $2")
	text = either.ReplaceAllString(text, "$1 $2")
	text = strings.NewReplacer("’", "'", "doesn't", "does not", "hasn't", "has not", "wasn't", "was not", "isn't", "is not", "aren't", "are not",
		"couldn't", "could not", "can't", "cannot", "didn't", "did not", "don't", "do not", "won't", "will not", "\\n", " ").Replace(text)
	text = ofPath.ReplaceAllString(text, "$1 ")
	return strings.TrimSpace(spaces.ReplaceAllString(text, " "))
}
