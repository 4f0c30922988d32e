// Package driverwords explains the error messages of CSI drivers and of the tools that they run.
// Its files in words have literal words, from a driver's source or from a message that a user
// pasted, with their meaning, who has to act, and what helps.
package driverwords

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Entry explains the words of one error message.
type Entry struct {
	// Drivers are the CSI driver names that say the words; empty for any driver.
	// A name also stands for the same name behind a prefix, as Rook uses it
	// ("rook-ceph.rbd.csi.ceph.com"). A name that ends with "*" is a prefix.
	Drivers []string
	// Words are the literal words. "{}" stands for one value without spaces, such
	// as an id or a path, and "{...}" for any text. Upper and lower case are the
	// same.
	Words string
	// Meaning is the meaning of the words.
	Meaning Meaning
	// Actor is who has to act. Find and Entries fill it in from the meaning where
	// the table leaves it empty.
	Actor Actor
	// Helps is one sentence that says what helps, filled in like Actor.
	Helps string
	// Source is where the words were read: "owner/repository path@ref", or the address of a
	// thread. An entry without one has its family's.
	Source string
	// Wrapper marks words that only wrap or classify a cause, such as an exit
	// code. Any other match is more specific than a wrapper.
	Wrapper bool
	// Kubernetes marks words of Kubernetes' own programs, such as the kubelet and the API server.
	Kubernetes bool
	// Layer is how Read knows the meaning; empty in the table.
	Layer Layer
}

// Driver is the first of the entry's driver names, "" for any driver.
func (e Entry) Driver() string {
	if len(e.Drivers) == 0 {
		return ""
	}
	return e.Drivers[0]
}

// table holds all entries in the order of families, complete.
var table = complete()

func complete() []Entry {
	var all []Entry
	for _, f := range families {
		for _, e := range f.entries {
			e.Drivers, e.Kubernetes = f.drivers, f.file == "any-kubernetes.txt"
			about := meanings[e.Meaning]
			e.Actor = cmp.Or(e.Actor, about.Actor)
			e.Helps = cmp.Or(e.Helps, about.Helps)
			e.Source = cmp.Or(e.Source, f.source)
			all = append(all, e)
		}
	}
	return all
}

// Entries returns all entries in the order of the table.
func Entries() []Entry {
	return slices.Clone(table)
}

// Find returns the most specific entry whose words occur in the driver's message. A driver's own
// entry goes before one for any driver, and a longer text before a shorter one; wrappers come
// last. With driver "" only the entries for any driver count.
func Find(driver, message string) (Entry, bool) {
	best := -1
	for n := range theIndex.matches(strings.ToLower(message)) {
		if says(table[n], driver) && (best < 0 || moreSpecific(n, best)) {
			best = n
		}
	}
	if best < 0 {
		return Entry{}, false
	}
	return table[best], true
}

// FindAll returns, for a message of an unknown driver, the result of Find for each driver with
// its words, the most specific first. Equal entries stand once, with all their drivers. Where the
// message names a driver of the table, only that one counts.
func FindAll(message string) []Entry {
	message = strings.ToLower(message)
	best := map[string]int{}
	for n := range theIndex.matches(message) {
		family := strings.Join(table[n].Drivers, " ")
		if old, ok := best[family]; !ok || moreSpecific(n, old) {
			best[family] = n
		}
	}
	found := slices.SortedFunc(maps.Values(best), func(a, b int) int {
		if moreSpecific(a, b) {
			return -1
		}
		return 1
	})
	named := func(n int) bool {
		return slices.ContainsFunc(table[n].Drivers, func(name string) bool { return strings.Contains(message, strings.TrimSuffix(name, "*")) })
	}
	onlyNamed := slices.ContainsFunc(found, named)
	var list []Entry
	for _, n := range found {
		e := table[n].in(message)
		if onlyNamed && (len(e.Drivers) > 0 && !named(n) || len(list) > 0) {
			continue
		}
		same := slices.IndexFunc(list, func(o Entry) bool { return o.Meaning == e.Meaning && o.Actor == e.Actor && o.Helps == e.Helps })
		if same >= 0 {
			list[same].Drivers = slices.Concat(list[same].Drivers, e.Drivers)
			continue
		}
		list = append(list, e)
	}
	return list
}

func says(e Entry, driver string) bool {
	if len(e.Drivers) == 0 {
		return true
	}
	return slices.ContainsFunc(e.Drivers, func(name string) bool {
		if prefix, ok := strings.CutSuffix(name, "*"); ok {
			return strings.HasPrefix(driver, prefix)
		}
		return driver == name || strings.HasSuffix(driver, "."+name)
	})
}

// moreSpecific orders entries that match the same message. The order of the
// table decides between equals.
func moreSpecific(a, b int) bool {
	x, y := table[a], table[b]
	if x.Wrapper != y.Wrapper {
		return !x.Wrapper
	}
	if own, others := len(x.Drivers) > 0, len(y.Drivers) > 0; own != others {
		return own
	}
	if long, longest := theIndex.patterns[a].length, theIndex.patterns[b].length; long != longest {
		return long > longest
	}
	return a < b
}
