package output

import (
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
)

// printPrometheus writes a file for node_exporter's textfile collector, or a body for a push
// gateway. Labels are only names and codes: a driver's message must not create a series.
func printPrometheus(b *strings.Builder, r *finding.Report, _ Options) error {
	families := []*dto.MetricFamily{
		family("volume_doctor_findings", "Findings of each check that ran, by severity.", findingCounts(r)...),
		family("volume_doctor_finding_info", "One for each finding, always 1.", findingInfos(r)...),
		family("volume_doctor_waiting_pods", "Pods that wait for a volume, or whose end waits for one.", waitingCounts(r)...),
		family("volume_doctor_gaps", "Lists that could not be read, wholly or in part.", gauge(float64(len(r.Gaps)))),
		family("volume_doctor_complete", "1 where everything could be read.", gauge(float64(facts.BoolToInt(r.Complete)))),
		family("volume_doctor_last_run_timestamp_seconds", "The moment that the report is about.", gauge(float64(r.TakenAt.UnixMilli())/1000)),
	}
	for _, f := range families {
		if len(f.Metric) == 0 {
			continue // expfmt rejects a family without metrics
		}
		if _, err := expfmt.MetricFamilyToText(b, f); err != nil {
			return err
		}
	}
	return nil
}

// findingCounts returns a zero for each check that ran and found nothing: a series that vanishes
// would leave its alert without an end.
func findingCounts(r *finding.Report) []*dto.Metric {
	type key struct{ code, check, severity string }
	counts := map[key]float64{}
	var order []key
	count := func(k key, n float64) {
		if _, known := counts[k]; !known {
			order = append(order, k)
		}
		counts[k] += n
	}
	for _, code := range r.Checks {
		if check, known := checkOf(code); known {
			count(key{string(code), check.Name, string(check.Severity)}, 0)
		}
	}
	for _, f := range r.Findings {
		count(key{Label(string(f.Code)), Label(f.Check), Label(string(f.Severity))}, 1)
	}
	metrics := make([]*dto.Metric, 0, len(order))
	for _, k := range order {
		metrics = append(metrics, gauge(counts[k], "code", k.code, "check", k.check, "severity", k.severity))
	}
	return metrics
}

func waitingCounts(r *finding.Report) []*dto.Metric {
	var metrics []*dto.Metric
	for _, verdict := range []finding.WaitState{finding.InFlight, finding.Stuck, finding.Unsure} {
		n := 0
		for _, w := range r.Waiting {
			if w.Verdict == verdict {
				n++
			}
		}
		metrics = append(metrics, gauge(float64(n), "verdict", string(verdict)))
	}
	return metrics
}

// findingInfos leaves out findings that a report from elsewhere repeats: Prometheus rejects a file
// in which a series appears twice.
func findingInfos(r *finding.Report) []*dto.Metric {
	metrics := make([]*dto.Metric, 0, len(r.Findings))
	seen := map[string]bool{}
	for _, f := range r.Findings {
		labels := []string{"code", Label(string(f.Code)), "check", Label(f.Check), "severity", Label(string(f.Severity)),
			"kind", Label(f.Subject.Kind), "namespace", Label(f.Subject.Namespace), "name", Label(f.Subject.Name),
			"node", Label(string(f.Node)), "persistentvolume", Label(f.PersistentVolume), "action", Label(string(f.Next().Kind)), "fingerprint", Label(f.Fingerprint)}
		if f.Context != "" {
			labels = append(labels, "context", Label(f.Context))
		}
		if series := strings.Join(labels, "\x00"); !seen[series] {
			seen[series] = true
			metrics = append(metrics, gauge(1, labels...))
		}
	}
	return metrics
}

func family(name, help string, metrics ...*dto.Metric) *dto.MetricFamily {
	return &dto.MetricFamily{Name: &name, Help: &help, Type: dto.MetricType_GAUGE.Enum(), Metric: metrics}
}

// gauge makes a gauge. The labels are alternately names and values.
func gauge(value float64, labels ...string) *dto.Metric {
	m := &dto.Metric{Gauge: &dto.Gauge{Value: &value}}
	for i := 0; i < len(labels); i += 2 {
		m.Label = append(m.Label, &dto.LabelPair{Name: &labels[i], Value: &labels[i+1]})
	}
	return m
}

// longestName is the longest name of an API object, in characters.
const longestName = 253

// Label returns the text as a metric label: without control characters, and cut to longestName
// columns.
func Label(s string) string { return clip(visible(s), longestName) }
