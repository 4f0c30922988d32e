package snapshot

import (
	"bufio"
	"bytes"
	"io"
	"slices"
)

// rest is the remainder of a text. A reader that has read too far puts back the part that belongs
// to the next reader.
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

// putBack puts the text before the part that in, which reads from r, has buffered.
func (r *rest) putBack(text []byte, in *bufio.Reader) {
	held, _ := in.Peek(in.Buffered())
	r.ahead = slices.Concat(text, held, r.ahead)
	in.Reset(r)
}

// beginsJSON distinguishes JSON from YAML, and an array from a prompt such as "[root@n1 ~]#".
func beginsJSON(head []byte) bool {
	head = bytes.TrimSpace(head)
	if bytes.HasPrefix(head, []byte("[")) {
		head = bytes.TrimSpace(head[1:])
		return len(head) == 0 || bytes.ContainsRune([]byte("{[]\""), rune(head[0]))
	}
	return bytes.HasPrefix(head, []byte("{")) && !bytes.HasPrefix(head, []byte("{{")) && !isMacro(head)
}

// isMacro reports whether the line is a mark around code in Jira.
func isMacro(line []byte) bool {
	return bytes.HasPrefix(line, []byte("{code")) || bytes.HasPrefix(line, []byte("{noformat")) || bytes.HasPrefix(line, []byte("{panel"))
}
