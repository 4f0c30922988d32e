package snapshot

import (
	"bufio"
	"bytes"
	"regexp"
)

var (
	quoted   = regexp.MustCompile(`^> ?`)
	fence    = regexp.MustCompile("(?m)^```")
	numbered = regexp.MustCompile(`^ *\d+\t`)
	painted  = regexp.MustCompile("\x1b\\[[0-9;?]*[A-Za-z]|\x1b\\][^\x07\x1b]*(\x07|\x1b\\\\)")
)

// undress is how each line of a text becomes what was written, where it went through a mail
// program, an editor or a browser; nil where nothing was done to it.
func undress(head []byte) func(line []byte) []byte {
	first := bytes.TrimLeft(head, "\r\n")
	switch {
	case bytes.HasPrefix(first, []byte("> ")):
		return func(line []byte) []byte { return quoted.ReplaceAll(line, nil) }
	case numbered.Match(first):
		return func(line []byte) []byte { return numbered.ReplaceAll(line, nil) }
	case bytes.Contains(head, []byte("```")) && fence.Match(head):
		return fenced()
	case bytes.IndexByte(head, 0x1b) >= 0:
		return func(line []byte) []byte { return painted.ReplaceAll(line, nil) }
	case bytes.Contains(head, []byte("\u00a0")): // spaces that do not break
		return func(line []byte) []byte { return bytes.ReplaceAll(line, []byte("\u00a0"), []byte(" ")) }
	}
	return nil
}

// fenced leaves of an issue or a mail what stands between its fences.
func fenced() func(line []byte) []byte {
	inside := false
	return func(line []byte) []byte {
		switch {
		case bytes.HasPrefix(line, []byte("```")):
			inside = !inside
		case !inside:
			return []byte("\n")
		}
		return line
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
