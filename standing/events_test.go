package standing

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/volume-doctor/kubectl-volume-doctor/cluster"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// blind is a view of which only the report matters.
func blind(r *finding.Report) *repair.View {
	return &repair.View{Report: r, Snapshot: snapshot.New(noon, snapshot.Source{}, snapshot.Objects{}, []snapshot.Gap{{Kind: snapshot.VolumeAttachments}})}
}

// TestEventsOfWhatStands: no event is written about a finding that another check makes of a
// known failure because of a gap, nor about one that only stays because it cannot be seen.
func TestEventsOfWhatStands(t *testing.T) {
	pods := []string{"shop/db-0"}
	known := finding.Finding{Code: "VD504", Severity: finding.Error, Fingerprint: "known", Pods: pods}
	other := finding.Finding{Code: "VD409", Severity: finding.Warning, Fingerprint: "other", Pods: pods}
	s := &state{}
	at := func(after time.Duration, gaps []snapshot.Gap, found ...finding.Finding) []finding.Finding {
		s.saw(blind(&finding.Report{TakenAt: metav1.NewTime(noon.Add(after)), Checks: []finding.Code{"VD409"}, Gaps: gaps, Findings: found}), noon)
		return s.last.found().Findings
	}
	if got := at(0, nil, known); len(got) != 1 || got[0].Fingerprint != "known" {
		t.Errorf("a finding: %v", got)
	}
	if got := at(time.Second, []snapshot.Gap{{Kind: snapshot.Claims}}, other); len(got) != 0 {
		t.Errorf("while claims cannot be read: %v", got)
	}
	if n := len(s.last.standing); n != 1 {
		t.Errorf("%d findings stand", n)
	}
}

// TestEventsRest: where events cannot be written, that is logged once, and writing is tried
// again a minute later, not with every look.
func TestEventsRest(t *testing.T) {
	var asked atomic.Int32
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"no RBAC policy matched"}`))
	}))
	defer api.Close()
	c, err := cluster.New(&rest.Config{Host: api.URL}, cluster.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	now := &clock{noon}
	s := newServer(options(now, &log), nobody)
	f := finding.Finding{Code: "VD301", Fingerprint: "a", Subject: finding.Object{Kind: "Pod", Namespace: "shop", Name: "web-0"}}
	s.state.saw(blind(&finding.Report{TakenAt: metav1.NewTime(noon), Findings: []finding.Finding{f}}), noon)
	events := eventWriter{Recorder: cluster.Recorder{Cluster: c}}
	for range 50 {
		events.write(t.Context(), s)
		now.at = now.at.Add(time.Second)
	}
	if n := asked.Load(); n != 1 || strings.Count(log.String(), "\n") != 1 || !strings.Contains(log.String(), "no RBAC policy matched") {
		t.Errorf("asked %d times, and said %q", n, log.String())
	}
	now.at = now.at.Add(eventPause)
	events.write(t.Context(), s)
	if n := asked.Load(); n != 2 {
		t.Errorf("asked %d times after the pause", n)
	}
}
