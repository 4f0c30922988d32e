package output

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

func TestPrintEntry(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 11, 20, 10, 0, 5, 0, time.UTC))
	since := metav1.NewTime(at.Add(-20 * time.Minute))
	f := &diagnose.Finding{
		Code: "VD301", Check: "inuse-not-attached", Severity: diagnose.Error, Message: "Pod default/web-0 waits\x1b[2J", Cause: "a patch was empty",
		Subject: diagnose.Object{Kind: "Pod", Namespace: "default", Name: "web-0"}, Since: &since,
	}
	gaps := []snapshot.Gap{
		{Kind: snapshot.Nodes, Reason: snapshot.ReasonUnavailable, Detail: "connection refused"},
		{Kind: snapshot.Pods, Namespace: "shop", Reason: snapshot.ReasonForbidden, Detail: "they may not be watched in all namespaces"},
		{Kind: snapshot.Events, Reason: snapshot.ReasonUnavailable, Detail: "connection refused"},
	}
	for _, tt := range []struct {
		entry diagnose.Entry
		want  string
	}{
		{diagnose.Entry{Change: diagnose.Appeared, Finding: f}, `10:00:05 APPEARED error VD301 inuse-not-attached default pod/web-0: Pod default/web-0 waits\x1b[2J`},
		{diagnose.Entry{Change: diagnose.Changed, Finding: f, Was: &diagnose.Was{Severity: diagnose.Warning, Cause: "x", Since: &at}},
			"10:00:05 CHANGED  error VD301 inuse-not-attached default pod/web-0: warning before; since 09:40:05, not 10:00:05; cause: a patch was empty"},
		{diagnose.Entry{Change: diagnose.Healed, Finding: f, After: "20m0s"}, "10:00:05 HEALED   error VD301 inuse-not-attached default pod/web-0 after 20m0s"},
		{diagnose.Entry{Change: diagnose.GapOpened, Gaps: gaps}, "10:00:05 GAP      nodes, pods outside namespace shop, events cannot be followed: Unavailable: connection refused; Forbidden: they may not be watched in all namespaces"},
		{diagnose.Entry{Change: diagnose.GapClosed, Gaps: gaps[:1]}, "10:00:05 RESUMED  nodes can be read again"},
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
		var back diagnose.Entry
		if err := json.Unmarshal([]byte(b.String()), &back); err != nil {
			t.Fatal(err)
		}
		if strings.Count(b.String(), "\n") != 1 || back.Change != tt.entry.Change || !back.Time.Equal(&at) {
			t.Errorf("not one object on a line: %s", b.String())
		}
	}
	var painted strings.Builder
	if err := PrintEntry(&painted, "table", diagnose.Entry{Time: at, Change: diagnose.Healed, Finding: f}, Options{Color: true}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(painted.String(), "\x1b[32mHEALED") {
		t.Errorf("no colour: %q", painted.String())
	}
}
