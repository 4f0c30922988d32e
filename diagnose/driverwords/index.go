package driverwords

import (
	"iter"
	"regexp"
	"strings"
)

const (
	// anyText is the placeholder that also stands for text with spaces.
	anyText = "{...}"
	// longestValue is how long the text of a placeholder may be.
	longestValue = 400
	// gramLength is the length of the texts that the index looks up. No entry may
	// have a shorter anchor.
	gramLength = 4
)

// index finds the patterns that occur in a message without trying each. It looks up every text of
// gramLength bytes of the message, and compares only the patterns whose anchor begins with that
// text.
type index struct {
	patterns []pattern
	byGram   map[string][]int
}

// placeholders are the two kinds of placeholder in words.
var placeholders = regexp.MustCompile(`\{(?:\.\.\.)?\}`)

// pattern is the compiled form of an entry's words.
type pattern struct {
	literals []string
	// spaces says for each placeholder whether its text may contain spaces.
	// Placeholder n stands between the literals n and n+1.
	spaces []bool
	// anchor is the position of the longest literal.
	anchor int
	// length is the length of all literals together.
	length int
}

var theIndex = newIndex(table)

func newIndex(entries []Entry) index {
	x := index{byGram: map[string][]int{}}
	for n, e := range entries {
		p := compile(e.Words)
		x.patterns = append(x.patterns, p)
		gram := p.literals[p.anchor][:gramLength]
		x.byGram[gram] = append(x.byGram[gram], n)
	}
	return x
}

func compile(words string) pattern {
	p := pattern{literals: placeholders.Split(strings.ToLower(words), -1)}
	for _, placeholder := range placeholders.FindAllString(words, -1) {
		p.spaces = append(p.spaces, placeholder == anyText)
	}
	for i, literal := range p.literals {
		p.length += len(literal)
		if len(literal) > len(p.literals[p.anchor]) {
			p.anchor = i
		}
	}
	return p
}

// matches yields the positions of the patterns that occur in message, which is
// in lower case. A pattern may be yielded more than once.
func (x index) matches(message string) iter.Seq[int] {
	return func(yield func(int) bool) {
		for at := 0; at+gramLength <= len(message); at++ {
			for _, n := range x.byGram[message[at:at+gramLength]] {
				p := x.patterns[n]
				if strings.HasPrefix(message[at:], p.literals[p.anchor]) && p.matches(message, at) && !yield(n) {
					return
				}
			}
		}
	}
}

// matches reports whether the pattern occurs in message with its anchor at the
// given position.
func (p pattern) matches(message string, at int) bool {
	return p.before(message, at, p.anchor) && p.after(message, at+len(p.literals[p.anchor]), p.anchor)
}

// before reports whether the literals before literal n end where it starts.
func (p pattern) before(message string, start, n int) bool {
	if n == 0 {
		return isEdge(message, start, p.literals[0][:1])
	}
	previous := p.literals[n-1]
	for at := strings.LastIndex(message[:start], previous); at >= 0; at = strings.LastIndex(message[:at+len(previous)-1], previous) {
		end := at + len(previous)
		if start-end > longestValue {
			return false
		}
		if p.stands(n-1, message[end:start]) && p.before(message, at, n-1) {
			return true
		}
	}
	return false
}

// stands reports whether placeholder n may stand for value.
func (p pattern) stands(n int, value string) bool {
	return value != "" && (p.spaces[n] || !strings.ContainsAny(value, " \t\n"))
}

// after reports whether the literals after literal n follow on end.
func (p pattern) after(message string, end, n int) bool {
	if n == len(p.literals)-1 {
		last := p.literals[n]
		return isEdge(message, end, last[len(last)-1:])
	}
	next := p.literals[n+1]
	for from := end + 1; from <= len(message); {
		at := strings.Index(message[from:], next)
		if at < 0 || from+at-end > longestValue {
			return false
		}
		if p.stands(n, message[end:from+at]) && p.after(message, from+at+len(next), n+1) {
			return true
		}
		from += at + 1
	}
	return false
}

// isEdge reports whether the words may begin or end at the given position: not
// in the middle of a word or a number. beside is the outermost character of the
// words there.
func isEdge(message string, at int, beside string) bool {
	return !isAlphanumeric(beside[0]) || at == 0 || at == len(message) || !isAlphanumeric(message[at-1]) || !isAlphanumeric(message[at])
}

func isAlphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}
