// Package records is what containers write to a volume, and how that is checked: numbered
// records with a checksum. The number goes on from the last record on the volume, so that
// two that write to it at the same time show.
package records

import (
	"bufio"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

// File is the name of the records on a volume.
const File = "records"

// Record is one line.
type Record struct {
	Number int
	// Writer is who wrote it.
	Writer string
}

func (r Record) sum() uint32 {
	return crc32.ChecksumIEEE(fmt.Appendf(nil, "%d %s", r.Number, r.Writer))
}

// String is the line without its end.
func (r Record) String() string { return fmt.Sprintf("%d %s %08x", r.Number, r.Writer, r.sum()) }

// parse is the opposite of String.
func parse(line string) (r Record, err error) {
	fields := strings.Fields(line)
	if len(fields) != 3 {
		return r, fmt.Errorf("a line of %d fields", len(fields))
	}
	if r.Number, err = strconv.Atoi(fields[0]); err != nil {
		return r, err
	}
	if r.Writer = fields[1]; r.String() != line {
		return r, fmt.Errorf("checksum %s, which is not that of the record", fields[2])
	}
	return r, nil
}

// Writer appends records to the file of a volume.
type Writer struct {
	name    string
	volume  *os.File
	written *os.File
	last    int
}

// Open opens the file to add records behind its last one, and makes the file if it is missing.
// Each record that is safe on the volume is written to the file named written, too.
func Open(volume, written, name string) (*Writer, error) {
	w := &Writer{name: name}
	var err error
	if w.volume, err = os.OpenFile(volume, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(w.volume)
	for lines.Scan() {
		if r, err := parse(lines.Text()); err == nil {
			w.last = max(w.last, r.Number)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	w.written, err = os.OpenFile(written, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	return w, err
}

// Write writes the next record, and returns once it is safe.
func (w *Writer) Write() error {
	r := Record{Number: w.last + 1, Writer: w.name}
	if _, err := w.volume.WriteString(r.String() + "\n"); err != nil {
		return err
	}
	if err := w.volume.Sync(); err != nil {
		return err
	}
	w.last++
	_, err := w.written.WriteString(r.String() + "\n")
	return err
}

// Check says what is wrong with the records of a volume, given those that were safe on it.
// Nothing is where each volume had one writer at a time, which may have been killed at any
// moment.
func Check(volume, written io.Reader) (wrong []string, count int) {
	there := map[Record]bool{}
	last := 0
	for n, line := range lines(volume) {
		r, err := parse(line)
		switch {
		case err != nil:
			wrong = append(wrong, fmt.Sprintf("line %d is broken: %v", n+1, err))
			continue
		case r.Number != last+1:
			wrong = append(wrong, fmt.Sprintf("line %d has number %d by %s after %d", n+1, r.Number, r.Writer, last))
		}
		there[r], last = true, r.Number
	}
	writer, began := "", map[string]bool{}
	for n, line := range lines(written) {
		r, err := parse(line)
		switch {
		case err != nil:
			wrong = append(wrong, fmt.Sprintf("line %d of what was written is broken: %v", n+1, err))
		case !there[r]:
			wrong = append(wrong, fmt.Sprintf("record %d of %s is lost", r.Number, r.Writer))
		}
		if r.Writer != writer && began[r.Writer] {
			wrong = append(wrong, fmt.Sprintf("%s writes on after %s", r.Writer, writer))
		}
		writer = r.Writer
		began[writer] = true
	}
	return wrong, len(there)
}

// Writers is who has written these records, in the order of their first one. A line that
// is broken does not count.
func Writers(written io.Reader) (names []string) {
	for _, line := range lines(written) {
		if r, err := parse(line); err == nil && !slices.Contains(names, r.Writer) {
			names = append(names, r.Writer)
		}
	}
	return names
}

func lines(r io.Reader) (all []string) {
	for scanner := bufio.NewScanner(r); scanner.Scan(); {
		all = append(all, scanner.Text())
	}
	return all
}
