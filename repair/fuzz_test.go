package repair

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// spliced replaces cut bytes of the text with others.
func spliced(text string, at uint16, cut uint8, insert string) string {
	from := int(at) % (len(text) + 1)
	return text[:from] + insert + text[min(from+int(cut), len(text)):]
}

// undoing is a world after its repair, in which nothing but the journal decides
// what is undone. Nothing is ever written to it.
type undoing struct {
	*memory
	journal string
	sent    []Operation
	// genuine are the writes that the journal as it is leads to.
	genuine []Operation
}

func fuzzedWorlds(f *testing.F) (worlds []*undoing) {
	for _, world := range []func(testing.TB) *memory{lostEntry, comingBack, phantom, idle, lostStatefulSet, volumeGone, orphan} {
		u := &undoing{memory: world(f)}
		u.journal = string(repaired(f, u.memory).data)
		u.node("n1").Status.VolumesInUse = nil
		u.before = func(op Operation, _ bool) error {
			u.sent = append(u.sent, op)
			return ErrForbidden
		}
		entries, _, err := ReadJournal(strings.NewReader(u.journal))
		if err != nil || len(entries) == 0 {
			f.Fatalf("world %d: %d entries, %v", len(worlds), len(entries), err)
		}
		u.genuine = u.writes(f, entries)
		worlds = append(worlds, u)
	}
	return worlds
}

// writes are what Undo sends, of which nothing is let through.
func (u *undoing) writes(t testing.TB, entries []Entry) []Operation {
	u.sent = nil
	a, _ := u.applier()
	if _, err := a.Undo(t.Context(), entries); err != nil && len(u.sent) > 0 && !errors.Is(err, ErrForbidden) {
		t.Fatalf("refused after a write: %v", err)
	}
	u.log, u.announced, u.now = nil, nil, epoch
	return u.sent
}

// forged is the text as a journal that this tool could have written: lines that
// are entries, numbered and sealed by itself.
func forged(t *testing.T, text string) []Entry {
	var file sealed
	journal := NewJournal(&file, func() time.Time { return epoch }, nil)
	for line := range strings.Lines(text) {
		var e Entry
		if json.Unmarshal([]byte(line), &e) == nil {
			if err := journal.write(e); err != nil {
				t.Fatal(err)
			}
		}
	}
	entries, _, err := ReadJournal(&file)
	if err != nil {
		return nil
	}
	return entries
}

type sealed struct{ bytes.Buffer }

func (*sealed) Sync() error { return nil }

// FuzzReversal holds what a forged journal has undone against what the journal
// that was written has undone, over real journals with one place changed, and with
// their digests as they must be. Nothing else is ever sent.
func FuzzReversal(f *testing.F) {
	worlds := fuzzedWorlds(f)
	for i, u := range worlds {
		f.Add(uint8(i), uint16(0), uint8(0), "")
		for _, field := range []string{"target", "volume", "node", "uid", "name", "repair", "preImage", "undoes", "outcome", "kind", "code"} {
			if at := strings.Index(u.journal, `"`+field+`":"`); at >= 0 {
				f.Add(uint8(i), uint16(at+len(field)+4), uint8(2), "n2")
			}
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, at uint16, cut uint8, insert string) {
		u := worlds[int(which)%len(worlds)]
		text := spliced(u.journal, at, cut, insert)
		as, intact, err := ReadJournal(strings.NewReader(text))
		if err == nil {
			same, _, err := ReadJournal(strings.NewReader(text[:intact]))
			if err != nil || string(compact(same)) != string(compact(as)) {
				t.Fatalf("the intact part is another journal: %v", err)
			}
		}
		for _, entries := range [][]Entry{as, forged(t, text)} {
			for _, op := range u.writes(t, entries) {
				if !slices.ContainsFunc(u.genuine, func(g Operation) bool { return sameWrite(g, op) }) {
					t.Fatalf("a forged journal has this sent:\n%s\nnot\n%s", compact(op), compact(u.genuine))
				}
			}
		}
	})
}

// FuzzReadPlan holds a saved plan with one place changed against what is proposed.
// What is accepted writes back to the same, and only what is proposed is chosen.
func FuzzReadPlan(f *testing.F) {
	var texts []string
	var views []*View
	var proposals [][]Repair
	for _, world := range []func(testing.TB) *memory{lostEntry, comingBack, idle} {
		v, proposed := world(f).view()
		var file bytes.Buffer
		if err := Save(v, proposed).Write(&file); err != nil || len(proposed) == 0 {
			f.Fatal(err, len(proposed))
		}
		texts, views, proposals = append(texts, file.String()), append(views, v), append(proposals, proposed)
	}
	for i := range texts {
		f.Add(uint8(i), uint16(0), uint8(0), "")
		for _, field := range []string{"server", "fingerprint", "kind", "uid", "verb", "name", "patch"} {
			f.Add(uint8(i), uint16(strings.Index(texts[i], `"`+field+`": `)+len(field)+5), uint8(1), "x")
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, at uint16, cut uint8, insert string) {
		i := int(which) % len(texts)
		text := spliced(texts[i], at, cut, insert)
		plan, err := ReadApproved(strings.NewReader(text))
		if err != nil {
			return
		}
		var file bytes.Buffer
		if err := plan.Write(&file); err != nil {
			t.Fatal(err)
		}
		again, err := ReadApproved(&file)
		if err != nil || !bytes.Equal(compact(again), compact(plan)) {
			t.Fatalf("it is written again as another plan: %v\n%s", err, cmp.Diff(plan, again))
		}
		chosen, err := plan.Choose(views[i], proposals[i])
		if err != nil {
			return
		}
		for _, r := range chosen {
			fresh, reviewed := find(proposals[i], &r), find(plan.Repairs, &r)
			if fresh == nil || reviewed == nil {
				t.Fatalf("it was not proposed or not reviewed: %+v", r)
			}
			if !sameWrite(r.Do, reviewed.Do) {
				t.Fatalf("%s was reviewed, and %s is made", compact(reviewed.Do), compact(r.Do))
			}
		}
	})
}

// sameWrite compares all that is sent but the state that it was worked out on.
func sameWrite(a, b Operation) bool {
	a.Target.ResourceVersion, b.Target.ResourceVersion = "", ""
	return a.Verb == b.Verb && a.Target == b.Target && a.Subresource == b.Subresource && a.Merge == b.Merge &&
		jsonEqual(a.byHand(), b.byHand()) && jsonEqual(a.Object, b.Object)
}

func jsonEqual(a, b json.RawMessage) bool {
	var x, y any
	if len(a) == 0 || len(b) == 0 {
		return len(a) == len(b)
	}
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && cmp.Equal(x, y)
}

// FuzzCommand holds the commands that people paste against a shell's rules for
// words: each name is one word, and the text itself.
func FuzzCommand(f *testing.F) {
	for _, name := range []string{"n1", "a b", "'; touch /tmp/x; '", `"$(id)"`, "`id`", "$HOME", "a\nb", "*", "~", "#", "it's", "!!", "", "--all", "=ls", "ä\u202e\x1b", "\\'", "\xff"} {
		f.Add(name, "shop", "Pod")
		f.Add("web-0", name, "PersistentVolume")
	}
	f.Fuzz(func(t *testing.T, name, namespace, kind string) {
		target := corev1.ObjectReference{APIVersion: "v1", Kind: kind, Namespace: namespace, Name: name, UID: "u", ResourceVersion: "1"}
		for _, op := range []Operation{
			{Verb: VerbPatch, Target: target, Subresource: "status", Patch: compact([]patchOp{{"add", "/a", compact(name)}})},
			{Verb: VerbPatch, Target: target, Merge: true, Patch: compact(map[string]any{"metadata": map[string]any{"labels": map[string]string{name: namespace}}})},
			{Verb: VerbDelete, Target: target},
			{Verb: VerbCreate, Target: target, Object: compact(target)},
		} {
			line := op.Kubectl()
			words, err := shellWords(line)
			if err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			var input []string
			if words[0] == "printf" {
				if len(words) < 5 || words[1] != "%s" || words[3] != "|" {
					t.Fatalf("not printf %%s TEXT | COMMAND: %q", words)
				}
				input, words = words[2:3], words[4:]
			}
			if len(words) < 2 || words[0] != "kubectl" || words[1] != op.Verb {
				t.Fatalf("not kubectl %s: %q", op.Verb, words)
			}
			switch op.Verb {
			case VerbCreate:
				if len(words) != 4 || input[0] != string(op.Object) {
					t.Fatalf("%q with %q, not %q", words, input, op.Object)
				}
			case VerbDelete:
				if len(words) != 6 || words[3] != op.path() {
					t.Fatalf("%q does not delete %q", words, op.path())
				}
			default:
				object := words[2 : len(words)-3]
				if got := object[0]; got != strings.ToLower(kind) && got != strings.ToLower(kind)+"/"+name || words[len(words)-1] != string(op.byHand()) {
					t.Fatalf("%q does not patch %q %q", words, kind, name)
				}
				if got := object[0]; got == strings.ToLower(kind) && (len(object) < 2 || object[1] != name || strings.HasPrefix(name, "-")) {
					t.Fatalf("%q does not name %q", words, name)
				}
			}
		}
	})
}

// shellWords takes a line apart as shells do: blanks, single quotes, $'...' with
// octal escapes, and a backslash outside quotes. It takes no other character that
// means something to a shell, except a pipe that stands alone.
func shellWords(line string) (words []string, err error) {
	var word strings.Builder
	inWord := false
	end := func() {
		if inWord {
			words = append(words, word.String())
		}
		word.Reset()
		inWord = false
	}
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case c == ' ':
			end()
			continue
		case strings.HasPrefix(line[i:], "$'"):
			n, text, err := escapedText(line[i+2:])
			if err != nil {
				return nil, err
			}
			word.WriteString(text)
			i += 1 + n
		case c == '\'':
			close := strings.IndexByte(line[i+1:], '\'')
			if close < 0 {
				return nil, errors.New("a quote without its end")
			}
			word.WriteString(line[i+1 : i+1+close])
			i += close + 1
		case c == '\\' && i+1 < len(line) && line[i+1] != '\n':
			i++
			word.WriteByte(line[i])
		case c == '|' && !inWord && i+1 < len(line) && line[i+1] == ' ':
			word.WriteByte(c)
		case strings.IndexByte("|&;<>()$`\\\"\t\n*?[#~!{}", c) >= 0, c == '=' && !inWord, c < ' ', c >= 0x7f:
			return nil, errors.New("a character that means something to a shell, or to a terminal: " + string(compact(string(c))))
		default:
			word.WriteByte(c)
		}
		inWord = true
	}
	end()
	return words, nil
}

// escapedText reads what stands between $' and the next quote; n is its length
// with that quote.
func escapedText(line string) (n int, text string, err error) {
	var b strings.Builder
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\'':
			return i + 1, b.String(), nil
		case c != '\\':
			b.WriteByte(c)
		case strings.HasPrefix(line[i:], `\\`):
			b.WriteByte(c)
			i++
		default:
			if len(line) < i+4 {
				return 0, "", errors.New("an escape that was cut off")
			}
			octal, err := strconv.ParseUint(line[i+1:i+4], 8, 8)
			if err != nil {
				return 0, "", err
			}
			b.WriteByte(byte(octal))
			i += 3
		}
	}
	return 0, "", errors.New("a quote without its end")
}
