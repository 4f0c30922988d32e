package output

import (
	"bytes"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

func report() *finding.Report {
	takenAt := metav1.NewTime(time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC))
	since := metav1.NewTime(takenAt.Add(-20 * time.Minute))
	return &finding.Report{
		APIVersion: finding.APIVersion, Kind: "Report", TakenAt: takenAt,
		Gaps:          []snapshot.Gap{{Kind: snapshot.Events, Reason: snapshot.ReasonForbidden, Detail: `events is forbidden: User "u" cannot list resource "events" in API group "" at the cluster scope`}},
		SkippedChecks: []finding.SkippedCheck{{Code: "VD601", Check: "driver-uninstalled", Because: snapshot.CSINodes}},
		Summary:       finding.Summary{Error: 1},
		Findings: []finding.Finding{{
			Code: "VD301", Check: "inuse-not-attached", Severity: finding.Error,
			Message:          "Pod default/web-0 waits on node n1 for volume pv1\x1b[31m, whose name hides \u202eterminal control",
			Cause:            strings.Repeat("long", 60),
			Subject:          finding.Object{Kind: "Pod", Namespace: "default", Name: "web-0", UID: "u"},
			Volume:           "kubernetes.io/csi/ebs.csi.aws.com^vol-1",
			Node:             "n1",
			PersistentVolume: "pv1",
			Since:            &since,
			Evidence:         []finding.Evidence{{Object: "node/n1", Field: "status.volumesInUse", Value: "kubernetes.io/csi/ebs.csi.aws.com^vol-1"}},
			SelfHeals:        finding.SelfHeals{Because: "nobody writes the entry"},
			Never:            "delete the VolumeAttachment",
			Repair: &finding.Repair{Kind: "patch-node-status", Risk: "low", Reversible: true, Commands: []string{"kubectl patch node n1"},
				Apply: "kubectl volume-doctor diagnose node/n1 --apply"},
		}},
	}
}

func TestTable(t *testing.T) {
	text := string(printed(t, "table", report()))
	for _, want := range []string{"error VD301  Pod default/web-0", "waits on node n1", "wait?   no: nobody writes the entry (began 20m ago)", "do      --apply makes the repair patch-node-status for node n1:\n          kubectl volume-doctor diagnose node/n1 --apply",
		"don't   delete the VolumeAttachment", "more    kubectl volume-doctor explain VD301   proof: -o wide   risk low",
		"gap: events could not be read (Forbidden)", "1 check skipped, missing csinodes: VD601", "ask for ClusterRole\nvolume-doctor-reader"} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %q:\n%s", want, text)
		}
	}
}

// TestTextIsSafe checks that texts chosen by a driver or a user cannot control a terminal.
func TestTextIsSafe(t *testing.T) {
	for _, format := range []string{"table", "wide", "name"} {
		var b bytes.Buffer
		if err := ReportFormats.Print(&b, format, report(), Options{}); err != nil {
			t.Fatal(err)
		}
		if strings.ContainsAny(b.String(), "\x1b\u202e\r\u009b") {
			t.Errorf("%s lets control characters through: %q", format, b.String())
		}
	}
	if got := Safe("a\x1b[0m\nb\u009b\u200bé"); got != `a\x1b[0m\nb\u009b\u200bé` {
		t.Errorf("Safe: %q", got)
	}
}

func TestEveryFormatHasItsPrinter(t *testing.T) {
	for _, format := range ReportFormats.Names() {
		var b bytes.Buffer
		if err := ReportFormats.Print(&b, format, report(), Options{}); err != nil || b.Len() == 0 {
			t.Errorf("%s: %d bytes, %v", format, b.Len(), err)
		}
	}
	if err := ReportFormats.Print(&bytes.Buffer{}, "xml", report(), Options{}); err == nil || !strings.Contains(err.Error(), "table, wide, tree, json, yaml, name, sarif, junit, markdown, html, prometheus") {
		t.Errorf("an unknown format is not refused with the known ones: %v", err)
	}
}

func TestColourPaintsOnlyWhereAsked(t *testing.T) {
	for _, on := range []bool{true, false} {
		var b bytes.Buffer
		if err := ReportFormats.Print(&b, "table", report(), Options{Color: on}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(b.String(), "\x1b["); got != on {
			t.Errorf("colour %t: escape sequences %t", on, got)
		}
	}
}

func TestWrap(t *testing.T) {
	for _, tc := range []struct {
		text  string
		limit int
		want  []string
	}{
		{"", 5, nil},
		{"a b c", 3, []string{"a b", "c"}},
		{"abcdefgh ij", 3, []string{"abcdefgh", "ij"}},
		{"日本語 x", 4, []string{"日本語", "x"}},
		{"a b  c", 0, []string{"a b c"}},
	} {
		if got := wrap(tc.text, tc.limit); strings.Join(got, "|") != strings.Join(tc.want, "|") {
			t.Errorf("wrap(%q, %d) = %q, want %q", tc.text, tc.limit, got, tc.want)
		}
	}
}

// diagnosed returns the report on a case of the corpus, with its repairs.
func diagnosed(t *testing.T, name string) *finding.Report {
	t.Helper()
	c, err := testcases.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return examined(name, s, c.Settings).report
}

// TestOneCauseIsToldOnce checks that a cause with many consequences takes no more lines than a
// single finding.
func TestOneCauseIsToldOnce(t *testing.T) {
	r := diagnosed(t, "vd102-forty-pods")
	r.Findings[0].Repair.ApplyAll = "kubectl volume-doctor diagnose node/n1 --check=node-lost-6min --apply --max-repairs=40 --fenced=n1"
	text := string(printed(t, "table", r))
	if lines := strings.Count(text, "\n"); len(r.Findings) != 40 || lines > 20 {
		t.Errorf("%d findings, %d lines:\n%s", len(r.Findings), lines, text)
	}
	for _, want := range []string{"error VD102 Node n1 is lost", "holds 40 volumes; 40 pods wait", "default/db (10)", "39 more VD102 node-lost-6min", "--max-repairs=40",
		"1 cause, 40 pods are stuck: 40 errors, 0 warnings"} {
		if !strings.Contains(strings.Join(strings.Fields(text), " "), want) {
			t.Errorf("lacks %q:\n%s", want, text)
		}
	}
	if rows := strings.Count(string(printed(t, "wide", r)), "\nerror VD102 "); rows != 40 {
		t.Errorf("wide lists %d findings of 40", rows)
	}
}

// TestEveryFindingIsTold checks that the table mentions the code of each finding as often as its
// counts say, however much it folds.
func TestEveryFindingIsTold(t *testing.T) {
	cases, err := corpus()
	if err != nil {
		t.Fatal(err)
	}
	story := regexp.MustCompile(`(?m)^(?:error|warning|info) (VD\d{3})(?: \(suspected\))?  `)
	folded := regexp.MustCompile(`(\d+) more (VD\d{3})`)
	several := 0
	for _, c := range cases {
		r := c.report
		if len(r.Findings) < 2 {
			continue
		}
		several++
		text := strings.Join(strings.Fields(strings.ReplaceAll(string(printed(t, "table", r)), "\n", "\v")), " ")
		told := map[string]int{}
		for _, m := range story.FindAllStringSubmatch(string(printed(t, "table", r)), -1) {
			told[m[1]]++
		}
		for _, m := range folded.FindAllStringSubmatch(text, -1) {
			n, err := strconv.Atoi(m[1])
			if err != nil {
				t.Fatal(err)
			}
			told[m[2]] += n
		}
		want := map[string]int{}
		for _, f := range r.Findings {
			want[string(f.Code)]++
		}
		if !maps.Equal(told, want) {
			t.Errorf("%s: the table tells of %v, the report of %v", c.name, told, want)
		}
	}
	if several < 30 {
		t.Errorf("only %d cases have several findings", several)
	}
}

// TestOmittedCauseIsNamed checks that a filtered report names the causes that it leaves out.
func TestOmittedCauseIsNamed(t *testing.T) {
	r := diagnosed(t, "vd604-ten-pods")
	r = r.Keep(func(f finding.Finding) bool { return f.Code == "VD401" })
	for format, want := range map[string]string{
		"table": "it follows from VD604 attacher-down on csidriver/ebs.csi.aws.com",
		"wide":  "follows VD604 attacher-down on csidriver/ebs.csi.aws.com",
		"json":  `"omittedCauses": [`,
	} {
		if text := string(printed(t, format, r)); !strings.Contains(words(text), want) {
			t.Errorf("%s lacks %q:\n%s", format, want, text)
		}
	}
}
