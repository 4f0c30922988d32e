package snapshot

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/trim"
)

// Write writes the snapshot in volume-doctor's own format: the header in YAML, then one document
// for each object, which is its JSON on one line. JSON is also YAML, and faster to write than one
// field per line; see docs/adr/0011-own-code.md. Equal snapshots give equal bytes. The objects are
// trimmed again, so that the file is safe to share no matter who made the snapshot.
func Write(w io.Writer, s *Snapshot) error { return WriteSpooled(w, s, nil, false) }

// newZip compresses in half the usual time of gzip; the file becomes one twelfth larger.
func newZip(w io.Writer) *gzip.Writer {
	const level = 2
	zip, err := gzip.NewWriterLevel(w, level)
	if err != nil {
		panic(err) // cannot happen: the level exists
	}
	return zip
}

// WriteSpooled is Write for a snapshot whose pods are in the spool. If pods is nil, they are in the
// snapshot. The flag compressed selects gzip.
func WriteSpooled(w io.Writer, s *Snapshot, pods *Spool, compressed bool) error {
	before, after := resources, []*row(nil)
	if pods != nil {
		at := slices.Index(resources, resourceOf(Pods))
		before, after = resources[:at], resources[at+1:]
	}
	part := func(write func(out *bufio.Writer) error) error {
		to := w
		var zip *gzip.Writer
		if compressed {
			zip = newZip(w)
			to = zip
		}
		out := bufio.NewWriter(to)
		if err := errors.Join(write(out), out.Flush()); err != nil || zip == nil {
			return err
		}
		return zip.Close()
	}
	end := func(out *bufio.Writer) error {
		if err := writeObjects(out, s, after); err != nil {
			return err
		}
		_, err := out.WriteString(endMarker + "\n")
		return err
	}
	err := part(func(out *bufio.Writer) error {
		if err := writeBeginning(out, s, pods); err != nil {
			return err
		}
		if err := writeObjects(out, s, before); err != nil || pods != nil {
			return err
		}
		return end(out)
	})
	if err != nil || pods == nil {
		return err
	}
	if err := pods.copyTo(w, compressed); err != nil {
		return err
	}
	return part(end)
}

// writeBeginning writes the header, and the documents that are not objects.
func writeBeginning(out *bufio.Writer, s *Snapshot, pods *Spool) error {
	if err := writeHeader(out, s, pods); err != nil {
		return err
	}
	if err := writeController(out, s.Controller); err != nil {
		return err
	}
	if err := writeManager(out, s.Manager); err != nil {
		return err
	}
	return writeBackends(out, s.Backends)
}

func writeObjects(out *bufio.Writer, s *Snapshot, of []*row) error {
	var lines lineEncoder
	for _, r := range of {
		for object := range r.all(&s.Objects) {
			line, err := lines.encode(r, r.forFile(object))
			if err != nil {
				return err
			}
			_, _ = out.WriteString(line) // a bufio.Writer keeps its first error for Flush
		}
	}
	return nil
}

// writeHeader writes the fields in the order in which people read them, which is not alphabetical.
func writeHeader(out *bufio.Writer, s *Snapshot, pods *Spool) error {
	var complete []string
	for _, kind := range Kinds() {
		if s.Complete(kind) {
			complete = append(complete, string(kind))
		}
	}
	objects := 0
	if pods != nil {
		objects = pods.count
	}
	for _, r := range resources {
		for range r.all(&s.Objects) {
			objects++
		}
	}
	fmt.Fprintf(out, "apiVersion: %s\nkind: %s\n", headerVersion, headerKind)
	if !s.TakenAt.IsZero() {
		fmt.Fprintf(out, "takenAt: %q\n", s.TakenAt.UTC().Format(time.RFC3339Nano))
	}
	if s.Source.ServerVersion != "" {
		if err := writeField(out, "serverVersion", s.Source.ServerVersion); err != nil {
			return err
		}
	}
	if s.NamesHashed {
		fmt.Fprintf(out, "names: %s\n", namesHashed)
	}
	fmt.Fprintf(out, "complete: [%s]\n", strings.Join(complete, ", "))
	if len(s.Gaps) > 0 {
		gaps := slices.Clone(s.Gaps)
		for i := range gaps { // other people will see the file
			gaps[i].Detail = safetext.RedactUser(gaps[i].Detail)
		}
		if err := writeField(out, "gaps", gaps); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "objects: %d\nend: %q\n", objects, endMarker)
	return nil
}

func writeField(out *bufio.Writer, name string, value any) error {
	text, err := YAML(map[string]any{name: value})
	if err != nil {
		return err
	}
	_, _ = out.Write(text)
	return nil
}

// forFile returns a trimmed copy, because nothing may modify a snapshot.
func (s *row) forFile(object apiObject) apiObject {
	trimmed := object.DeepCopyObject().(apiObject)
	trim.Object(trimmed)
	return trimmed
}
