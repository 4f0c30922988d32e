package output

import (
	"encoding/xml"
	"fmt"
	"slices"
	"strings"

	"github.com/jstemmer/go-junit-report/v2/junit"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
)

// layers are the test suites, one for each hundred of the codes.
var layers = []struct{ prefix, title string }{
	{"VD1", "attached without being wanted"},
	{"VD2", "multi-attach"},
	{"VD3", "node status"},
	{"VD4", "wanted but blocked"},
	{"VD5", "volume resolution"},
	{"VD6", "driver"},
}

// printJUnit writes one case for each finding, and a passed one for each check that found nothing.
// A check that a gap kept from running is a skipped case, and each gap an error. A finding of
// severity info does not fail: nothing is wrong, and the default of --fail-on agrees.
func printJUnit(b *strings.Builder, r *finding.Report, _ Options) error {
	findings := map[finding.Code][]finding.Finding{}
	codes := slices.Clone(r.Checks)
	for _, f := range r.Findings {
		if !slices.Contains(codes, f.Code) { // a report of an older version does not list its checks
			codes = append(codes, f.Code)
		}
		findings[f.Code] = append(findings[f.Code], f)
	}
	suites := junit.Testsuites{Name: visible(attributed(r, "volume-doctor"))}
	known := map[finding.Code]bool{}
	for _, layer := range append(layers, struct{ prefix, title string }{"", "other checks"}) {
		suite := junit.Testsuite{Name: "volume-doctor: " + layer.title}
		for _, code := range codes {
			if known[code] || !strings.HasPrefix(string(code), layer.prefix) {
				continue
			}
			known[code] = true
			for _, c := range ranCases(r, code, findings[code]) {
				suite.AddTestcase(c)
			}
		}
		for _, c := range r.SkippedChecks {
			if !known[c.Code] && strings.HasPrefix(string(c.Code), layer.prefix) {
				known[c.Code] = true
				skipped := testcase(c.Code, c.Check, "")
				skipped.Skipped = &junit.Result{Message: visible(fmt.Sprintf("%s could not be read", c.Because))}
				suite.AddTestcase(skipped)
			}
		}
		addSuite(&suites, suite, r)
	}
	gaps := junit.Testsuite{Name: "volume-doctor: what was read"}
	for _, g := range r.Gaps {
		gaps.AddTestcase(junit.Testcase{
			Name: visible(gapKind(g)), Classname: "volume-doctor.gaps",
			Error: &junit.Result{Message: visible(gapText(g)), Type: visible(g.Reason)},
		})
	}
	addSuite(&suites, gaps, r)
	b.WriteString(xml.Header)
	return suites.WriteXML(b)
}

// addSuite adds the suite unless it has no cases. Skipped cases are counted only in the suite,
// because the schema has no total for them.
func addSuite(suites *junit.Testsuites, suite junit.Testsuite, r *finding.Report) {
	if suite.Tests == 0 {
		return
	}
	suite.ID, suite.Time = len(suites.Suites), "0"
	suite.SetTimestamp(r.TakenAt.UTC())
	suites.AddSuite(suite)
	suites.Skipped = 0
}

// ranCases returns one case for each finding of a check, or one passed case if it found nothing.
func ranCases(r *finding.Report, code finding.Code, findings []finding.Finding) []junit.Testcase {
	if len(findings) == 0 {
		check, _ := checkOf(code)
		return []junit.Testcase{testcase(code, check.Name, "")}
	}
	var cases []junit.Testcase
	for _, f := range findings {
		subject := f.Subject.String()
		if f.Context != "" {
			subject += " in " + f.Context
		}
		c := testcase(code, f.Check, subject)
		if f.Severity.AtLeast(finding.Warning) {
			c.Failure = &junit.Result{Message: visible(attributed(r, f.Text())), Type: visible(string(f.Severity)), Data: junitText(r, f)}
		} else {
			c.SystemOut = &junit.Output{Data: visible(attributed(r, f.Text())) + "\n" + junitText(r, f)}
		}
		cases = append(cases, c)
	}
	return cases
}

// testcase names a case after its check and, if there is one, the finding's subject: viewers
// recognize a case by its name.
func testcase(code finding.Code, check, subject string) junit.Testcase {
	name := strings.TrimSpace(string(code) + " " + check)
	if subject != "" {
		name += ": " + subject
	}
	return junit.Testcase{Name: visible(name), Classname: visible("volume-doctor." + string(code)), Time: "0"}
}

// junitText is the text that viewers show for a failed case.
func junitText(r *finding.Report, f finding.Finding) string {
	return strings.Join(texts(append(plainLines(r, f), "Fingerprint: "+f.Fingerprint), visible), "\n")
}
