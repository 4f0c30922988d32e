package snapshot

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/volume-doctor/kubectl-volume-doctor/safetext"
)

// Write writes the snapshot as volume-doctor's own file: the header in YAML, then a
// document of one line for each object, its JSON. JSON is YAML too, and takes less
// time to write than a field on each line; see docs/adr/0011-own-code.md. The same
// snapshot gives the same bytes. The objects are trimmed once more, so that a file is
// safe to share whoever made the snapshot.
func Write(w io.Writer, s *Snapshot) error {
	out := bufio.NewWriter(w)
	if err := writeHeader(out, s); err != nil {
		return err
	}
	if err := writeController(out, s.Controller); err != nil {
		return err
	}
	if err := writeManager(out, s.Manager); err != nil {
		return err
	}
	if err := writeBackends(out, s.Backends); err != nil {
		return err
	}
	var line strings.Builder
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	for _, r := range resources {
		for object := range r.all(&s.Objects) {
			line.Reset()
			if err := encoder.Encode(r.forFile(object)); err != nil {
				return fmt.Errorf("%s %s: %w", r.Object, identity{r.Kind, object.GetNamespace(), object.GetName()}, err)
			}
			// A bufio.Writer keeps its first error for Flush.
			_, _ = out.WriteString("---\n")
			_, _ = out.WriteString(safetext.JSON(line.String()))
		}
	}
	_, _ = out.WriteString(endMarker + "\n")
	return out.Flush()
}

// writeHeader writes the fields in the order in which people read them, which is
// not that of their names.
func writeHeader(out *bufio.Writer, s *Snapshot) error {
	var complete []string
	for _, kind := range Kinds() {
		if s.Complete(kind) {
			complete = append(complete, string(kind))
		}
	}
	objects := 0
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
	fmt.Fprintf(out, "complete: [%s]\n", strings.Join(complete, ", "))
	if len(s.Gaps) > 0 {
		if err := writeField(out, "gaps", s.Gaps); err != nil {
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

// forFile gives a trimmed copy: nothing may write to a snapshot.
func (s *row) forFile(object apiObject) apiObject {
	trimmed := object.DeepCopyObject().(apiObject)
	Trim(trimmed)
	trimmed.GetObjectKind().SetGroupVersionKind(schema.FromAPIVersionAndKind(s.Version, s.Object))
	return trimmed
}
