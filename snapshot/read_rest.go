package snapshot

import (
	"bufio"
	"bytes"
	"io"
	"slices"
)

// rest is what is left of a text. A reader that has read too far puts back what the next
// one is to read.
type rest struct {
	ahead []byte
	r     io.Reader
}

func (r *rest) Read(p []byte) (int, error) {
	if len(r.ahead) > 0 {
		n := copy(p, r.ahead)
		r.ahead = r.ahead[n:]
		return n, nil
	}
	return r.r.Read(p)
}

// putBack puts the text before what in, which reads r, holds already.
func (r *rest) putBack(text []byte, in *bufio.Reader) {
	held, _ := in.Peek(in.Buffered())
	r.ahead = slices.Concat(text, held, r.ahead)
	in.Reset(r)
}

// beginsJSON tells JSON from YAML, and an array from a prompt such as "[root@n1 ~]#".
func beginsJSON(head []byte) bool {
	head = bytes.TrimSpace(head)
	if bytes.HasPrefix(head, []byte("[")) {
		head = bytes.TrimSpace(head[1:])
		return len(head) == 0 || bytes.ContainsRune([]byte("{[]\""), rune(head[0]))
	}
	return bytes.HasPrefix(head, []byte("{")) && !isMacro(head)
}

// isMacro is true of what sets a text apart in Jira.
func isMacro(line []byte) bool {
	return bytes.HasPrefix(line, []byte("{code")) || bytes.HasPrefix(line, []byte("{noformat")) || bytes.HasPrefix(line, []byte("{panel"))
}
