package modes_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/command"
)

// series is a finding by the labels of its series, which its alert also has.
type series struct{ code, check, severity, kind, namespace, name, volume, node string }

func seriesOf(r finding.Report) map[series]bool {
	all := map[series]bool{}
	for _, f := range r.Findings {
		all[seriesOfFinding(f)] = true
	}
	return all
}

func seriesOfFinding(f finding.Finding) series {
	volume := cmp.Or(f.PersistentVolume, string(f.Volume))
	return series{string(f.Code), f.Check, string(f.Severity), f.Subject.Kind, f.Subject.Namespace, f.Subject.Name, volume, string(f.Node)}
}

func seriesWith(labels map[string]string) series {
	return series{
		labels["code"], labels["check"], labels["severity"], labels["kind"],
		labels["namespace"], labels["name"], labels["volume"], labels["node"],
	}
}

// without are those of a that b does not have.
func without(a, b map[series]bool) []series {
	var missing []series
	for key := range a {
		if !b[key] {
			missing = append(missing, key)
		}
	}
	slices.SortFunc(missing, func(a, b series) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return missing
}

// metrics are the samples of a scrape, by metric.
type metrics map[string][]metric

type metric struct {
	labels map[string]string
	value  float64
}

var (
	sampleLine = regexp.MustCompile(`^(\w+)(?:\{(.*)\})? (\S+)$`)
	labelPair  = regexp.MustCompile(`(\w+)="((?:[^"\\]|\\.)*)"`)
)

// parseMetrics reads the metrics of an answer; nil if it has none.
func parseMetrics(text string) metrics {
	if text == "" {
		return nil
	}
	m := metrics{}
	for line := range strings.Lines(text) {
		parts := sampleLine.FindStringSubmatch(strings.TrimSpace(line))
		if parts == nil {
			continue // a comment
		}
		value, err := strconv.ParseFloat(parts[3], 64)
		if err != nil {
			continue
		}
		labels := map[string]string{}
		for _, pair := range labelPair.FindAllStringSubmatch(parts[2], -1) {
			labels[pair[1]] = pair[2]
		}
		m[parts[1]] = append(m[parts[1]], metric{labels, value})
	}
	return m
}

func (m metrics) has(name string) bool { return len(m[name]) > 0 }

// value is the value of a metric without labels.
func (m metrics) value(name string) float64 {
	if !m.has(name) {
		return 0
	}
	return m[name][0].value
}

func (m metrics) findings() map[series]bool {
	all := map[series]bool{}
	for _, s := range m["volume_doctor_finding_since_timestamp_seconds"] {
		all[seriesWith(s.labels)] = true
	}
	return all
}

// differs says where serve differs from the last diagnose; "" where it does not.
func (s *serving) differs(t *testing.T) string {
	t.Helper()
	m, _ := s.leader(t)
	if !m.has("volume_doctor_last_look_timestamp_seconds") {
		return "nobody leads who has looked"
	}
	want, got := seriesOf(s.last), m.findings()
	if lost, invented := without(want, got), without(got, want); len(lost)+len(invented) > 0 {
		return fmt.Sprintf("the metrics lack %v and have besides %v", lost, invented)
	}
	counts := map[string]float64{}
	for _, f := range s.last.Findings {
		counts[string(f.Code)]++
	}
	for _, c := range m["volume_doctor_findings"] {
		counts[c.labels["code"]] -= c.value
	}
	for code, n := range counts {
		if n != 0 {
			return fmt.Sprintf("volume_doctor_findings of %s differs by %v", code, -n)
		}
	}
	fingerprints := map[string]string{} // the namespace of each finding
	for _, f := range s.last.Findings {
		fingerprints[f.Fingerprint] = f.Subject.Namespace
	}
	if text := reportsDiffer(t, fingerprints); text != "" {
		return text
	}
	written := events(t)
	for fingerprint := range fingerprints {
		if written[fingerprint] == nil {
			return "no event about " + fingerprint
		}
	}
	return ""
}

// reportsDiffer compares the OpenReports with the findings' fingerprints and namespaces.
func reportsDiffer(t *testing.T, fingerprints map[string]string) string {
	t.Helper()
	left := map[string]bool{}
	for fingerprint := range fingerprints {
		left[fingerprint] = true
	}
	for _, kind := range []string{"reports", "clusterreports"} {
		text, err := cluster.Client().CoreV1().RESTClient().Get().AbsPath("/apis/openreports.io/v1alpha1/"+kind).SetHeader("Accept", "application/json").DoRaw(t.Context())
		if err != nil {
			return err.Error()
		}
		var list struct {
			Items []struct {
				metav1.ObjectMeta `json:"metadata"`
				Results           []struct {
					Policy     string            `json:"policy"`
					Properties map[string]string `json:"properties"`
				} `json:"results"`
			} `json:"items"`
		}
		if err := json.Unmarshal(text, &list); err != nil {
			return err.Error()
		}
		for _, o := range list.Items {
			if len(o.Results) == 0 {
				return fmt.Sprintf("the OpenReport in %q has no result", o.Namespace)
			}
			for _, r := range o.Results {
				fingerprint := r.Properties["fingerprint"]
				if namespace, there := fingerprints[fingerprint]; !there || namespace != o.Namespace {
					return fmt.Sprintf("the OpenReport in %q has %s %q, which is not found there", o.Namespace, r.Policy, fingerprint)
				}
				delete(left, fingerprint)
			}
		}
	}
	if len(left) > 0 {
		return fmt.Sprintf("no OpenReport has %v", left)
	}
	return ""
}

// events are the events that serve has written, by the fingerprint of the finding.
func events(t *testing.T) map[string][]corev1.Event {
	t.Helper()
	list, err := cluster.Client().CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Error(err)
		return nil
	}
	written := map[string][]corev1.Event{}
	for _, e := range list.Items {
		if e.Source.Component != command.Binary {
			continue
		}
		fingerprint, _, found := strings.Cut(strings.TrimPrefix(e.Name, "volume-doctor-"), "-")
		if !found {
			t.Errorf("an event is called %s", e.Name)
		}
		written[fingerprint] = append(written[fingerprint], e)
	}
	return written
}

// onceAnHour checks that no finding has two events in one hour of the clock, and that each
// event is about a finding of the modes. It returns the number of events.
func (s *serving) onceAnHour(t *testing.T) (count int) {
	t.Helper()
	for fingerprint, list := range events(t) {
		hours := map[time.Time]bool{}
		for _, e := range list {
			count++
			hour := e.FirstTimestamp.Truncate(time.Hour)
			if hours[hour] || e.Count != 1 {
				t.Errorf("the finding %s has more than one event of an hour: %s, %d times", fingerprint, e.Name, e.Count)
			}
			hours[hour] = true
			about := finding.Finding{Subject: finding.Object{Kind: e.InvolvedObject.Kind, Namespace: e.InvolvedObject.Namespace, Name: e.InvolvedObject.Name}}
			if !slices.ContainsFunc(s.modes, func(m mode) bool { return belongs(about, m) || strings.Contains(e.Message, m.name) }) {
				t.Errorf("an event is about no mode: %s of %s: %s", e.Reason, about.Subject, e.Message)
			}
		}
	}
	return count
}

// replaceBetween puts the text between two lines of a page.
func replaceBetween(t *testing.T, page, begin, end, text string) {
	t.Helper()
	old, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(old), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no place for the result", page)
	}
	if err := os.WriteFile(page, []byte(before+begin+text+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
