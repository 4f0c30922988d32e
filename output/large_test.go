package output

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
)

// large returns a report of n findings of all kinds in the corpus.
func large(t *testing.T, n int) *finding.Report {
	t.Helper()
	cases, err := corpus()
	if err != nil {
		t.Fatal(err)
	}
	r := *report()
	r.Findings, r.Volumes, r.Waiting, r.Summary = nil, nil, nil, finding.Summary{}
	for round := 0; len(r.Findings) < n; round++ {
		for i, c := range cases {
			renamed := func(fingerprint string) string {
				if fingerprint == "" {
					return ""
				}
				return fmt.Sprintf("%d-%d-%s", round, i, fingerprint)
			}
			if round == 0 {
				r.Volumes = append(r.Volumes, c.report.Volumes...)
			}
			for _, f := range c.report.Findings {
				f.Fingerprint, f.CausedBy = renamed(f.Fingerprint), renamed(f.CausedBy)
				r.Findings = append(r.Findings, f)
			}
		}
	}
	r.Findings = r.Findings[:n]
	for _, f := range r.Findings {
		switch f.Severity {
		case finding.Error:
			r.Summary.Error++
		case finding.Warning:
			r.Summary.Warning++
		default:
			r.Summary.Info++
		}
	}
	return &r
}

// TestLargeReports checks a report of a thousand findings: its HTML file contains every finding and
// is small enough to send, and its Markdown fits a comment on GitHub and counts what it leaves out.
func TestLargeReports(t *testing.T) {
	r := large(t, 1000)
	forty := manyOfOneCause(t, 1000)
	for name, r := range map[string]*finding.Report{"of all kinds": r, "of one cause": forty} {
		page := printed(t, "html", r)
		shown := checkHTMLStructure(t, page, r)
		for i, f := range r.Findings {
			said := quoted(f.Said, r.TakenAt)
			if i%20 == 0 && (!strings.Contains(shown, plain(visible(f.Message))) || !strings.Contains(shown, plain(visible(f.Detail))) || !strings.Contains(shown, plain(visible(said))) || !strings.Contains(shown, plain(visible(causeText(f))))) {
				t.Errorf("%s: finding %d is not told: %s", name, i, f.Message)
			}
		}
		codes := map[finding.Code]bool{}
		for _, f := range r.Findings {
			codes[f.Code] = true
		}
		most := 1_050_000 + 6_000*len(codes) // the first finding of each code is shown in full
		t.Logf("%s: %d bytes of HTML", name, len(page))
		if len(page) > most {
			t.Errorf("%s: %d bytes of HTML, more than %d", name, len(page), most)
		}
		if !bytes.Contains(page, []byte("These are 1000 findings. The picture, the proof, the commands by hand and the time of the beginning stand with the first of each code")) {
			t.Errorf("%s: the page does not say what it leaves out", name)
		}
		comment := printed(t, "markdown", r)
		if n := utf8.RuneCount(comment); n > markdownLimit || len(comment) > markdownLimit {
			t.Errorf("%s: a comment of %d characters", name, n)
		}
		left := regexp.MustCompile(`(?m)^(\d+) findings left out: a comment has no room for more`).FindSubmatch(comment)
		if left == nil {
			t.Fatalf("%s: the comment does not count what it leaves out", name)
		}
		omitted, err := strconv.Atoi(string(left[1]))
		if err != nil {
			t.Fatal(err)
		}
		if told := len(regexp.MustCompile(`(?m)^####? (error|warning|info) VD`).FindAll(comment, -1)); told == 0 || told+omitted != len(r.Findings) {
			t.Errorf("%s: the comment tells %d findings and leaves out %d of %d", name, told, omitted, len(r.Findings))
		}
	}
}

// manyOfOneCause returns the report on a lost node with n pods that wait for its volumes.
func manyOfOneCause(t *testing.T, n int) *finding.Report {
	t.Helper()
	cases, err := corpus()
	if err != nil {
		t.Fatal(err)
	}
	r := *cases[slices.IndexFunc(cases, func(c corpusCase) bool { return c.name == "vd102-forty-pods" })].report
	few := r.Findings
	r.Findings = nil
	for i := range n {
		f := few[i%len(few)]
		if i >= len(few) {
			f.Fingerprint = fmt.Sprintf("%s-%d", f.Fingerprint, i)
			f.CausedBy = few[0].Fingerprint
		}
		r.Findings = append(r.Findings, f)
	}
	return &r
}
