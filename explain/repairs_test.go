package explain

import (
	"strings"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
)

// TestPagesNameTheirRepairs: a page names each kind of repair that is offered for its check,
// and no page claims that --apply has no repair where there is one.
func TestPagesNameTheirRepairs(t *testing.T) {
	texts := map[string]string{}
	for _, p := range Pages() {
		texts[p.Code] = p.Text
	}
	for _, c := range diagnose.Checks() {
		kinds := repair.KindsFor(c.Code)
		for _, kind := range kinds {
			if !strings.Contains(texts[string(c.Code)], "`"+string(kind)+"`") {
				t.Errorf("the page of %s does not name %s", c.Code, kind)
			}
		}
		if len(kinds) > 0 && strings.Contains(c.Doc(), "Not by `--apply`") {
			t.Errorf("the page of %s says that --apply has no repair; it has %s", c.Code, kinds)
		}
		if strings.Contains(c.Doc(), "`--apply` yet") {
			t.Errorf("the page of %s promises a repair", c.Code)
		}
	}
}
