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

	"go.yaml.in/yaml/v3"
)

// Suppression hides the findings of one check that somebody has decided to live
// with. Of its other fields each that is set must fit as well.
type Suppression struct {
	// Check is the check's name.
	Check string
	// Namespace is the only one that the finding touches.
	Namespace string
	// Name is a pattern for the name of the finding's subject, as in web-*.
	Name string
	Node string
	// Volume is the controller's unique name of the volume, or the
	// PersistentVolume's.
	Volume      string
	Fingerprint string
	// Reason says why; there is always one.
	Reason string
	// Until is the last day on which it holds, in UTC; zero is for good.
	Until time.Time
	// Line is where it stands in its file.
	Line int
}

// ReadSuppressions reads a file of suppressions. An error names the line.
func ReadSuppressions(data []byte) ([]Suppression, error) {
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
	var suppressions []Suppression
	for _, node := range list.Content[1].Content {
		s, err := readSuppression(node)
		if err != nil {
			return nil, err
		}
		suppressions = append(suppressions, s)
	}
	return suppressions, nil
}

func readSuppression(node *yaml.Node) (Suppression, error) {
	s := Suppression{Line: node.Line}
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
	check := slices.IndexFunc(Checks(), func(c Check) bool {
		return strings.EqualFold(c.Name, s.Check) || strings.EqualFold(string(c.Code), s.Check)
	})
	switch {
	case s.Check == "":
		return s, fmt.Errorf("line %d: a suppression without a check would hide too much", s.Line)
	case check < 0:
		return s, fmt.Errorf("line %d: there is no check %q", s.Line, s.Check)
	case s.Reason == "":
		return s, fmt.Errorf("line %d: the suppression of %s has no reason", s.Line, s.Check)
	}
	s.Check = Checks()[check].Name
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

// Expired says whether the last day of the suppression is over.
func (s Suppression) Expired(now time.Time) bool {
	return !s.Until.IsZero() && !now.Before(s.Until.AddDate(0, 0, 1))
}

func (s Suppression) hides(f Finding) bool {
	name, _ := path.Match(s.Name, f.Subject.Name) // the pattern was tried when it was read
	return s.Check == f.Check &&
		(s.Name == "" || name) &&
		(s.Namespace == "" || touchesOnly(f, s.Namespace)) &&
		(s.Node == "" || s.Node == string(f.Node) || s.Node == f.Subject.Name && f.Subject.Kind == "Node") &&
		(s.Volume == "" || s.Volume == string(f.Volume) || s.Volume == f.PersistentVolume) &&
		(s.Fingerprint == "" || s.Fingerprint == f.Fingerprint)
}

// touchesOnly says whether the finding is a matter of the namespace and of no
// other: by its subject, its pods and its claims.
func touchesOnly(f Finding, namespace string) bool {
	touched := []string{}
	if f.Subject.Namespace != "" {
		touched = append(touched, f.Subject.Namespace)
	}
	for _, name := range slices.Concat(f.Pods, f.Claims) {
		in, _, _ := strings.Cut(name, "/")
		touched = append(touched, in)
	}
	return len(touched) > 0 && !slices.ContainsFunc(touched, func(in string) bool { return in != namespace })
}

// Suppress drops the findings that a suppression hides at the time of the
// report, and counts them.
func (r *Report) Suppress(suppressions []Suppression) {
	before := len(r.Findings)
	r.Keep(func(f Finding) bool {
		return !slices.ContainsFunc(suppressions, func(s Suppression) bool { return !s.Expired(r.TakenAt.Time) && s.hides(f) })
	})
	r.Suppressed += before - len(r.Findings)
}
