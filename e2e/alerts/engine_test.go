package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/util/teststorage"
)

// TestEvaluate: a recording of two replicas, with a scrape that failed and a finding about
// an object without a namespace, gives the alerts that Prometheus would have.
func TestEvaluate(t *testing.T) {
	begin := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	var recording bytes.Buffer
	encoder := json.NewEncoder(&recording)
	for i := range 40 { // 20 minutes
		at := begin.Add(time.Duration(i) * 30 * time.Second)
		var text strings.Builder
		fmt.Fprintf(&text, "volume_doctor_leader 1\nvolume_doctor_last_look_timestamp_seconds %d\n", at.Unix())
		if i >= 4 && i < 20 {
			text.WriteString(`volume_doctor_finding_since_timestamp_seconds{check="c",code="VD617",kind="Node",name="n1",namespace="",node="n1",severity="warning",volume=""} 1.7951688e+09` + "\n")
		}
		for target, metrics := range map[string]string{"a": text.String(), "b": "volume_doctor_leader 0\n"} {
			if i == 10 && target == "a" {
				metrics = ""
			}
			if err := encoder.Encode(Scrape{Time: at, Target: target, Metrics: metrics}); err != nil {
				t.Fatal(err)
			}
		}
	}
	var out bytes.Buffer
	if err := run(t.Context(), deployed+"rules.yaml", &recording, &out); err != nil {
		t.Fatal(err)
	}
	var alerts []Alert
	if err := json.Unmarshal(out.Bytes(), &alerts); err != nil {
		t.Fatal(err)
	}
	after := func(at *time.Time) time.Duration {
		if at == nil {
			return -1
		}
		return at.Sub(begin)
	}
	var fired []Alert
	for _, a := range alerts {
		if a.Firing != nil {
			fired = append(fired, a)
		}
	}
	if len(fired) != 1 {
		t.Fatalf("%s", out.String())
	}
	a := fired[0]
	if a.Name != "VolumeDoctorWarning" || a.Labels["name"] != "n1" || a.Labels["namespace"] != "" || a.Labels["severity"] != "warning" {
		t.Errorf("%+v", a)
	}
	if after(&a.Pending) != 2*time.Minute || after(a.Firing) != 3*time.Minute || after(a.Ended) != 13*time.Minute {
		t.Errorf("pending after %s, firing after %s, ended after %s", after(&a.Pending), after(a.Firing), after(a.Ended))
	}
}

// TestHonorLabels: what the target exposes stays, an empty label too, which the target's
// own would else take the place of.
func TestHonorLabels(t *testing.T) {
	got := withTarget(labels.FromMap(map[string]string{"namespace": "", "pod": "web-0"}), "a")
	if got.Get("namespace") != "" || got.Get("pod") != "web-0" || got.Get("instance") != "a:8080" {
		t.Error(got)
	}
}

// TestPanels: where one replica leads and one stands by, every panel has something to
// show, and what nobody knows is not shown as 0.
func TestPanels(t *testing.T) {
	const standby = `volume_doctor_leader 0
volume_doctor_build_info{version="v1"} 1
process_cpu_seconds_total 1
process_resident_memory_bytes 2e+07
`
	leading := func(at time.Time) string {
		return fmt.Sprintf(`volume_doctor_leader 1
volume_doctor_build_info{version="v1"} 1
process_cpu_seconds_total %[1]d
process_resident_memory_bytes 5e+07
volume_doctor_last_look_timestamp_seconds %[1]d
volume_doctor_look_duration_seconds_sum %[1]d
volume_doctor_look_duration_seconds_count %[1]d
volume_doctor_findings{code="VD301",check="c",severity="error"} 1
volume_doctor_findings{code="VD103",check="d",severity="warning"} 0
volume_doctor_findings{code="VD120",check="e",severity="info"} 0
volume_doctor_finding_since_timestamp_seconds{code="VD301",check="c",severity="error",kind="Pod",namespace="shop",name="web-0",volume="pv1",node="n1"} 1
volume_doctor_waiting_seconds{namespace="shop",pod="web-0",claim="data",volume="pv1",node="n1",stage="attached",actor="a",state="stuck"} 90
volume_doctor_detaching_seconds{namespace="shop",claim="data",volume="pv1",node="n2",driver="d"} 90
volume_doctor_attached_volumes{node="n1",driver="d"} 3
volume_doctor_attached_volumes{node="n2",driver="d"} 5
volume_doctor_attached_volumes{node="n2",driver="unlimited"} 5
volume_doctor_attachable_volumes_limit{node="n1",driver="d"} 25
volume_doctor_attachable_volumes_limit{node="n2",driver="d"} 0
volume_doctor_gaps{kind="events",reason="Forbidden"} 1
`, at.Unix())
	}
	begin := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		name string
		of   func(time.Time) string
	}{{"one leads", leading}, {"nobody leads", func(time.Time) string { return standby }}} {
		db := teststorage.New(t)
		end := begin
		for i := range 20 {
			end = begin.Add(time.Duration(i) * 30 * time.Second)
			for target, text := range map[string]string{"a": test.of(end), "b": standby} {
				if _, err := ingest(t.Context(), db, Scrape{Time: end, Target: target, Metrics: text}, nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, p := range thePanels(t) {
			for _, target := range p.Targets {
				query, err := newEngine().NewInstantQuery(t.Context(), db, nil, target.Expr, end)
				if err != nil {
					t.Fatal(err)
				}
				result := query.Exec(t.Context())
				series, err := result.Vector()
				own := p.Title == "CPU" || p.Title == "Memory" || p.Title == "Leaders"
				switch {
				case err != nil:
					t.Errorf("%s: panel %q: %v", test.name, p.Title, err)
				case (len(series) > 0) != (own || test.name == "one leads"):
					t.Errorf("%s: panel %q shows %v", test.name, p.Title, series)
				case p.Title == "Attached volumes and limits" && len(series) > 0 && (len(series) != 2 || series[0].F+series[1].F != 8+25):
					t.Errorf("%s: panel %q shows %v", test.name, p.Title, series)
				}
				query.Close()
			}
		}
	}
}
