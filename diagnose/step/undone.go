package step

import (
	"regexp"
	"strings"
)

// The clauses that say whether a change can be undone.
const (
	ForGood      = "cannot be undone"
	PodsStayAway = "can be undone; ended pods stay away"
	ForNow       = "can be undone"
)

// changes are the words of advised changes: of what runs, of what is attached, and of what the
// cluster acts on immediately. What cannot be undone comes first.
var changes = []struct {
	clause string
	words  *regexp.Regexp
}{
	{ForGood, advised(`delete|restart|reboot|end|stop|evict|kill|detach|unmount|remove|move the pod|run fsck|(?:check and )?repair the file system|replace it|` +
		`take (?:the UID|the partitions? off|off (?:its|their|the) finalizers?)|put the claim's UID|make claim \S+ again|see to it that the pod is deleted|` +
		`recreate (?:it|both|the pods?|(?:the|this) (?:claim|volume)|claim)`)},
	{PodsStayAway, advised(`drain|taint|power off`)},
	{ForNow, advised(`make (?:PersistentVolume|volume) \S+ again|scale|set the strategy|cordon|uncordon|annotate|take the taint off|set (?:the|its) (?:reclaim )?policy`)},
}

// advised matches a verb, with its object, where it is an imperative.
func advised(verbs string) *regexp.Regexp {
	return regexp.MustCompile(`(?i)(?:^ ?|[:,(] |\b(?:and|or|then|first|afterwards|now|only|meanwhile|after that) )(?:` + verbs + `)\b`)
}

// WithUndone adds to each sentence of the text, after the clause about the change that it advises,
// whether that can be undone. clause is what is known of the command; "" where there is none.
func WithUndone(text, clause string) string {
	if strings.Contains(text, " be undone") {
		return text
	}
	var b strings.Builder
	for rest := text; rest != ""; {
		end := clauseEnd(rest, 0, sentenceEnds)
		b.WriteString(sentenceWithUndone(rest[:end]))
		rest = rest[end:]
		if rest != "" {
			b.WriteByte(rest[0])
			rest = rest[1:]
		}
	}
	if text = b.String(); clause != "" && !strings.Contains(text, clause) {
		return enclosed(text, len(text), clause)
	}
	return text
}

func sentenceWithUndone(text string) string {
	for _, c := range changes {
		if at := c.words.FindStringIndex(text); at != nil {
			return enclosed(text, clauseEnd(text, at[1], clauseEnds), c.clause)
		}
	}
	return text
}

// enclosed puts the clause in parentheses into the text, or into the parentheses that end there.
func enclosed(text string, at int, clause string) string {
	if open, ends := strings.CutSuffix(text[:at], ")"); ends {
		return open + "; " + clause + ")" + text[at:]
	}
	return text[:at] + " (" + clause + ")" + text[at:]
}

// The ends of sentences, or of their alternatives, and of clauses: a comma before what follows
// from a change, or is done besides, ends one.
var (
	sentenceEnds = regexp.MustCompile(`^(?:[;.] |, or )`)
	clauseEnds   = regexp.MustCompile(`^(?:[;.:]$|[;.:] |, (?:and|or|so|let|until|as|but|if|which|where|with|find) )`)
)

// clauseEnd is the first end outside parentheses from the position on, or the end of the text.
func clauseEnd(text string, from int, ends *regexp.Regexp) int {
	depth := 0
	for i := from; i < len(text); i++ {
		switch c := text[i]; {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case depth == 0 && ends.MatchString(text[i:]):
			return i
		}
	}
	return len(text)
}
