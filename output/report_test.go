package output

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/clipperhouse/displaywidth"
	"github.com/rogpeppe/go-internal/txtar"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

func report() *diagnose.Report {
	takenAt := metav1.NewTime(time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC))
	since := metav1.NewTime(takenAt.Add(-20 * time.Minute))
	return &diagnose.Report{
		APIVersion: diagnose.APIVersion, Kind: "Report", TakenAt: takenAt,
		Gaps:          []snapshot.Gap{{Kind: snapshot.Events, Reason: snapshot.ReasonForbidden, Detail: `events is forbidden: User "u" cannot list resource "events" in API group "" at the cluster scope`}},
		SkippedChecks: []diagnose.SkippedCheck{{Code: "VD601", Check: "driver-uninstalled", Because: snapshot.CSINodes}},
		Summary:       diagnose.Summary{Error: 1},
		Findings: []diagnose.Finding{{
			Code: "VD301", Check: "inuse-not-attached", Severity: diagnose.Error,
			Message:          "Pod default/web-0 waits on node n1 for volume pv1\x1b[31m, whose name hides \u202eterminal control",
			Cause:            strings.Repeat("long", 60),
			Subject:          diagnose.Object{Kind: "Pod", Namespace: "default", Name: "web-0", UID: "u"},
			Volume:           "kubernetes.io/csi/ebs.csi.aws.com^vol-1",
			Node:             "n1",
			PersistentVolume: "pv1",
			Since:            &since,
			Evidence:         []diagnose.Evidence{{Object: "node/n1", Field: "status.volumesInUse", Value: "kubernetes.io/csi/ebs.csi.aws.com^vol-1"}},
			SelfHeals:        diagnose.SelfHeals{Because: "nobody writes the entry"},
			Repair:           &diagnose.Repair{Kind: "patch-node-status", Risk: "low", Reversible: true, Commands: []string{"kubectl patch node n1"}},
		}},
	}
}

func TestTableFitsATerminal(t *testing.T) {
	var b bytes.Buffer
	if err := PrintReport(&b, "table", report(), Options{Apply: "kubectl volume-doctor diagnose --apply"}); err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(b.String(), "\n") {
		if displaywidth.String(line) > width {
			t.Errorf("%d columns: %s", displaywidth.String(line), line)
		}
	}
	for _, want := range []string{"error  VD301  inuse-not-attached", "waits on node n1", "20m ago", "not by itself: nobody", "diagnose --apply",
		"1 error, 0 warnings, 0 info", "gap: events could not be read (Forbidden)", "driver-uninstalled (csinodes)"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("lacks %q:\n%s", want, b.String())
		}
	}
}

// TestTextIsSafe: what a driver or a user chose must not steer a terminal.
func TestTextIsSafe(t *testing.T) {
	for _, format := range []string{"table", "wide", "name"} {
		var b bytes.Buffer
		if err := PrintReport(&b, format, report(), Options{}); err != nil {
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
	for _, format := range ReportFormats() {
		var b bytes.Buffer
		if err := PrintReport(&b, format, report(), Options{}); err != nil || b.Len() == 0 {
			t.Errorf("%s: %d bytes, %v", format, b.Len(), err)
		}
	}
	if err := PrintReport(&bytes.Buffer{}, "xml", report(), Options{}); err == nil || !strings.Contains(err.Error(), "table, wide, tree, json, yaml, name, sarif, junit, markdown, html, prometheus") {
		t.Errorf("an unknown format is not refused with the known ones: %v", err)
	}
}

func TestColourPaintsOnlyWhereAsked(t *testing.T) {
	for _, on := range []bool{true, false} {
		var b bytes.Buffer
		if err := PrintReport(&b, "table", report(), Options{Color: on}); err != nil {
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
		{"abcdefgh ij", 3, []string{"abc", "def", "gh", "ij"}},
		{"日本語 x", 4, []string{"日本", "語 x"}},
	} {
		if got := wrap(tc.text, tc.limit); strings.Join(got, "|") != strings.Join(tc.want, "|") {
			t.Errorf("wrap(%q, %d) = %q, want %q", tc.text, tc.limit, got, tc.want)
		}
	}
}

// diagnosed is the report on a case of the corpus.
func diagnosed(t *testing.T, path string) *diagnose.Report {
	t.Helper()
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(archive.Files, func(f txtar.File) bool { return f.Name == "cluster.yaml" })
	s, _, err := snapshot.Read(path, bytes.NewReader(archive.Files[i].Data), snapshot.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return diagnose.Diagnose(s, diagnose.Options{})
}

// TestOneCauseIsOneScreen: what one thing has brought about fits a terminal that
// nobody has resized.
func TestOneCauseIsOneScreen(t *testing.T) {
	r := diagnosed(t, "../testdata/cases/vd102-forty-pods.txtar")
	var b bytes.Buffer
	if err := PrintReport(&b, "table", r, Options{}); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(b.String(), "\n"); len(r.Findings) != 40 || lines > 24 {
		t.Errorf("%d findings, %d lines:\n%s", len(r.Findings), lines, b.String())
	}
	for _, want := range []string{"affects   40 pods: default/db-0, default/db-1, default/db-2 and 37 more", "default/StatefulSet/web",
		"so also   39 x VD102 node-lost-6min (39 error); -o wide lists them", "40 errors, 0 warnings, 0 info"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("lacks %q:\n%s", want, b.String())
		}
	}
	b.Reset()
	if err := PrintReport(&b, "wide", r, Options{}); err != nil {
		t.Fatal(err)
	}
	if rows := strings.Count(b.String(), "\nerror "); rows != 40 {
		t.Errorf("wide lists %d findings of 40", rows)
	}
}

// TestEveryFindingIsTold: whatever the table folds up, each finding's code
// stands there as often as the lines say, and no line is too wide.
func TestEveryFindingIsTold(t *testing.T) {
	paths, err := filepath.Glob("../testdata/cases/vd*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	finding := regexp.MustCompile(`(?m)^(?:error|warning|info) VD\d{3} `)
	story := regexp.MustCompile(`(?m)^(?:error|warning|info)  (VD\d{3})  `)
	folded := regexp.MustCompile(`(?m)^  (?:so also ) {2}(?:(\d+) x )?(VD\d{3}) |^ {12}(?:(\d+) x )?(VD\d{3}) [a-z0-9-]+ \(`)
	several := 0
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, findings, _ := strings.Cut(string(data), "-- want-findings.txt --"); len(finding.FindAllString(findings, 2)) < 2 {
			continue // to read them all would take seconds
		}
		several++
		r := diagnosed(t, path)
		var b bytes.Buffer
		if err := PrintReport(&b, "table", r, Options{}); err != nil {
			t.Fatal(err)
		}
		told := map[string]int{}
		for _, m := range story.FindAllStringSubmatch(b.String(), -1) {
			told[m[1]]++
		}
		for _, m := range folded.FindAllStringSubmatch(b.String(), -1) {
			n := 1
			if times := m[1] + m[3]; times != "" {
				n, _ = strconv.Atoi(times)
			}
			told[m[2]+m[4]] += n
		}
		want := map[string]int{}
		for _, f := range r.Findings {
			want[string(f.Code)]++
		}
		if !maps.Equal(told, want) {
			t.Errorf("%s: the table tells of %v, the report of %v", path, told, want)
		}
		for _, line := range strings.Split(b.String(), "\n") {
			if displaywidth.String(line) > width {
				t.Errorf("%s: %d columns: %s", path, displaywidth.String(line), line)
			}
		}
	}
	if several < 30 {
		t.Errorf("only %d cases have several findings", several)
	}
}

// TestOmittedCauseIsNamed: a narrowed report says what its findings follow from.
func TestOmittedCauseIsNamed(t *testing.T) {
	r := diagnosed(t, "../testdata/cases/vd604-ten-pods.txtar")
	r.Keep(func(f diagnose.Finding) bool { return f.Code == "VD401" })
	for format, want := range map[string]string{
		"table": "it follows from VD604 attacher-down on csidriver/ebs.csi.aws.com:",
		"wide":  "VD604 csidriver/ebs.csi.aws.com",
		"json":  `"omittedCauses": [`,
	} {
		var b bytes.Buffer
		if err := PrintReport(&b, format, r, Options{}); err != nil || !strings.Contains(b.String(), want) {
			t.Errorf("%s lacks %q: %v\n%s", format, want, err, b.String())
		}
	}
}
