package driverwords

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// example is what the files under testdata give for one entry: a whole message
// that it explains, and similar ones that it does not.
type example struct {
	file, words, driver, says string
	not                       []string
}

// readExamples reads all examples. In the files a line break within a message is
// written as \n.
func readExamples(t *testing.T) []example {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	var all []example
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range strings.Split(strings.TrimSpace(string(content)), "\n\n") {
			all = append(all, readExample(t, file, block))
		}
	}
	return all
}

func readExample(t *testing.T, file, block string) example {
	t.Helper()
	e := example{file: file}
	for _, line := range strings.Split(block, "\n") {
		key, value, _ := strings.Cut(line, " ")
		value = strings.ReplaceAll(value, `\n`, "\n")
		switch key {
		case "words":
			e.words = value
		case "driver":
			e.driver = value
		case "says":
			e.says = value
		case "not":
			e.not = append(e.not, value)
		default:
			t.Fatalf("%s: no key %q in %q", file, key, line)
		}
	}
	return e
}

// isFor reports whether the example is for the entry.
func (e example) isFor(entry Entry) bool {
	return e.words == entry.Words && (len(entry.Drivers) == 0) == (e.driver == "") && says(entry, e.driver)
}

func TestEveryEntryExplainsItsExample(t *testing.T) {
	examples := readExamples(t)
	for _, entry := range Entries() {
		count := 0
		for _, e := range examples {
			if !e.isFor(entry) {
				continue
			}
			count++
			if got, ok := Find(e.driver, e.says); !ok || got.Words != entry.Words || got.Driver() != entry.Driver() {
				t.Errorf("%s: %q of %q explains %q, want %q", e.file, got.Words, got.Driver(), e.says, entry.Words)
			}
			if len(e.not) == 0 {
				t.Errorf("%s: %q has no near miss", e.file, entry.Words)
			}
			for _, message := range e.not {
				if got, ok := Find(e.driver, message); ok && got.Words == entry.Words && got.Driver() == entry.Driver() {
					t.Errorf("%s: %q explains %q, which says something else", e.file, entry.Words, message)
				}
			}
		}
		if count != 1 {
			t.Errorf("%q of %q has %d examples, want 1", entry.Words, entry.Driver(), count)
		}
	}
	if len(examples) != len(Entries()) {
		t.Errorf("there are %d examples for %d entries", len(examples), len(Entries()))
	}
}

// A driver's words mean nothing in the mouth of a driver that nobody knows.
func TestDriverEntriesAreForTheirDriversOnly(t *testing.T) {
	for _, e := range readExamples(t) {
		if got, _ := Find("driver.example.com", e.says); len(got.Drivers) > 0 {
			t.Errorf("%q of %s explains what driver.example.com says: %q", got.Words, got.Driver(), e.says)
		}
		if got, _ := Find("", e.says); len(got.Drivers) > 0 {
			t.Errorf("%q of %s explains what no known driver says: %q", got.Words, got.Driver(), e.says)
		}
	}
}

// Each literal counts: an example with one letter of the words changed is not
// explained by the entry any more.
func TestEveryLetterOfTheWordsCounts(t *testing.T) {
	for _, e := range readExamples(t) {
		for _, literal := range placeholders.Split(e.words, -1) {
			text := strings.TrimSpace(literal)
			changed := strings.ReplaceAll(strings.ToLower(e.says), strings.ToLower(text), strings.ToLower(text[:len(text)-1])+"~")
			if got, _ := Find(e.driver, changed); got.Words == e.words {
				t.Errorf("%s: %q explains %q", e.file, e.words, changed)
			}
		}
	}
}

// The events of the controller and the kubelet put their own words around the
// driver's.
func TestEventsAreExplainedLikeTheirMessages(t *testing.T) {
	for _, e := range readExamples(t) {
		want, _ := Find(e.driver, e.says)
		for _, before := range []string{`AttachVolume.Attach failed for volume "pvc-0b1c" : `, `MountVolume.MountDevice failed for volume "pvc-0b1c" : `} {
			if got, _ := Find(e.driver, before+e.says); got.Words != want.Words || got.Driver() != want.Driver() {
				t.Errorf("%q explains %q, and %q the same without the event's words", got.Words, before+e.says, want.Words)
			}
		}
	}
}
