package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
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
