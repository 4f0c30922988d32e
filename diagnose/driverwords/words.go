package driverwords

import (
	"embed"
	"path"
	"slices"
	"strings"
)

// words has a file for each storage vendor, or kind of tool. A family begins with a line
// "drivers": the names of those that say the words, or "any"; "source" is where those of its
// entries were read that name none. An entry is a line with its meaning and its words, which
// begin and end with a text; the lines below it that begin with two spaces are its fields.
// "#" begins a comment.
//
//go:embed words
var words embed.FS

// family is the words of one storage system's drivers.
type family struct {
	file    string
	drivers []string
	// source is where the entries were read that name no other place.
	source  string
	entries []Entry
}

// families are the families of the files, in the order of their names.
var families = readFamilies()

func readFamilies() []family {
	files, err := words.ReadDir("words")
	if err != nil {
		panic(err)
	}
	var all []family
	for _, f := range files {
		text, err := words.ReadFile(path.Join("words", f.Name()))
		if err != nil {
			panic(err)
		}
		all = append(all, parse(f.Name(), string(text))...)
	}
	return all
}

// parse reads the families of a file. A line that it does not understand is a mistake in
// the program.
func parse(file, text string) []family {
	var all []family
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		last := len(all) - 1
		key, value, _ := strings.Cut(strings.TrimPrefix(line, "  "), " ")
		_, means := meanings[Meaning(key)]
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case key == "drivers":
			all = append(all, family{file: file, drivers: slices.DeleteFunc(strings.Fields(value), func(name string) bool { return name == "any" })})
		case last >= 0 && strings.HasPrefix(line, "  ") && len(all[last].entries) > 0:
			entries := all[last].entries
			if !entries[len(entries)-1].set(key, value) {
				panic(file + ": an entry has no field " + key)
			}
		case last >= 0 && key == "source":
			all[last].source = value
		case last >= 0 && means && value != "" && !strings.HasPrefix(value, "{") && !strings.HasSuffix(value, "}"):
			all[last].entries = append(all[last].entries, Entry{Meaning: Meaning(key), Words: value})
		default:
			panic(file + ": no entry: " + line)
		}
	}
	return all
}

// set reports whether there is such a field.
func (e *Entry) set(key, value string) bool {
	switch key {
	case "actor":
		e.Actor = Actor(value)
	case "helps":
		e.Helps = value
	case "source":
		e.Source = value
	case "wrapper":
		e.Wrapper = true
	default:
		return false
	}
	return true
}
