package cmd

import (
	"io"
	"sync"
	"unicode/utf8"

	"github.com/volume-doctor/kubectl-volume-doctor/output"
)

// safeWriter is the stderr of every command: nothing that is written to it can control the
// terminal, whoever chose the text. Only the progress bar writes past it, to the writer under
// it.
type safeWriter struct {
	under io.Writer
	mu    sync.Mutex
	// half is the beginning of a character whose end has not been written yet.
	half []byte
}

func (w *safeWriter) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	whole := append(w.half, text...)
	end := len(whole)
	for back := 1; back < utf8.UTFMax && back <= len(whole); back++ {
		if last := whole[len(whole)-back:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				end -= back
			}
			break
		}
	}
	w.half = append([]byte(nil), whole[end:]...)
	if _, err := io.WriteString(w.under, output.SafeLines(string(whole[:end]))); err != nil {
		return 0, err
	}
	return len(text), nil
}

// underneath is the terminal or file behind a safeWriter.
func underneath(w io.Writer) io.Writer {
	if safe, ok := w.(*safeWriter); ok {
		return safe.under
	}
	return w
}
