package driverwords

import (
	"maps"
	"slices"
	"strconv"
)

// Speakers are the names of the drivers in the table, and of the tools whose numbers have a
// meaning.
func Speakers() (drivers, programs []string) {
	for _, f := range families {
		drivers = append(drivers, f.drivers...)
	}
	for _, t := range numbering() {
		programs = append(programs, t.name)
	}
	slices.Sort(drivers)
	return slices.Compact(drivers), programs
}

// Of are the driver's own entries, with "" those of any driver; or of a tool, an entry for each
// number.
func Of(speaker string) []Entry {
	own := func(e Entry) bool { return says(e, speaker) && (len(e.Drivers) > 0) == (speaker != "") }
	entries := slices.DeleteFunc(Entries(), func(e Entry) bool { return !own(e) })
	for _, t := range numbering() {
		if t.name != speaker {
			continue
		}
		for _, number := range slices.Sorted(maps.Keys(numbers[t.name])) {
			entries = append(entries, t.entry(number))
		}
	}
	return entries
}

// numbering are the tools with the answers of HTTP.
func numbering() []tool { return append(slices.Clip(tools), httpAnswers) }

// entry is the meaning of the tool's number.
func (t tool) entry(number int) Entry {
	n := numbers[t.name][number]
	return meant(n.meaning, t.name+" "+strconv.Itoa(number)+", "+n.says, n.helps, t.source)
}
