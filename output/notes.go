package output

import (
	"fmt"
	"io"
)

// Notes writes each note in a line of its own; nil where none are wanted.
func Notes(w io.Writer, wanted bool) func(note string) {
	if !wanted {
		return nil
	}
	return func(note string) { fmt.Fprintf(w, "note: %s\n", Safe(note)) }
}
