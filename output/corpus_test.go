package output

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/golden"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/long"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// endings are the file name endings by which programs recognize each format.
var endings = map[string]string{
	"tree": "txt", "table": "table.txt", "wide": "wide.txt", "name": "name.txt", "json": "json", "yaml": "yaml",
	"sarif": "sarif", "junit": "xml", "markdown": "md", "html": "html", "prometheus": "prom",
}

// shown are the cases whose complete outputs are kept as golden files: one or two for each layer,
// one with a cause and its consequences, one with gaps, and a healthy one.
var shown = []string{
	"healthy-background", "vd101-many-nodes", "vd102-forty-pods", "vd103-driver-refuses", "vd201-two-writers",
	"vd202-rolling-update", "vd301-backoff-drop", "vd301-no-events", "vd401-storage-silent", "vd501-bound-to-another",
	"vd604-ten-pods", "vd608-forecast",
}

type corpusCase struct {
	name     string
	read     *snapshot.Snapshot
	settings reconcile.Options
	report   *finding.Report
	plan     *Plan
}

// corpus is the diagnosis of each case in testdata/cases. It is computed once.
var corpus = sync.OnceValues(func() ([]corpusCase, error) {
	all, err := testcases.All()
	if err != nil {
		return nil, err
	}
	cases := make([]corpusCase, len(all))
	for i, c := range all {
		s, err := c.Snapshot()
		if err != nil {
			return nil, err
		}
		cases[i] = examined(c.Name, s, c.Settings)
	}
	return cases, nil
})

func examined(name string, s *snapshot.Snapshot, settings reconcile.Options) corpusCase {
	view, _ := repair.Examine(s, settings, repair.Consent{}, diagnose.Request{})
	return corpusCase{name, s, settings, view.Report, NewPlan(s, view.World, view.Plan, nil)}
}

func eachCase(t *testing.T, check func(t *testing.T, c corpusCase)) {
	t.Helper()
	cases, err := corpus()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { check(t, c) })
	}
}

func printed(t testing.TB, format string, r *finding.Report) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := ReportFormats.Print(&b, format, r, terminal); err != nil {
		t.Fatalf("%s: %v", format, err)
	}
	return b.Bytes()
}

// terminal is a terminal of the default width.
var terminal = Options{Width: 80}

// shuffled returns the same case with the objects in another order.
func (c corpusCase) shuffled() corpusCase {
	random := rand.New(rand.NewPCG(1, 2))
	o := testcases.Copy(c.read.Objects)
	lists := reflect.ValueOf(&o).Elem()
	for i := range lists.NumField() {
		random.Shuffle(lists.Field(i).Len(), reflect.Swapper(lists.Field(i).Interface()))
	}
	s := snapshot.New(c.read.TakenAt, c.read.Source, o, slices.Clone(c.read.Gaps))
	s.Backends = c.read.Backends
	return examined(c.name, s, c.settings)
}

func printedPlan(t testing.TB, format string, p *Plan) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := PlanFormats.Print(&b, format, p, terminal); err != nil {
		t.Fatalf("%s: %v", format, err)
	}
	return b.Bytes()
}

// TestOrderOfObjects checks that every format prints the same bytes if the objects were read in
// another order.
func TestOrderOfObjects(t *testing.T) {
	long.Test(t)
	eachCase(t, func(t *testing.T, c corpusCase) {
		other := c.shuffled()
		for _, format := range ReportFormats.Names() {
			if diff := cmp.Diff(string(printed(t, format, c.report)), string(printed(t, format, other.report))); diff != "" {
				t.Errorf("%s (-in order +shuffled):\n%s", format, diff)
			}
		}
		for _, format := range PlanFormats.Names() {
			if diff := cmp.Diff(string(printedPlan(t, format, c.plan)), string(printedPlan(t, format, other.plan))); diff != "" {
				t.Errorf("plan, %s (-in order +shuffled):\n%s", format, diff)
			}
		}
	})
}

// ofFewChecks returns the report as if only one check of each of two layers had run besides those
// that found something. A new check then changes no golden file in which it finds nothing. Package
// diagnose tests that all checks that ran are listed.
func ofFewChecks(r *finding.Report) *finding.Report {
	few := *r
	few.Checks = slices.DeleteFunc(slices.Clone(r.Checks), func(code finding.Code) bool {
		return code != "VD101" && code != "VD301" && !slices.ContainsFunc(r.Findings, func(f finding.Finding) bool { return f.Code == code })
	})
	few.Scope.Checks = len(few.Checks)
	return &few
}

// embeddedPages matches the pages of the checks, which would change all golden files with each
// edit.
var embeddedPages = regexp.MustCompile(`(?s)<section aria-labelledby="pages">.*?</section>\n`)

// withoutFiles removes from an HTML page the files that every page embeds: the pages of the checks,
// the style and the script. It fails if the style or the script is missing.
func withoutFiles(t *testing.T, html []byte) []byte {
	t.Helper()
	for _, name := range []string{"report.css", "report.js"} {
		file, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Count(html, file) != 1 {
			t.Fatal("the page lacks its style or its script")
		}
		html = bytes.Replace(html, file, nil, 1)
	}
	return embeddedPages.ReplaceAll(html, nil)
}

// TestGeneratedFormats compares the complete outputs of a few cases in every format with the golden
// files.
func TestGeneratedFormats(t *testing.T) {
	missing := slices.Clone(shown)
	eachCase(t, func(t *testing.T, c corpusCase) {
		if !slices.Contains(shown, c.name) {
			return
		}
		for _, format := range ReportFormats.Names() {
			if endings[format] == "" {
				t.Fatalf("format %s has no ending", format)
			}
			text := printed(t, format, ofFewChecks(c.report))
			if format == "html" {
				text = withoutFiles(t, text)
			}
			kept(t, c.name+"."+endings[format], text)
		}
		kept(t, c.name+".plan.txt", printedPlan(t, "tree", c.plan))
		missing = slices.DeleteFunc(missing, func(name string) bool { return name == c.name })
	})
	if len(missing) > 0 {
		t.Errorf("no such cases: %v", missing)
	}
	kept(t, "report.json", printed(t, "json", report()))
}

func kept(t *testing.T, name string, got []byte) {
	t.Helper()
	golden.Want(t, filepath.Join("testdata", "golden", name), got)
}

func TestMain(m *testing.M) { os.Exit(golden.Main(m)) }
