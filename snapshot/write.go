package snapshot

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"
)

// Write writes the snapshot as volume-doctor's own file: the header, then one
// YAML document for each object. The same snapshot gives the same bytes. The
// objects are trimmed once more, so that a file is safe to share whoever made
// the snapshot.
func Write(w io.Writer, s *Snapshot) error {
	out := bufio.NewWriter(w)
	if err := writeHeader(out, s); err != nil {
		return err
	}
	for _, kind := range schemas {
		for object := range kind.all(&s.Objects) {
			// A bufio.Writer keeps its first error for Flush.
			_, _ = out.WriteString("---\n")
			if err := writeYAML(out, kind.forFile(object)); err != nil {
				return fmt.Errorf("%s %s: %w", kind.kind, identity{kind.resource, object.GetNamespace(), object.GetName()}, err)
			}
		}
	}
	return out.Flush()
}

// writeHeader writes by hand what the YAML library would sort by name: people
// read a header from its first line on.
func writeHeader(out *bufio.Writer, s *Snapshot) error {
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
		if err := writeYAML(out, map[string]any{"serverVersion": s.Source.ServerVersion}); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "complete: [%s]\n", strings.Join(complete, ", "))
	if len(s.Gaps) > 0 {
		if err := writeYAML(out, map[string]any{"gaps": s.Gaps}); err != nil {
			return err
		}
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

// writeYAML writes what the JSON of a value says, for the API's field names
// stand in JSON tags. sigs.k8s.io/yaml would read that JSON as YAML next, in
// which a driver's message with a DEL in it is no text.
func writeYAML(out *bufio.Writer, value any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return err
	}
	var tree any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &tree); err != nil {
		return err
	}
	text, err := yaml.Marshal(sorted(tree))
	if err != nil {
		return err
	}
	_, err = out.Write(text)
	return err
}

// sorted puts the keys of maps in order. The library would do so too, but its
// order for people puts 2x before 10, 10 before 1x and 1x before 2x: with such
// labels the same object would be written now one way, now the other.
func sorted(value any) any {
	switch v := value.(type) {
	case map[string]any:
		fields := make(yaml.MapSlice, 0, len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			fields = append(fields, yaml.MapItem{Key: key, Value: sorted(v[key])})
		}
		return fields
	case []any:
		for i := range v {
			v[i] = sorted(v[i])
		}
	}
	return value
}
