package snapshot

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"go.yaml.in/yaml/v2"
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
	for _, schema := range schemas {
		for object := range schema.all(&s.Objects) {
			text, err := schema.marshal(object)
			if err != nil {
				return fmt.Errorf("%s %s: %w", schema.kind, identity{schema.resource, object.GetNamespace(), object.GetName()}, err)
			}
			// A bufio.Writer keeps its first error for Flush.
			_, _ = out.WriteString("---\n")
			_, _ = out.Write(text)
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
	for _, schema := range schemas {
		for range schema.all(&s.Objects) {
			objects++
		}
	}
	fmt.Fprintf(out, "apiVersion: %s\nkind: %s\n", headerVersion, headerKind)
	if !s.TakenAt.IsZero() {
		fmt.Fprintf(out, "takenAt: %q\n", s.TakenAt.UTC().Format(time.RFC3339Nano))
	}
	if s.Source.ServerVersion != "" {
		text, err := yaml.Marshal(map[string]string{"serverVersion": s.Source.ServerVersion})
		if err != nil {
			return err
		}
		_, _ = out.Write(text)
	}
	fmt.Fprintf(out, "complete: [%s]\n", strings.Join(complete, ", "))
	if len(s.Gaps) > 0 {
		tree, err := jsonTree(map[string]any{"gaps": s.Gaps})
		if err != nil {
			return err
		}
		text, err := yaml.Marshal(tree)
		if err != nil {
			return err
		}
		_, _ = out.Write(text)
	}
	fmt.Fprintf(out, "objects: %d\n", objects)
	return nil
}

// marshal writes a trimmed copy: nothing may write to a snapshot.
func (s *kindSchema) marshal(object apiObject) ([]byte, error) {
	trimmed := object.DeepCopyObject().(apiObject)
	Trim(trimmed)
	s.setType(trimmed)
	tree, err := jsonTree(trimmed)
	if err != nil {
		return nil, err
	}
	return yaml.Marshal(tree)
}

// jsonTree gives what the JSON of a value says as maps and lists: the API's
// field names stand in JSON tags. sigs.k8s.io/yaml would read that JSON as YAML
// next, in which a driver's message with a DEL in it is no text.
func jsonTree(value any) (any, error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var tree any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &tree); err != nil {
		return nil, err
	}
	return tree, nil
}
