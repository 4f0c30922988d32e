package snapshot

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Write writes the snapshot as volume-doctor's own file: the header, then one
// YAML document for each object. The same snapshot gives the same bytes. The
// objects are trimmed once more, so that a file is safe to share whoever made
// the snapshot.
func Write(w io.Writer, s *Snapshot) error {
	out := bufio.NewWriter(w)
	block := newBlockWriter()
	if err := writeHeader(out, block, s); err != nil {
		return err
	}
	for _, kind := range schemas {
		for object := range kind.all(&s.Objects) {
			text, err := block.document(kind.forFile(object))
			if err != nil {
				return fmt.Errorf("%s %s: %w", kind.kind, identity{kind.resource, object.GetNamespace(), object.GetName()}, err)
			}
			// A bufio.Writer keeps its first error for Flush.
			_, _ = out.WriteString("---\n")
			_, _ = out.Write(text)
		}
	}
	return out.Flush()
}

// writeHeader writes line by line what would be sorted by name: people read a
// header from its first line on.
func writeHeader(out *bufio.Writer, block *blockWriter, s *Snapshot) error {
	var complete []string
	for _, kind := range Kinds() {
		if s.Complete(kind) {
			complete = append(complete, string(kind))
		}
	}
	objects := 0
	for _, kind := range schemas {
		for range kind.all(&s.Objects) {
			objects++
		}
	}
	fmt.Fprintf(out, "apiVersion: %s\nkind: %s\n", headerVersion, headerKind)
	if !s.TakenAt.IsZero() {
		fmt.Fprintf(out, "takenAt: %q\n", s.TakenAt.UTC().Format(time.RFC3339Nano))
	}
	if s.Source.ServerVersion != "" {
		text, err := block.document(map[string]any{"serverVersion": s.Source.ServerVersion})
		if err != nil {
			return err
		}
		_, _ = out.Write(text)
	}
	fmt.Fprintf(out, "complete: [%s]\n", strings.Join(complete, ", "))
	if len(s.Gaps) > 0 {
		text, err := block.document(map[string]any{"gaps": s.Gaps})
		if err != nil {
			return err
		}
		_, _ = out.Write(text)
	}
	fmt.Fprintf(out, "objects: %d\n", objects)
	return nil
}

// forFile gives a trimmed copy: nothing may write to a snapshot.
func (s *kindSchema) forFile(object apiObject) apiObject {
	trimmed := object.DeepCopyObject().(apiObject)
	Trim(trimmed)
	trimmed.GetObjectKind().SetGroupVersionKind(schema.FromAPIVersionAndKind(s.apiVersion, s.kind))
	return trimmed
}
