package cmd

import (
	"strings"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
)

// TestChecksComplete: codes complete as names do, also after others in a list.
func TestChecksComplete(t *testing.T) {
	third := 0
	for _, c := range diagnose.Checks() {
		if strings.HasPrefix(string(c.Code), "VD3") {
			third++
		}
	}
	for word, want := range map[string]struct {
		first string
		count int
	}{
		"VD3":             {"VD301\t", third},
		"vd301":           {"VD301\t", 1},
		"inuse-not-att":   {"inuse-not-attached\t", 1},
		"node-lost,VD301": {"node-lost,VD301\t", 1},
		"":                {"", len(diagnose.Checks())},
		"VD9":             {"", 0},
	} {
		words, _ := completeChecks(nil, nil, word)
		if len(words) != want.count || want.count > 0 && !strings.HasPrefix(words[0], want.first) {
			t.Errorf("%q completes to %d: %.3q", word, len(words), words)
		}
	}
}
