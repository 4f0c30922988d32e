package diagnose

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	yaml "go.yaml.in/yaml/v3"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
)

// ReadSuppressions reads a file of suppressions. An error names the line.
func ReadSuppressions(data []byte) ([]finding.Suppression, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document, next yaml.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		return nil, nil // nothing but comments
	case err != nil:
		return nil, errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err := decoder.Decode(&next); !errors.Is(err, io.EOF) {
		return nil, errors.New("it has more than one document")
	}
	list := document.Content[0]
	if list.Kind != yaml.MappingNode || len(list.Content) != 2 || list.Content[0].Value != "suppressions" || list.Content[1].Kind != yaml.SequenceNode {
		return nil, fmt.Errorf("line %d: it has one field, suppressions, with a list", list.Line)
	}
	var suppressions []finding.Suppression
	for _, node := range list.Content[1].Content {
		s, err := readSuppression(node)
		if err != nil {
			return nil, err
		}
		suppressions = append(suppressions, s)
	}
	return suppressions, nil
}

func readSuppression(node *yaml.Node) (finding.Suppression, error) {
	s := finding.Suppression{Line: node.Line}
	if node.Kind != yaml.MappingNode {
		return s, fmt.Errorf("line %d: a suppression has fields, such as check and reason", node.Line)
	}
	var until string
	fields := map[string]*string{
		"check": &s.Check, "namespace": &s.Namespace, "name": &s.Name, "node": &s.Node, "volume": &s.Volume,
		"fingerprint": &s.Fingerprint, "reason": &s.Reason, "until": &until,
	}
	for i := 0; i < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		field, known := fields[key.Value]
		switch {
		case !known:
			return s, fmt.Errorf("line %d: a suppression has no field %q, but check, namespace, name, node, volume, fingerprint, reason and until", key.Line, key.Value)
		case value.Kind != yaml.ScalarNode || strings.TrimSpace(value.Value) == "":
			return s, fmt.Errorf("line %d: %s is a text, and not empty", value.Line, key.Value)
		case *field != "":
			return s, fmt.Errorf("line %d: %s stands there twice", key.Line, key.Value)
		}
		*field = value.Value
	}
	check_ := slices.IndexFunc(Checks(), func(c check.Check) bool {
		return strings.EqualFold(c.Name, s.Check) || strings.EqualFold(string(c.Code), s.Check)
	})
	switch {
	case s.Check == "":
		return s, fmt.Errorf("line %d: a suppression without a check would hide too much", s.Line)
	case check_ < 0:
		return s, fmt.Errorf("line %d: there is no check %q", s.Line, s.Check)
	case s.Reason == "":
		return s, fmt.Errorf("line %d: the suppression of %s has no reason", s.Line, s.Check)
	}
	s.Check = Checks()[check_].Name
	if _, err := path.Match(s.Name, ""); err != nil {
		return s, fmt.Errorf("line %d: the name %q is not a pattern, as web-* is", s.Line, s.Name)
	}
	if until != "" {
		day, err := time.Parse(time.DateOnly, until)
		if err != nil {
			return s, fmt.Errorf("line %d: until %q is not a day: write it as 2026-12-31", s.Line, until)
		}
		s.Until = day
	}
	return s, nil
}
