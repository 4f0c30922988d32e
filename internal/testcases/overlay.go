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
	"sync"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// cluster is a base or what an overlay makes of it. Its documents are JSON.
type cluster struct {
	header  []byte
	objects map[string][]byte
	order   []string
}

// change is one document of an overlay: the object that it is about, the fields that it has, and
// the object before and after. Old is nil where it is new, made where it is removed.
type change struct {
	id        string
	fields    map[string]json.RawMessage
	old, made []byte
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
func merge(dir string, overlay []byte) ([]byte, []change, error) {
	texts := documents(overlay)
	var first map[string]json.RawMessage
	if err := yaml.UnmarshalStrict(texts[0], &first); err != nil {
		return nil, nil, fmt.Errorf("the first document: %w", err)
	}
	var base string
	if err := json.Unmarshal(first["base"], &base); err != nil || base == "" {
		return nil, nil, fmt.Errorf("the first document has no line \"base: NAME\", which names a file of testdata/bases")
	}
	delete(first, "base")
	made, err := readBase(dir, base)
	if err != nil {
		return nil, nil, err
	}
	if made.header, err = patched(made.header, first); err != nil {
		return nil, nil, fmt.Errorf("the header: %w", err)
	}
	var changes []change
	for i, text := range texts[1:] {
		c, err := made.change(base, text)
		if err != nil {
			return nil, nil, fmt.Errorf("document %d: %w", i+2, err)
		}
		if slices.ContainsFunc(changes, func(before change) bool { return before.id == c.id }) {
			return nil, nil, fmt.Errorf("document %d: %s was changed above already", i+2, c.id)
		}
		changes = append(changes, c)
		if c.made == nil {
			delete(made.objects, c.id)
			continue
		}
		if c.old == nil {
			made.order = append(made.order, c.id)
		}
		made.objects[c.id] = c.made
	}
	return made.text(), changes, nil
}

// text is the cluster as a snapshot file.
func (c cluster) text() []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s\n", c.header)
	for _, id := range c.order {
		if o, there := c.objects[id]; there {
			fmt.Fprintf(&out, "---\n%s\n", o)
		}
	}
	return out.Bytes()
}

// bases has what readBase has read, by path.
var bases sync.Map

// readBase returns a base, as a copy that the caller may change.
func readBase(dir, name string) (cluster, error) {
	path := filepath.Join(dir, "bases", name+".yaml")
	read, _ := bases.LoadOrStore(path, sync.OnceValues(func() (cluster, error) { return parseBase(path) }))
	base, err := read.(func() (cluster, error))()
	base.objects, base.order = maps.Clone(base.objects), slices.Clone(base.order)
	return base, err
}

func parseBase(path string) (cluster, error) {
	name := strings.TrimSuffix(filepath.Base(path), ".yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		found, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*.yaml"))
		for i, path := range found {
			found[i] = strings.TrimSuffix(filepath.Base(path), ".yaml")
		}
		return cluster{}, fmt.Errorf("no base %q; there are %s", name, strings.Join(found, ", "))
	}
	base := cluster{objects: map[string][]byte{}}
	for i, text := range documents(text) {
		converted, err := yaml.YAMLToJSONStrict(text)
		if err != nil {
			return cluster{}, fmt.Errorf("base %s: document %d: %w", name, i+1, err)
		}
		if i == 0 {
			base.header = converted
			continue
		}
		id, err := identity(converted)
		if err != nil {
			return cluster{}, fmt.Errorf("base %s: document %d: %w", name, i+1, err)
		}
		base.objects[id] = converted
		base.order = append(base.order, id)
	}
	return base, nil
}

// change returns what a document of an overlay changes in the cluster that the base has become.
func (c cluster) change(base string, text []byte) (change, error) {
	var fields map[string]json.RawMessage
	if err := yaml.UnmarshalStrict(text, &fields); err != nil {
		return change{}, err
	}
	for _, verb := range []string{"patch", "remove"} {
		raw, ok := fields[verb]
		if !ok {
			continue
		}
		var id string
		if err := json.Unmarshal(raw, &id); err != nil {
			return change{}, fmt.Errorf("%s: %w", verb, err)
		}
		old, there := c.objects[id]
		if !there {
			return change{}, fmt.Errorf("%s %q: base %s has no such object; it has %s", verb, id, base, strings.Join(slices.Sorted(maps.Keys(c.objects)), ", "))
		}
		delete(fields, verb)
		if verb == "remove" {
			if len(fields) > 0 {
				return change{}, fmt.Errorf("remove %q: nothing else belongs into the document", id)
			}
			return change{id: id, old: old}, nil
		}
		made, err := patched(old, fields)
		if err != nil {
			return change{}, fmt.Errorf("patch %q: %w", id, err)
		}
		if now, err := identity(made); err != nil || now != id {
			return change{}, fmt.Errorf("patch %q makes it %q", id, now)
		}
		return change{id, fields, old, made}, nil
	}
	made, err := json.Marshal(fields)
	if err != nil {
		return change{}, err
	}
	id, err := identity(made)
	if err != nil {
		return change{}, err
	}
	if _, there := c.objects[id]; there {
		return change{}, fmt.Errorf("%s is in base %s already: begin the document with \"patch: %s\" and give the fields that differ", id, base, id)
	}
	return change{id: id, fields: fields, made: made}, nil
}

func patched(document []byte, fields map[string]json.RawMessage) ([]byte, error) {
	if len(fields) == 0 {
		return document, nil
	}
	patch, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	return jsonpatch.MergePatch(document, patch)
}
