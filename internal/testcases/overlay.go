package testcases

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// object is one document of a cluster, as its text and as JSON.
type object struct {
	text []byte
	json []byte
}

// identity is an object's name in an overlay: "Pod default/db-0", "Node worker-a".
func identity(document []byte) (string, error) {
	var o metav1.PartialObjectMetadata
	if err := json.Unmarshal(document, &o); err != nil {
		return "", err
	}
	if o.Kind == "" || o.Name == "" {
		return "", fmt.Errorf("a document without kind or metadata.name; begin a change with \"patch: KIND NAME\" or \"remove: KIND NAME\"")
	}
	return o.Kind + " " + strings.TrimPrefix(o.Namespace+"/"+o.Name, "/"), nil
}

func documents(text []byte) [][]byte {
	return bytes.Split(bytes.TrimPrefix(text, []byte("---\n")), []byte("\n---\n"))
}

// merge makes a whole cluster of an overlay and the base that its first document
// names. The other fields of that document change the base's header. Each further
// document is one of three:
//
//   - "patch: KIND NAME" and the fields that differ: a JSON merge patch, in which
//     null takes a field away and a list replaces the whole list;
//   - "remove: KIND NAME";
//   - a whole object that the base does not have.
func merge(dir string, overlay []byte) ([]byte, error) {
	changes := documents(overlay)
	var first map[string]json.RawMessage
	if err := yaml.UnmarshalStrict(changes[0], &first); err != nil {
		return nil, fmt.Errorf("the first document: %w", err)
	}
	var base string
	if err := json.Unmarshal(first["base"], &base); err != nil || base == "" {
		return nil, fmt.Errorf("the first document has no line \"base: NAME\", which names a file of testdata/bases")
	}
	delete(first, "base")
	header, objects, order, err := readBase(dir, base)
	if err != nil {
		return nil, err
	}
	if header, err = patched(header, first); err != nil {
		return nil, fmt.Errorf("the header: %w", err)
	}
	changed := map[string]bool{}
	for i, text := range changes[1:] {
		id, made, err := change(base, objects, text)
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", i+2, err)
		}
		if changed[id] {
			return nil, fmt.Errorf("document %d: %s was changed above already", i+2, id)
		}
		changed[id] = true
		if made == nil {
			delete(objects, id)
			continue
		}
		if _, there := objects[id]; !there {
			order = append(order, id)
		}
		objects[id] = *made
	}
	var out bytes.Buffer
	out.Write(bytes.TrimSpace(header.text))
	for _, id := range order {
		if o, there := objects[id]; there {
			out.WriteString("\n---\n")
			out.Write(bytes.TrimSpace(o.text))
		}
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// readBase returns a base's header, its objects, and their order.
func readBase(dir, name string) (header object, objects map[string]object, order []string, err error) {
	text, err := os.ReadFile(filepath.Join(dir, "bases", name+".yaml"))
	if err != nil {
		found, _ := filepath.Glob(filepath.Join(dir, "bases", "*.yaml"))
		for i, path := range found {
			found[i] = strings.TrimSuffix(filepath.Base(path), ".yaml")
		}
		return header, nil, nil, fmt.Errorf("no base %q; there are %s", name, strings.Join(found, ", "))
	}
	objects = map[string]object{}
	for i, text := range documents(text) {
		converted, err := yaml.YAMLToJSONStrict(text)
		if err != nil {
			return header, nil, nil, fmt.Errorf("base %s: document %d: %w", name, i+1, err)
		}
		if i == 0 {
			header = object{text, converted}
			continue
		}
		id, err := identity(converted)
		if err != nil {
			return header, nil, nil, fmt.Errorf("base %s: document %d: %w", name, i+1, err)
		}
		objects[id] = object{text, converted}
		order = append(order, id)
	}
	return header, objects, order, nil
}

// change returns the name of the object that a document of an overlay is about, and the
// changed object; nil where the document removes it.
func change(base string, objects map[string]object, text []byte) (string, *object, error) {
	var fields map[string]json.RawMessage
	if err := yaml.UnmarshalStrict(text, &fields); err != nil {
		return "", nil, err
	}
	for _, verb := range []string{"patch", "remove"} {
		raw, ok := fields[verb]
		if !ok {
			continue
		}
		var id string
		if err := json.Unmarshal(raw, &id); err != nil {
			return "", nil, fmt.Errorf("%s: %w", verb, err)
		}
		old, there := objects[id]
		if !there {
			return "", nil, fmt.Errorf("%s %q: base %s has no such object; it has %s", verb, id, base, strings.Join(slices.Sorted(maps.Keys(objects)), ", "))
		}
		delete(fields, verb)
		if verb == "remove" {
			if len(fields) > 0 {
				return "", nil, fmt.Errorf("remove %q: nothing else belongs into the document", id)
			}
			return id, nil, nil
		}
		made, err := patched(old, fields)
		if err != nil {
			return "", nil, fmt.Errorf("patch %q: %w", id, err)
		}
		if now, err := identity(made.json); err != nil || now != id {
			return "", nil, fmt.Errorf("patch %q makes it %q", id, now)
		}
		if jsonpatch.Equal(old.json, made.json) {
			return "", nil, fmt.Errorf("patch %q changes nothing", id)
		}
		return id, &made, used(id, fields, made.json)
	}
	converted, err := json.Marshal(fields)
	if err != nil {
		return "", nil, err
	}
	id, err := identity(converted)
	if err != nil {
		return "", nil, err
	}
	if _, there := objects[id]; there {
		return "", nil, fmt.Errorf("%s is in base %s already: begin the document with \"patch: %s\" and give the fields that differ", id, base, id)
	}
	return id, &object{text, converted}, used(id, fields, converted)
}

func patched(o object, fields map[string]json.RawMessage) (object, error) {
	if len(fields) == 0 {
		return o, nil
	}
	patch, err := json.Marshal(fields)
	if err != nil {
		return object{}, err
	}
	made, err := jsonpatch.MergePatch(o.json, patch)
	if err != nil {
		return object{}, err
	}
	text, err := yaml.JSONToYAML(made)
	return object{text, made}, err
}
