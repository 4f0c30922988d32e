package repair

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// FuzzCommand checks the commands that people paste against a shell's rules for words: each
// name is one word, and is the text itself.
func FuzzCommand(f *testing.F) {
	for _, name := range []string{"n1", "a b", "'; touch /tmp/x; '", `"$(id)"`, "`id`", "$HOME", "a\nb", "*", "~", "#", "it's", "!!", "", "--all", "=ls", "ä\u202e\x1b", "\\'", "\xff"} {
		f.Add(name, "shop", "Pod")
		f.Add("web-0", name, "PersistentVolume")
	}
	f.Fuzz(func(t *testing.T, name, namespace, kind string) {
		target := corev1.ObjectReference{APIVersion: "v1", Kind: kind, Namespace: namespace, Name: name, UID: "u", ResourceVersion: "1"}
		for _, op := range []Operation{
			{Verb: VerbPatch, Target: target, Subresource: "status", Patch: Compact([]patchOp{{"add", "/a", Compact(name)}})},
			{Verb: VerbPatch, Target: target, Merge: true, Patch: Compact(map[string]any{"metadata": map[string]any{"labels": map[string]string{name: namespace}}})},
			{Verb: VerbDelete, Target: target},
			{Verb: VerbCreate, Target: target, Object: Compact(target)},
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
			return nil, errors.New("a character that means something to a shell, or to a terminal: " + string(Compact(string(c))))
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
