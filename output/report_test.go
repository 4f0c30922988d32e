package output

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/clipperhouse/displaywidth"
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
	if err := PrintReport(&bytes.Buffer{}, "xml", report(), Options{}); err == nil || !strings.Contains(err.Error(), "table, wide, json, yaml, name") {
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
