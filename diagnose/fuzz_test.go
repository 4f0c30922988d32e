package diagnose

import (
	"bytes"
	"strings"
	"testing"
	"time"

	yaml "go.yaml.in/yaml/v3"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
)

// FuzzReadSuppressions reads a file of suppressions, writes the result and reads it again. An
// error is one line. What is accepted comes back unchanged, and hides no finding of another
// check.
func FuzzReadSuppressions(f *testing.F) {
	for _, text := range []string{
		"suppressions:\n- {check: VD301, reason: known, until: 2026-12-31}\n", "suppressions: &a [*a]\n", "suppressions: []\n---\n", "# a\n", "null\n",
		"suppressions:\n- check: inuse-not-attached\n  namespace: shop\n  name: web-*\n  node: n1\n  volume: pv1\n  fingerprint: \"0123\"\n  reason: |\n    two\n    lines\n",
		"suppressions:\n- {<<: {check: VD301}, reason: a}\n", "suppressions:\n- {check: &a VD301, reason: *a}\n", "suppressions:\n- {check: VD301, reason: !!binary YQ==, name: '[a-'}\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := ReadSuppressions(data)
		if err != nil {
			if text := err.Error(); strings.TrimSpace(text) == "" || strings.Contains(text, "\n") {
				t.Errorf("not one line: %q", text)
			}
			return
		}
		again, err := ReadSuppressions(writtenSuppressions(t, list))
		if err != nil || len(again) != len(list) {
			t.Fatalf("%d are read, and written and read again %d: %v", len(list), len(again), err)
		}
		for i, s := range list {
			if again[i].Line = s.Line; again[i] != s {
				t.Errorf("%+v comes back as %+v", s, again[i])
			}
			if s.Reason == "" || s.Check == "" {
				t.Errorf("without a check or a reason: %+v", s)
			}
			if s.Hides(finding.Finding{Check: "another", Node: "n1", Fingerprint: "0123", Subject: finding.Object{Kind: "Pod", Namespace: "shop", Name: "web-0"}}) {
				t.Errorf("it hides what another check found: %+v", s)
			}
		}
	})
}

func writtenSuppressions(t *testing.T, list []finding.Suppression) []byte {
	var document struct {
		Suppressions []map[string]string `yaml:"suppressions"`
	}
	for _, s := range list {
		fields := map[string]string{
			"check": s.Check, "namespace": s.Namespace, "name": s.Name, "node": s.Node, "volume": s.Volume, "fingerprint": s.Fingerprint, "reason": s.Reason,
		}
		if !s.Until.IsZero() {
			fields["until"] = s.Until.Format(time.DateOnly)
		}
		for name, value := range fields {
			if value == "" {
				delete(fields, name)
			}
		}
		document.Suppressions = append(document.Suppressions, fields)
	}
	var b bytes.Buffer
	if err := yaml.NewEncoder(&b).Encode(document); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
