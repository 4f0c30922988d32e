package snapshot

import (
	"bufio"
	"bytes"
	"regexp"
	"strings"
)

var (
	quoted  = regexp.MustCompile(`^(> ?)+`)
	replied = regexp.MustCompile(`(?m)^> ?(apiVersion|kind|items):`)
	fence   = regexp.MustCompile("(?m)^[ \t]*(```|~~~)")
	// numbered matches the first line of a text whose lines were numbered by cat, an editor, grep
	// or bat, including the text after the number.
	numbered = regexp.MustCompile(`^ *\d+(\t|(?:: ?|[ -]| ?[|│] )(?:apiVersion:|kind:|items:|---|- |[{\[]))`)
	lineNo   = regexp.MustCompile(`^ *\d+(\t|:| ?[|│] ?| )?`)
	// spaced matches a number before a colon and a blank, and dashed a number before grep's lines of context.
	spaced = regexp.MustCompile(`^ *\d+(: ?)?`)
	dashed = regexp.MustCompile(`^ *\d+[-:]?`)
	// addedLine matches the first line of a file in a diff that adds it.
	addedLine = regexp.MustCompile(`^\+(apiVersion:|kind:|items:|---|- |[{\[])`)
	painted   = regexp.MustCompile("\x1b\\[[0-9;?]*[A-Za-z]|\x1b\\][^\x07\x1b]*(\x07|\x1b\\\\)")
	// curled matches values in typographic quotes, which messengers and word processors insert.
	curled = regexp.MustCompile(`(?:creationTimestamp|resourceVersion)[“”]?: [“‘”’]`)
	// quotesBegin are the bytes with which such quotes begin. Few of the files of a must-gather of
	// 150,000 pods have them, and the search with an expression is a seventh of the time.
	quotesBegin = []byte("\xe2\x80")
	straight    = strings.NewReplacer("“", `"`, "”", `"`, "‘", "'", "’", "'")
)

// undress returns the function that restores each line of a text that went through a mail program,
// an editor or a browser; nil if the text is unchanged.
func undress(head []byte) func(line []byte) []byte {
	first := bytes.TrimLeft(head, "\r\n")
	before := head // the text before the first object
	if at := usualFirst.FindIndex(head); at != nil {
		before = head[:at[0]]
	}
	switch {
	case bytes.HasPrefix(first, []byte("> ")) || bytes.HasPrefix(first, []byte(">>")):
		return func(line []byte) []byte { return quoted.ReplaceAll(line, nil) }
	case replied.Match(before):
		return answered()
	case numbered.Match(first):
		number := lineNo
		switch after := numbered.FindSubmatch(first)[1]; {
		case after[0] == '-':
			number = dashed
		case bytes.HasPrefix(after, []byte(": ")):
			number = spaced
		}
		return func(line []byte) []byte { return number.ReplaceAll(line, nil) }
	case addedLine.Match(first):
		return func(line []byte) []byte { return bytes.TrimPrefix(line, []byte("+")) }
	case fence.Match(before):
		return fenced()
	case bytes.IndexByte(head, 0x1b) >= 0:
		return func(line []byte) []byte { return painted.ReplaceAll(line, nil) }
	case bytes.Contains(head, []byte("\u00a0")): // no-break spaces
		return func(line []byte) []byte { return bytes.ReplaceAll(line, []byte("\u00a0"), []byte(" ")) }
	case bytes.Contains(head, quotesBegin) && curled.Match(head):
		return func(line []byte) []byte { return []byte(straight.Replace(string(line))) }
	}
	return nil
}

// usualFirst matches a line with which an object begins at the margin. What follows may be part of
// the object.
var usualFirst = regexp.MustCompile(`(?m)^(apiVersion|kind|items|metadata):`)

// answered removes the text above the quotation in a reply.
func answered() func(line []byte) []byte {
	begun := false
	return func(line []byte) []byte {
		if begun = begun || line[0] == '>'; !begun {
			return []byte("\n")
		}
		return quoted.ReplaceAll(line, nil)
	}
}

// fenced keeps only the text between the fences of an issue or a mail. A fence may be indented, as
// in an item of a list.
func fenced() func(line []byte) []byte {
	inside, margin := false, 0
	return func(line []byte) []byte {
		text := bytes.TrimLeft(line, " \t")
		switch {
		case bytes.HasPrefix(text, []byte("```")) || bytes.HasPrefix(text, []byte("~~~")):
			inside, margin = !inside, len(line)-len(text)
			return text
		case !inside:
			return []byte("\n")
		}
		return line[min(margin, len(line)-len(text)):]
	}
}

// lineFilter changes each line of a text.
type lineFilter struct {
	in     *bufio.Reader
	change func(line []byte) []byte
	line   []byte
}

func (f *lineFilter) Read(p []byte) (int, error) {
	for len(f.line) == 0 {
		line, err := f.in.ReadSlice('\n')
		if len(line) == 0 && err != nil {
			return 0, err
		}
		f.line = f.change(line)
	}
	n := copy(p, f.line)
	f.line = f.line[n:]
	return n, nil
}
