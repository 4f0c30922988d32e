package explain

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// speakers are the speakers of testdata/pasted.txt.
var speakers = map[string]string{"kubelet": kubelet, "controller": controller, "binder": binder, "scheduler": scheduler, "attacher": attacher, "provisioner": provisioner,
	"resizer": resizer, "apiserver": apiServer, "driver": driver, "anybody": anybody, "tool": nodeTool, "kernel": kernel, "runtime": runtime, "sidecar": sidecar, "either": either, "caller": caller, "manager": "kube-controller-manager"}

var (
	pageOfCard  = regexp.MustCompile(`explain (VD\d+)\n`)
	helpsOfCard = regexp.MustCompile(`(?m)^  Helps .*$`)
)

// TestPastedLinesFindTheirPages: a pasted line finds its page first or second. The card above
// names the speaker and who acts or, where the words do not show that, nobody, and its first page
// is one of those.
func TestPastedLinesFindTheirPages(t *testing.T) {
	data, err := os.ReadFile("../testdata/pasted.txt")
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for line := range strings.Lines(string(data)) {
		head, text, found := strings.Cut(strings.TrimSpace(line), ": ")
		if !found || strings.HasPrefix(line, "#") {
			continue
		}
		tried++
		facts := strings.Split(head, "; ")
		codes, speaker, acts := facts[0], facts[1], facts[2]
		var card strings.Builder
		sayMeaning(&card, text)
		first, _, _ := strings.Cut(card.String(), "\n\n\"") // of several the first is checked
		first = strings.Replace(first, "Said by   one of the CSI drivers ", "Said by   the CSI driver ", 1)
		switch {
		case speaker == "-":
			if card.String() != "" {
				t.Errorf("%s\n\tis known: %s", text, card.String())
			}
		case !strings.Contains(first, "Said by   "+speakers[speaker]):
			t.Errorf("%s\n\tis not said by %s:\n%s", text, speaker, first)
		case acts == "none" && strings.Contains(first, "Who acts"), acts != "none" && !strings.Contains(first, "Who acts  "+strings.NewReplacer("it heals", "nobody: it heals", "not proven", notProven).Replace(acts)+"\n"):
			t.Errorf("%s\n\tdoes not leave it to %s:\n%s", text, acts, first)
		case acts == "none" && !strings.Contains(first, "kubectl volume-doctor diagnose pod/NAME"):
			t.Errorf("%s\n\tleads nowhere:\n%s", text, first)
		}
		if page := pageOfCard.FindStringSubmatch(first); page != nil && !slices.Contains(strings.Fields(codes), page[1]) {
			t.Errorf("%s\n\tleads to %s first, want one of %s", text, page[1], codes)
		}
		if strings.HasPrefix(speaker, "kubelet") && strings.Contains(card.String(), "Said by   the CSI driver;") {
			t.Errorf("%s\n\thas a driver as its speaker as well:\n%s", text, card.String())
		}
		if helps := helpsOfCard.FindAllString(first, -1); len(helps) != len(slices.Compact(slices.Sorted(slices.Values(helps)))) {
			t.Errorf("%s\n\thas one help twice:\n%s", text, first)
		}
		hits := library().find(text, hintsOf(text))
		var names []string
		for _, h := range hits[:min(len(hits), mostPages)] {
			names = append(names, fmt.Sprintf("%s %.1f", h.Code+h.Name, h.score))
		}
		if !slices.ContainsFunc(hits[:min(len(hits), 2)], func(h hit) bool { return slices.Contains(strings.Fields(codes), h.Code) }) {
			t.Errorf("%s\n\tfinds %v, want one of %s among the first two", text, names, codes)
		}
	}
	if tried < 310 {
		t.Errorf("%d lines were tried, want 310", tried)
	}
}
