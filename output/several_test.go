package output

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// fleetReport returns a report with the same finding in each cluster, a gap in some of them, and
// one cluster that could not be read.
func fleetReport(clusters int) *finding.Report {
	var reports []*finding.Report
	for i := range clusters {
		r := report()
		r.Source = snapshot.Source{Context: fmt.Sprintf("prod-%02d", i)}
		r.Gaps, r.Complete = nil, true
		for j := range r.Findings {
			r.Findings[j].Repair = nil
		}
		if i%2 == 1 {
			r.Gaps, r.Complete = []snapshot.Gap{{Kind: snapshot.Events, Reason: snapshot.ReasonForbidden}}, false
		}
		reports = append(reports, r)
	}
	lost := &finding.Report{Source: snapshot.Source{Context: "lost"}, Gaps: []snapshot.Gap{{Kind: finding.Everything, Reason: snapshot.ReasonUnavailable, Detail: "refused"}}}
	return finding.Merge(append(reports, lost), nil, finding.LeaveOut{})
}

// TestFleetFitsTheScreen checks that a cause in 37 clusters is told once and fits into 13 lines,
// and that every cluster that could not be read is named.
func TestFleetFitsTheScreen(t *testing.T) {
	one, many := fleetReport(1), fleetReport(37)
	if len(many.Causes()) >= len(many.Roots()) {
		t.Fatalf("%d causes of %d findings", len(many.Causes()), len(many.Roots()))
	}
	few, all := PartsOf(one, terminal), PartsOf(many, terminal)
	if len(all.Causes) != len(few.Causes) {
		t.Errorf("%d paragraphs, and %d of one cluster", len(all.Causes), len(few.Causes))
	}
	for _, text := range all.Causes {
		if lines := strings.Count(text, "\n"); lines > 13 {
			t.Errorf("%d lines:\n%s", lines, text)
		}
		for line := range strings.Lines(text) {
			if tooWide(strings.TrimSuffix(line, "\n")) {
				t.Errorf("too wide: %s", line)
			}
		}
		if !strings.Contains(text, "in 37 clusters") || !strings.Contains(text, "where   prod-00, and 36 other clusters: prod-01, prod-02") || !strings.Contains(text, " more\n") {
			t.Errorf("it does not say where:\n%s", text)
		}
		if strings.Contains(text, "in prod-00: ") {
			t.Errorf("it is about more than prod-00:\n%s", text)
		}
	}
	if !strings.HasPrefix(all.Heading, "38 clusters") {
		t.Error(all.Heading)
	}
	closing := strings.Join(strings.Fields(all.Closing), " ")
	for _, text := range []string{fmt.Sprintf("%s in 37 of 38 clusters", count(len(many.Causes()), "cause")), "gap: cluster lost could not be read (Unavailable): refused",
		"gap: events in prod-01, prod-03, prod-05 and 15 more could not be read (Forbidden)"} {
		if !strings.Contains(closing, text) {
			t.Errorf("%q is not in\n%s", text, closing)
		}
	}
	if whole := PartsOf(many, Options{}); !strings.Contains(whole.Causes[0], "prod-36") {
		t.Errorf("where there is no terminal, nothing is cut:\n%s", whole.Causes[0])
	}
	for _, format := range []string{"json", "yaml", "wide", "sarif", "junit", "prometheus"} {
		var b bytes.Buffer
		if err := ReportFormats.Print(&b, format, many, Options{}); err != nil {
			t.Fatal(err)
		}
		for _, context := range []string{"prod-00", "prod-36", "lost"} {
			if format != "prometheus" && !strings.Contains(b.String(), context) {
				t.Errorf("%s does not name %s", format, context)
			}
		}
	}
}

// TestUnreadClustersAreNamed checks that all of them are named, however many there are.
func TestUnreadClustersAreNamed(t *testing.T) {
	var reports []*finding.Report
	for i := range 30 {
		reports = append(reports, &finding.Report{Source: snapshot.Source{Context: fmt.Sprintf("lost-%02d", i)}, Gaps: []snapshot.Gap{{Kind: finding.Everything,
			Reason: snapshot.ReasonUnavailable, Detail: fmt.Sprintf("cannot reach the API server at https://10.0.0.%d:6443: refused", i)}}})
	}
	closing := PartsOf(finding.Merge(reports, nil, finding.LeaveOut{}), terminal).Closing
	for i := range 30 {
		if name := fmt.Sprintf("lost-%02d", i); !strings.Contains(closing, name) {
			t.Errorf("%s is not named", name)
		}
	}
	if strings.Count(closing, "gap: ") != 1 {
		t.Errorf("they have the same gap:\n%s", closing)
	}
}
