package backend

import (
	"bytes"
	"errors"
	"regexp"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/archive"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/yamljson"
)

// maxYAML bounds a list in YAML: a parser needs a hundred times as much memory.
const maxYAML = 16 << 20

// yamlBegins matches the first line of a tool's YAML: a field, an item or the mark of a
// document.
var yamlBegins = regexp.MustCompile(`^(---\s*|-|- \S.*|[A-Za-z_]\w*:(\s.*)?)$`)

// isYAML reports whether the text is YAML, and not columns.
func isYAML(text []byte) bool {
	for line := range bytes.Lines(text) {
		line = bytes.TrimRight(line, " \t\r\n")
		if len(line) > 0 && line[0] != '#' {
			return yamlBegins.Match(line)
		}
	}
	return false
}

// fromYAML converts a list in YAML to JSON. gcloud prints a document for each disk.
func fromYAML(text []byte) ([]byte, error) {
	if len(text) > maxYAML {
		return nil, errors.New("YAML of more than " + archive.Size(maxYAML) + ": write the list in JSON")
	}
	var documents []any
	for _, document := range bytes.Split(append([]byte("\n"), bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))...), []byte("\n---")) {
		value, err := yamljson.Parse(document)
		if err != nil {
			return nil, errors.New("not YAML: " + short(err.Error()))
		}
		if value != nil {
			documents = append(documents, value)
		}
	}
	var all any = documents
	if len(documents) == 1 {
		all = documents[0]
		if fields, ok := all.(map[any]any); ok && readerOfFields(fields) {
			all = documents // one disk of gcloud
		}
	}
	raw, err := yamljson.JSON(all, MaxSize)
	if err != nil {
		return nil, errors.New("not YAML: " + short(err.Error()))
	}
	return raw, nil
}

// readerOfFields reports whether the object is a volume itself, and holds no list.
func readerOfFields(fields map[any]any) bool {
	for _, r := range readers {
		has := r.list == ""
		for _, mark := range r.marks {
			_, ok := fields[mark]
			has = has && ok
		}
		if has {
			return true
		}
	}
	return false
}
