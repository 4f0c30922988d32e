package standing

import (
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/output"
)

// Metric describes a metric of the standing mode.
type Metric struct {
	Name   string
	Labels []string
	Help   string
}

// The metrics. Their names and labels are a contract.
var (
	findingSince = Metric{"volume_doctor_finding_since_timestamp_seconds", []string{"code", "check", "severity", "kind", "namespace", "name", "volume", "node", "action"},
		"When the finding began, or was found first where that is not known; one series for each finding that stands. action is the kind of what to do first."}
	findingDue = Metric{"volume_doctor_finding_due_timestamp_seconds", findingSince.Labels,
		"When the finding heals by itself at the latest; absent where it does not, or nothing bounds it."}
	findings = Metric{"volume_doctor_findings", []string{"code", "check", "severity"},
		"Findings that stand; 0 for each check that the last look could run and that found nothing."}
	waiting = Metric{"volume_doctor_waiting_seconds", []string{"namespace", "pod", "claim", "volume", "node", "stage", "actor", "state"},
		"How long a pod, or its end, has waited for a volume, in which stage and for whom; state is in-flight, stuck or unknown."}
	detaching = Metric{"volume_doctor_detaching_seconds", []string{"namespace", "claim", "volume", "node", "driver"},
		"How long ago the detach of a volume from a node was asked for that is not done: its VolumeAttachment is being deleted."}
	attached = Metric{"volume_doctor_attached_volumes", []string{"node", "driver"},
		"Volumes of the driver that are attached to the node."}
	attachable = Metric{"volume_doctor_attachable_volumes_limit", attached.Labels,
		"Volumes of the driver that may be attached to the node, as its CSINode says; absent where that gives no limit."}
	gaps = Metric{"volume_doctor_gaps", []string{"kind", "reason"},
		"Kinds of objects that cannot be followed, wholly or in part; checks that need them do not run."}
	lastLook = Metric{"volume_doctor_last_look_timestamp_seconds", nil,
		"The API server's time at the last look."}
	lookTook = Metric{"volume_doctor_look_duration_seconds", nil,
		"How long it takes to make a report of what is followed."}
	leads = Metric{"volume_doctor_leader", nil,
		"1 where this process looks, 0 where it stands by; only the one that looks has the metrics about the cluster."}
	buildInfo = Metric{"volume_doctor_build_info", []string{"version"},
		"Always 1; the version of volume-doctor."}
)

// Metrics are all metrics that the standing mode has about the cluster and itself;
// client_golang adds its own about the process.
func Metrics() []Metric {
	return []Metric{findingSince, findingDue, findings, waiting, detaching, attached, attachable, gaps, lastLook, lookTook, leads, buildInfo}
}

// maxSeries bounds how many findings, how many waits and how many detaches have a series: a
// cluster in which everything fails must not fill a Prometheus. The worst are kept, and
// volume_doctor_findings counts all.
const maxSeries = 5000

// metrics collects the state at the moment of a scrape.
type metrics struct {
	*prometheus.Registry
	state *state
	descs map[string]*prometheus.Desc
	looks prometheus.Histogram
}

func newMetrics(s *state, version string) *metrics {
	m := &metrics{Registry: prometheus.NewRegistry(), state: s, descs: map[string]*prometheus.Desc{}}
	for _, metric := range Metrics() {
		m.descs[metric.Name] = prometheus.NewDesc(metric.Name, metric.Help, metric.Labels, nil)
	}
	m.looks = prometheus.NewHistogram(prometheus.HistogramOpts{Name: lookTook.Name, Help: lookTook.Help, Buckets: prometheus.ExponentialBuckets(0.001, 4, 8)})
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: buildInfo.Name, Help: buildInfo.Help}, buildInfo.Labels)
	info.WithLabelValues(version).Set(1)
	m.MustRegister(collector{m}, info, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *metrics) took(d time.Duration) { m.looks.Observe(d.Seconds()) }

// collector makes the metrics of the last look.
type collector struct{ *metrics }

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, metric := range Metrics() {
		if metric.Name != buildInfo.Name {
			ch <- c.descs[metric.Name]
		}
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	leading, _, l := c.state.now()
	s := series{c.descs, ch, map[string]bool{}}
	if !leading {
		s.add(leads, 0)
		return
	}
	s.add(leads, 1)
	ch <- c.looks
	if l == nil {
		return
	}
	s.addFindings(l)
	for _, w := range l.waits[:min(len(l.waits), maxSeries)] {
		s.add(waiting, w.lasts.Seconds(), w.namespace, w.pod, w.claim, w.volume, w.node, w.stage, w.actor, string(w.state))
	}
	for _, d := range l.detaches[:min(len(l.detaches), maxSeries)] {
		s.add(detaching, d.lasts.Seconds(), d.namespace, d.claim, d.volume, d.node, d.driver)
	}
	for _, load := range l.loads {
		if load.attached >= 0 {
			s.add(attached, float64(load.attached), load.node, load.driver)
		}
		if load.limit >= 0 {
			s.add(attachable, float64(load.limit), load.node, load.driver)
		}
	}
	counts := map[[2]string]int{}
	for _, gap := range l.report.Gaps {
		counts[[2]string{string(gap.Kind), string(gap.Reason)}]++
	}
	for key, n := range counts {
		s.add(gaps, float64(n), key[0], key[1])
	}
	s.add(lastLook, seconds(l.report.TakenAt.Time))
}

// series are the series of one scrape.
type series struct {
	descs map[string]*prometheus.Desc
	ch    chan<- prometheus.Metric
	// seen are the series that exist already: two with the same labels make the scrape fail.
	seen map[string]bool
}

func (s series) add(m Metric, value float64, labels ...string) {
	for i, l := range labels {
		labels[i] = output.Label(l)
	}
	key := m.Name + "\x00" + strings.Join(labels, "\x00")
	if s.seen[key] {
		return
	}
	s.seen[key] = true
	s.ch <- prometheus.MustNewConstMetric(s.descs[m.Name], prometheus.GaugeValue, value, labels...)
}

func (s series) addFindings(l *look) {
	type key struct{ code, check, severity string }
	counts := map[key]int{}
	for _, c := range diagnose.Checks() {
		if slices.Contains(l.report.Checks, c.Code) {
			counts[key{string(c.Code), c.Name, string(c.Severity)}] = 0
		}
	}
	for i, f := range l.standing {
		counts[key{string(f.Code), f.Check, string(f.Severity)}]++
		if i >= maxSeries {
			continue
		}
		labels := func() []string {
			return []string{string(f.Code), f.Check, string(f.Severity), f.Subject.Kind, f.Subject.Namespace, f.Subject.Name, string(volumeOf(f.Finding)), string(f.Node), string(f.Next().Kind)}
		}
		s.add(findingSince, seconds(f.Began().Time), labels()...)
		if due, known := dueOf(f); known {
			s.add(findingDue, seconds(due), labels()...)
		}
	}
	for k, n := range counts {
		s.add(findings, float64(n), k.code, k.check, k.severity)
	}
}

// dueOf is when the finding will have healed by itself, if the report says so.
func dueOf(f finding.Standing) (time.Time, bool) {
	if !f.SelfHeals.Will || f.SelfHeals.After == "" {
		return time.Time{}, false
	}
	after, err := time.ParseDuration(f.SelfHeals.After)
	return f.Last.Add(after), err == nil
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
