package driverwords

import (
	"cmp"
	"regexp"
	"slices"
)

// NounKind is the kind of a noun in a message.
type NounKind string

// The kinds.
const (
	NodeNoun      NounKind = "node"
	MachineNoun   NounKind = "machine"
	ZoneNoun      NounKind = "zone"
	HandleNoun    NounKind = "volume"
	ClaimNoun     NounKind = "claim"
	SecretNoun    NounKind = "secret"
	ConfigMapNoun NounKind = "configmap"
	ClassNoun     NounKind = "class"
	DeviceNoun    NounKind = "device"
	PathNoun      NounKind = "path"
)

// Noun is a thing that a message names.
type Noun struct {
	Kind NounKind
	// Name is the name as the message has it, without quotes.
	Name string
}

const (
	// named is a name in quotes, in parentheses or bare; it begins and ends with a letter or digit.
	named  = `(?:ID |name |names |with ID |with name )?[\\"'\x60(\[:= ]*([A-Za-z0-9](?:[A-Za-z0-9._/#-]*[A-Za-z0-9])?)`
	beside = `(?:[\s\\"'\x60)\],;:.]|$)`
)

var nounForms = []struct {
	kind NounKind
	form *regexp.Regexp
}{
	{NodeNoun, regexp.MustCompile(`(?i)\b(?:nodes?|host|VM/VMI|node name)` + `[ :=]` + named + beside)},
	{MachineNoun, regexp.MustCompile(`(?i)\b(?:instances?|servers?|droplet|linode|vms?|virtualmachine|machine)` + `[ :=]` + named + beside)},
	{MachineNoun, regexp.MustCompile(`\b(i-[0-9a-f]{4,17})\b`)},
	{ZoneNoun, regexp.MustCompile(`(?i)\b(?:zone|region)` + `[ :=]` + named + beside)},
	{HandleNoun, regexp.MustCompile(`(?i)\b(?:volumes?|disk|volumeID|image)` + `[ :=]` + named + beside)},
	{HandleNoun, regexp.MustCompile(`\b(vol-[0-9a-f]{4,17}|pvc-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\b`)},
	{ClaimNoun, regexp.MustCompile(`(?i)\b(?:persistentvolumeclaims?|pvc|claim)` + `[ :=]` + named + beside)},
	{SecretNoun, regexp.MustCompile(`(?i)\bsecrets?` + `[ :=(]` + named + beside)},
	{ConfigMapNoun, regexp.MustCompile(`(?i)\bconfigmaps?` + `[ :=]` + named + beside)},
	{ClassNoun, regexp.MustCompile(`(?i)\bstorage ?class(?:es\.storage\.k8s\.io)?` + `[ :=]` + named + beside)},
	{DeviceNoun, regexp.MustCompile(`(/dev/[\w./-]*\w)`)},
	{PathNoun, regexp.MustCompile(`(/var/lib/[\w./~-]*\w)`)},
}

// nounsOf finds what a message names, in its order. What stands behind a kind's word need
// not be a name: whoever looks it up decides that.
func nounsOf(message string) []Noun {
	type found struct {
		at   int
		noun Noun
	}
	var all []found
	for _, f := range nounForms {
		for _, at := range f.form.FindAllStringSubmatchIndex(message, -1) {
			n := found{at[2], Noun{f.kind, message[at[2]:at[3]]}}
			if !slices.ContainsFunc(all, func(o found) bool { return o.noun == n.noun }) {
				all = append(all, n)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b found) int { return cmp.Compare(a.at, b.at) })
	list := make([]Noun, len(all))
	for i, f := range all {
		list[i] = f.noun
	}
	return list
}
