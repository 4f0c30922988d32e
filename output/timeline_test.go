package output

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

func TestPrintEntry(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 11, 20, 10, 0, 5, 0, time.UTC))
	since := metav1.NewTime(at.Add(-20 * time.Minute))
	f := &finding.Finding{
		Code: "VD301", Check: "inuse-not-attached", Severity: finding.Error, Message: "Pod default/web-0 waits\x1b[2J", Cause: "a patch was empty",
		Subject: finding.Object{Kind: "Pod", Namespace: "default", Name: "web-0"}, Since: &since,
	}
	gaps := []snapshot.Gap{
		{Kind: snapshot.Nodes, Reason: snapshot.ReasonUnavailable, Detail: "connection refused"},
		{Kind: snapshot.Pods, Namespace: "shop", Reason: snapshot.ReasonForbidden, Detail: "they may not be watched in all namespaces"},
		{Kind: snapshot.Events, Reason: snapshot.ReasonUnavailable, Detail: "connection refused"},
	}
	for _, tt := range []struct {
		entry finding.Entry
		want  string
	}{
		{finding.Entry{Change: finding.Appeared, Finding: f}, `10:00:05 APPEARED error VD301 inuse-not-attached default pod/web-0: Pod default/web-0 waits\x1b[2J`},
		{finding.Entry{Change: finding.Changed, Finding: f, Was: &finding.Was{Severity: finding.Warning, Cause: "x", Since: &at}},
			"10:00:05 CHANGED  error VD301 inuse-not-attached default pod/web-0: warning before; since 09:40:05, not 10:00:05; cause: a patch was empty"},
		{finding.Entry{Change: finding.Healed, Finding: f, After: "20m0s"}, "10:00:05 HEALED   error VD301 inuse-not-attached default pod/web-0 after 20m0s"},
		{finding.Entry{Change: finding.GapOpened, Gaps: gaps}, "10:00:05 GAP      nodes, pods outside namespace shop, events cannot be followed: Unavailable: connection refused; Forbidden: they may not be watched in all namespaces"},
		{finding.Entry{Change: finding.GapClosed, Gaps: gaps[:1]}, "10:00:05 RESUMED  nodes can be read again"},
	} {
		tt.entry.Time = at
		var b strings.Builder
		if err := PrintEntry(&b, "table", tt.entry, Options{}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want+"\n", b.String()); diff != "" {
			t.Error(diff)
		}
		b.Reset()
		if err := PrintEntry(&b, "json", tt.entry, Options{}); err != nil {
			t.Fatal(err)
		}
		var back finding.Entry
		if err := json.Unmarshal([]byte(b.String()), &back); err != nil {
			t.Fatal(err)
		}
		if strings.Count(b.String(), "\n") != 1 || back.Change != tt.entry.Change || !back.Time.Equal(&at) {
			t.Errorf("not one object on a line: %s", b.String())
		}
	}
	var painted strings.Builder
	if err := PrintEntry(&painted, "table", finding.Entry{Time: at, Change: finding.Healed, Finding: f}, Options{Color: true}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(painted.String(), "\x1b[32mHEALED") {
		t.Errorf("no colour: %q", painted.String())
	}
}
