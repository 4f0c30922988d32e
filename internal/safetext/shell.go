package safetext

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Kubectl is the command line "kubectl WORD..." for a POSIX shell. Nothing else
// in this module writes one, so that no word in it goes unquoted: see
// TestCommandsAreBuilt.
func Kubectl(words ...string) string {
	quoted := []string{"kubectl"}
	for _, word := range words {
		quoted = append(quoted, Quote(word))
	}
	return strings.Join(quoted, " ")
}

// KubectlWithInput is Kubectl with a text on its standard input.
func KubectlWithInput(input string, words ...string) string {
	return "printf %s " + Quote(input) + " | " + Kubectl(words...)
}

// WithFlags is a command line of Kubectl or of KubectlWithInput with these flags, such as --context.
func WithFlags(command string, flags ...string) string {
	const kubectl, plugin, piped = "kubectl ", "volume-doctor ", " | kubectl "
	if len(flags) == 0 {
		return command
	}
	if strings.HasPrefix(command, kubectl+plugin) { // kubectl takes no flag before the name of a plug-in
		return command + strings.TrimPrefix(Kubectl(flags...), "kubectl")
	}
	if words, ok := strings.CutPrefix(command, kubectl); ok {
		return Kubectl(flags...) + " " + words
	}
	// What stands before the pipe is quoted, and may have anything in it.
	if i := strings.LastIndex(command, piped); i >= 0 && strings.HasPrefix(command, "printf %s ") {
		return command[:i] + " | " + Kubectl(flags...) + " " + command[i+len(piped):]
	}
	return command
}

// KubectlWords are the words after "kubectl" of a command line from elsewhere, for another
// Kubectl. ok is false unless the line is one command of kubectl, written as Kubectl writes
// it: without an operator, an expansion or a hidden character.
func KubectlWords(line string) (words []string, ok bool) {
	words, ok = split(line)
	if !ok || words[0] != "kubectl" || !strings.HasPrefix(line, "kubectl ") {
		return nil, false
	}
	return words[1:], true
}

// split is the opposite of words that are quoted by Quote with a blank between them.
func split(line string) (words []string, ok bool) {
	if !utf8.ValidString(line) || strings.ContainsFunc(line, Hidden) {
		return nil, false
	}
	for rest := line; ; {
		var word string
		if word, rest, ok = firstWord(rest); !ok {
			return nil, false
		}
		words = append(words, word)
		if rest == "" {
			return words, true
		}
		rest = rest[1:] // the blank
	}
}

// firstWord takes a word that Quote may have written from the text, up to a blank.
func firstWord(text string) (word, rest string, ok bool) {
	var b strings.Builder
	for rest = text; rest != "" && rest[0] != ' '; {
		switch {
		case strings.HasPrefix(rest, `\'`):
			b.WriteByte('\'')
			rest = rest[len(`\'`):]
		case strings.HasPrefix(rest, "$'"):
			var inside string
			if inside, rest, ok = unescape(rest[len("$'"):]); !ok {
				return "", "", false
			}
			b.WriteString(inside)
		case rest[0] == '\'':
			inside, after, closed := strings.Cut(rest[1:], "'")
			if !closed {
				return "", "", false
			}
			b.WriteString(inside)
			rest = after
		case isPlain("-"+rest[:1]) && (rest[0] != '=' || len(rest) < len(text)):
			b.WriteByte(rest[0])
			rest = rest[1:]
		default:
			return "", "", false
		}
	}
	return b.String(), rest, len(rest) < len(text)
}

// unescape takes what quoteEscaped has written, up to the closing quote.
func unescape(text string) (inside, rest string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(text); {
		switch {
		case text[i] == '\'':
			return b.String(), text[i+1:], true
		case strings.HasPrefix(text[i:], `\\`):
			b.WriteByte('\\')
			i += 2
		case text[i] == '\\':
			if i+4 > len(text) {
				return "", "", false
			}
			c, err := strconv.ParseUint(text[i+1:i+4], 8, 8)
			if err != nil {
				return "", "", false
			}
			b.WriteByte(byte(c))
			i += 4
		default:
			b.WriteByte(text[i])
			i++
		}
	}
	return "", "", false
}

// Quote makes one word of the text for a POSIX shell, also if it is empty. Text
// with hidden characters is quoted so that none of them is in the word: bash, zsh
// and ksh give the same text back, and a shell that does not know this way of
// quoting gives another text, but still one word.
func Quote(s string) string {
	switch {
	case isPlain(s):
		return s
	case !utf8.ValidString(s) || strings.ContainsFunc(s, Hidden):
		return quoteEscaped(s)
	default:
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
}

// isPlain reports whether a word means itself to every shell. To zsh "=a" is the path
// of the program a, and "~" is a home.
func isPlain(s string) bool {
	if s == "" || s[0] == '=' {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("_./:=,@%+-", r)
	})
}

// quoteEscaped has no quote inside, not even an escaped one: to a shell that
// does not know the dollar before it, it must still end where it ends.
func quoteEscaped(s string) string {
	var b strings.Builder
	b.WriteString("$'")
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '\\':
			b.WriteString(`\\`)
		case r == '\'' || Hidden(r) || r == utf8.RuneError && size == 1:
			for _, c := range []byte(s[i : i+size]) {
				fmt.Fprintf(&b, `\%03o`, c)
			}
		default:
			b.WriteString(s[i : i+size])
		}
		i += size
	}
	b.WriteString("'")
	return b.String()
}
