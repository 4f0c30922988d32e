package explain

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestPastedLinesFindTheirPages: what people paste finds its page first or second.
func TestPastedLinesFindTheirPages(t *testing.T) {
	data, err := os.ReadFile("../testdata/pasted.txt")
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for line := range strings.Lines(string(data)) {
		codes, text, found := strings.Cut(strings.TrimSpace(line), ": ")
		if !found || strings.HasPrefix(line, "#") {
			continue
		}
		tried++
		hits := library().find(text, hintsOf(text))
		var names []string
		for _, h := range hits[:min(len(hits), mostPages)] {
			names = append(names, fmt.Sprintf("%s %.1f", h.Code+h.Name, h.score))
		}
		if !slices.ContainsFunc(hits[:min(len(hits), 2)], func(h hit) bool { return slices.Contains(strings.Fields(codes), h.Code) }) {
			t.Errorf("%s\n\tfinds %v, want one of %s among the first two", text, names, codes)
		}
	}
	if tried < 60 {
		t.Errorf("%d lines were tried, want 60", tried)
	}
}
