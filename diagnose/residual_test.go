package diagnose_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
)

// TestResidualPage checks docs/evidence/residual.md: each variant has a row, each case that a
// row names finds what the row says, and each case that is named after a variant is in its row.
func TestResidualPage(t *testing.T) {
	page, err := os.ReadFile("../docs/evidence/residual.md")
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]*corpusCase{}
	for _, c := range corpus(t) {
		cases[c.name] = c
	}
	named := map[string]bool{}
	rows := regexp.MustCompile(`(?m)^\| (R\d+) \|.*\| ([^|]*) \| ([^|]*) \|$`).FindAllStringSubmatch(string(page), -1)
	for i, row := range rows {
		variant, codes := row[1], strings.Split(row[2], ", ")
		if variant != fmt.Sprintf("R%d", i+1) {
			t.Errorf("%s stands where R%d belongs", variant, i+1)
		}
		for _, name := range strings.Split(row[3], ", ") {
			c := cases[name]
			if c == nil {
				t.Errorf("%s: there is no case %s", variant, name)
				continue
			}
			named[name] = true
			if strings.Contains(name, "-residual-") && !strings.HasSuffix(name, "-residual-"+strings.ToLower(variant)) {
				t.Errorf("%s: %s is another variant's", variant, name)
			}
			if !slices.ContainsFunc(c.diagnose(c.snapshot(t)).Findings, func(f finding.Finding) bool { return slices.Contains(codes, string(f.Code)) }) {
				t.Errorf("%s: %s finds none of %v", variant, name, codes)
			}
		}
	}
	if len(rows) != 15 {
		t.Errorf("%d variants", len(rows))
	}
	for name := range cases {
		if strings.Contains(name, "-residual-") && !named[name] {
			t.Errorf("the page does not name %s", name)
		}
	}
}
