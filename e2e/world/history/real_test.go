package history

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// onRealParts are the stories that e2e/modes tells, too, on a real API server, controllers and
// attacher, with the names of its modes.
var onRealParts = map[string]string{
	"the driver refuses to detach for 13 minutes":                          "busy-disk",
	"the driver does not find the volume":                                  "disk-lost",
	"the driver refuses to unstage":                                        "unstage-fails",
	"the driver refuses to stage":                                          "damaged-files",
	"the driver refuses to publish":                                        "export-denied",
	"the driver hangs in a stage":                                          "never-staged",
	"a node is lost, with a Deployment":                                    "node-lost",
	"a node is lost, with a StatefulSet":                                   "statefulset-pod",
	"nobody attaches":                                                      "dead-at-attach",
	"the attacher is away for six minutes":                                 "finalizer-left",
	"an entry is dropped from volumesAttached":                             "entry-dropped",
	"a second pod wants a volume for one node, and the first runs on":      "two-nodes",
	"a node loses its annotation under a pod, and the controller restarts": "annotation-lost",
}

// modesPage has what came of the modes.
const modesPage = "../../../docs/evidence/modes.md"

// realPart is what came of a story on real parts, in the words of that page.
type realPart struct{ Story, Code, Mode, Found, Answered, Cause, Certain string }

// realParts reads the page: the stories that it has are in their order.
func realParts() (parts []realPart, err error) {
	text, err := os.ReadFile(modesPage)
	if err != nil {
		return nil, err
	}
	for _, s := range Stories {
		mode := onRealParts[s.Name]
		if mode == "" {
			continue
		}
		_, row, ok := strings.Cut(string(text), "\n| "+mode+" |")
		row, _, _ = strings.Cut(row, "\n")
		cells := strings.Split(row, "|")
		if !ok || len(cells) < 6 {
			return nil, fmt.Errorf("%s has no mode %s", modesPage, mode)
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		found, _, _ := strings.Cut(strings.TrimPrefix(cells[1], "["), "]")
		parts = append(parts, realPart{s.Name, s.Code, mode, found, cells[3], cells[4], cells[5]})
	}
	return parts, nil
}

// TestRealParts: on real parts a story has the same answer.
func TestRealParts(t *testing.T) {
	parts, err := realParts()
	if err != nil {
		t.Fatal(err)
	}
	if len(parts) != len(onRealParts) {
		t.Errorf("%d of %d are stories", len(parts), len(onRealParts))
	}
	for _, p := range parts {
		if p.Found != p.Code {
			t.Errorf("%s: %s here, and %s on real parts (%s)", p.Story, p.Code, p.Found, p.Mode)
		}
	}
}
