package snapshot

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestControllerManagerSurvivesFile: what was asked is the same after it was written
// and read.
func TestControllerManagerSurvivesFile(t *testing.T) {
	at := time.Date(2026, 11, 20, 9, 59, 0, 0, time.UTC)
	later, n := at.Add(9*time.Second), 4811
	s := New(at, Source{}, Objects{}, nil)
	s.Manager = &ControllerManager{Pod: "kube-controller-manager-cp1", Identity: "cp1_a", Release: "v1.36.3", Flags: map[string]string{Settings[0]: "true"},
		First: &at, Last: &later, Held: []Held{{Plugin: "kubernetes.io/csi:d", Actual: &n}}, Gap: "a\x1b[31m"}
	var file bytes.Buffer
	if err := Write(&file, s); err != nil || strings.Contains(file.String(), "\x1b") {
		t.Fatal(err)
	}
	again, warnings, err := Read("case.yaml", &file, ReadOptions{})
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	if diff := cmp.Diff(s.Manager, again.Manager); diff != "" {
		t.Error(diff)
	}
}

// TestControllerManagerOfAStranger: a document that nobody asked for so is refused in
// one line.
func TestControllerManagerOfAStranger(t *testing.T) {
	head := "apiVersion: volume-doctor/v1\nkind: Snapshot\ntakenAt: \"2026-11-20T10:00:00Z\"\ncomplete: []\nobjects: 0\n---\n"
	document := func(rest string) string {
		return "apiVersion: volume-doctor/v1\nkind: ControllerManager\n" + rest + "\n"
	}
	span := "first: \"2026-11-20T09:00:00Z\"\nlast: \"2026-11-20T10:00:00Z\"\n"
	for name, text := range map[string]string{
		"numbers of no time": document(`held: [{plugin: p, actual: 1}]`),
		"one time":           document("first: \"2026-11-20T09:00:00Z\""),
		"less than nothing":  document(span + `held: [{plugin: p, actual: -1}]`),
		"half":               document(span + `held: [{plugin: p, desired: 1.5}]`),
		"two":                document(span) + "---\n" + document(span),
	} {
		if _, _, err := Read("case.yaml", strings.NewReader(head+text), ReadOptions{}); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if s, _, err := Read("case.yaml", strings.NewReader(head+document(span)), ReadOptions{}); err != nil || s.Manager == nil {
		t.Error(err)
	}
}
