package safetext

import (
	"fmt"
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

// ContextFlag is kubectl's flag for another cluster than the current one: by the
// name of its context in the kubeconfig.
func ContextFlag(context string) string { return "--context=" + context }

// WithFlags is a command line of Kubectl or of KubectlWithInput with these flags, such as
// ContextFlag.
func WithFlags(command string, flags ...string) string {
	const kubectl, piped = "kubectl ", " | kubectl "
	if len(flags) == 0 {
		return command
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

// isPlain says that a word means itself to every shell. To zsh "=a" is the path
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
