package apply

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// intentLine and outcomeLine have no digests yet; chained adds them.
const intentLine = `{"apiVersion":"volume-doctor/v1","kind":"JournalEntry","type":"intent","write":1,"time":"2026-11-20T10:00:00Z",` +
	`"finding":{"code":"VD301","check":"inuse-not-attached","fingerprint":"f","subject":{"kind":"Pod","name":"p"}},` +
	`"repair":"patch-node-status","operation":{"verb":"patch","target":{}}}` + "\n"

const outcomeLine = `{"apiVersion":"volume-doctor/v1","kind":"JournalEntry","type":"outcome","write":1,"time":"2026-11-20T10:00:00Z","outcome":"Repaired"}` + "\n"

// chained puts the right digest into every whole line that is an object.
func chained(text string) string {
	var out strings.Builder
	previous := ""
	for line := range strings.Lines(text) {
		if object, ok := strings.CutSuffix(line, "}\n"); ok {
			previous = digestOf(previous, []byte(object+"}"))
			line = object + digestStart + previous + digestEnd + "\n"
		}
		out.WriteString(line)
	}
	return out.String()
}

func TestReadJournalIsStrict(t *testing.T) {
	for name, test := range map[string]struct{ text, says string }{
		"not JSON":                  {"hello\n", "line 1"},
		"not a journal at all":      {"my diary", "line 1 of the journal is no entry"},
		"not a journal in the end":  {intentLine + "PS", "line 2 of the journal is no entry"},
		"empty line":                {intentLine + "\n" + outcomeLine, "line 2"},
		"torn in the middle":        {intentLine[:40] + "\n" + outcomeLine, "line 1"},
		"unknown field":             {strings.Replace(intentLine, `"write"`, `"wrong":1,"write"`, 1), `unknown field "wrong"`},
		"two on a line":             {strings.TrimSuffix(intentLine, "\n") + outcomeLine, "something after"},
		"another kind":              {strings.Replace(intentLine, "JournalEntry", "Report", 1), `it is a "Report"`},
		"another version":           {strings.Replace(intentLine, "volume-doctor/v1", "volume-doctor/v2", 1), `of "volume-doctor/v2"`},
		"another type":              {strings.Replace(intentLine, `"intent"`, `"idea"`, 1), `type "idea"`},
		"intent without operation":  {strings.Replace(intentLine, `,"operation":{"verb":"patch","target":{}}`, "", 1), "lacks"},
		"outcome without intent":    {outcomeLine, "never announced"},
		"two outcomes":              {intentLine + outcomeLine + outcomeLine, "two outcomes"},
		"announced twice":           {intentLine + intentLine, "announced twice"},
		"announced after its end":   {intentLine + outcomeLine + intentLine, "announced twice"},
		"outcome that says nothing": {intentLine + strings.Replace(outcomeLine, `,"outcome":"Repaired"`, "", 1), "says nothing"},
		"no number":                 {strings.Replace(intentLine, `"write":1`, `"write":0`, 1), "no write 0"},
	} {
		entries, _, err := ReadJournal(strings.NewReader(chained(test.text)))
		if err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, %v", name, entries, err)
		}
	}
}

// TestReadJournalTornAnywhere: a journal that is cut at any byte reads as its whole lines,
// and the length of these is returned.
func TestReadJournalTornAnywhere(t *testing.T) {
	m := two(t)
	sink := repaired(t, m)
	whole := string(sink.data)
	all := sink.entries()
	rapid.Check(t, func(rt *rapid.T) {
		at := rapid.IntRange(0, len(whole)).Draw(rt, "cut")
		entries, intact, err := ReadJournal(strings.NewReader(whole[:at]))
		lines := strings.Count(whole[:at], "\n")
		if err != nil || len(entries) != lines || int(intact) != strings.LastIndex(whole[:at], "\n")+1 {
			rt.Fatalf("%d entries, intact to %d, %v", len(entries), intact, err)
		}
		if diff := cmp.Diff(all[:lines], append([]Entry{}, entries...)); diff != "" {
			rt.Fatal(diff)
		}
	})
}

// FuzzReadJournal: the intact part of any text reads the same as the text.
func FuzzReadJournal(f *testing.F) {
	f.Add(chained(intentLine + outcomeLine))
	f.Add(intentLine + outcomeLine)
	f.Add(intentLine[:50])
	f.Fuzz(func(t *testing.T, text string) {
		entries, intact, err := ReadJournal(strings.NewReader(text))
		if err != nil {
			return
		}
		again, _, err := ReadJournal(strings.NewReader(text[:intact]))
		if err != nil || len(again) != len(entries) {
			t.Errorf("%d entries, then %d, %v", len(entries), len(again), err)
		}
		_ = standingIn(entries)
	})
}
