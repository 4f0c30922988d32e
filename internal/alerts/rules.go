// Package alerts makes the alert rules and the dashboard of deploy/alerts from the tables of
// checks and of metrics. Only tests import it.
package alerts

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/standing"
)

// Group is a group of rules in the form of a rules file and a PrometheusRule.
type Group struct {
	Name  string `yaml:"name"`
	Rules []Rule `yaml:"rules"`
}

// Rule is an alert rule. Durations are in Prometheus' form.
type Rule struct {
	Alert         string      `yaml:"alert"`
	Expr          string      `yaml:"expr"`
	For           string      `yaml:"for"`
	KeepFiringFor string      `yaml:"keep_firing_for,omitempty"`
	Labels        Labels      `yaml:"labels"`
	Annotations   Annotations `yaml:"annotations"`
}

// Labels are the labels that a rule sets. Severity is critical or warning, two of the
// severities of kubernetes-mixin by which receivers are routed. It replaces the finding's
// own.
type Labels struct {
	Severity string `yaml:"severity"`
}

// Annotations are the annotations of kubernetes-mixin.
type Annotations struct {
	Summary     string `yaml:"summary"`
	Description string `yaml:"description"`
	RunbookURL  string `yaml:"runbook_url"`
}

const (
	// settles is the "for" of findings, waits and detaches: two evaluations at the usual
	// interval of 30 s see the failure. The checks have their grace built in, so that more
	// would only be late.
	settles = "1m"
	// lingers is longer than a missed scrape, and than the 45 s after which another replica
	// leads plus the time for its first look. A series that is missing for less has not
	// healed.
	lingers = "3m"
	// podWaits is how long a pod may wait for a volume. It is a judgement, the same as for
	// KubePodNotReady in kubernetes-mixin.
	podWaits = 15 * time.Minute
	// detachTakes is how long a detach may take; after that the checks call it stuck.
	detachTakes = facts.StuckDeleting
	// lookAge is more than the time from one look to the next after which serve's /healthz
	// fails and it is restarted; it is compared with another machine's clock.
	lookAge = 5 * time.Minute

	source = "https://github.com/volume-doctor/kubectl-volume-doctor/blob/main/"
)

// installation are the target labels that distinguish installations; those that distinguish
// an installation's replicas are left out.
var installation = []string{"cluster", "namespace", "job"}

// severities are the labels of alerts for the severities of findings, the worst first; "" for
// a severity that alerts nobody.
var severities = []struct {
	of     finding.Severity
	label  string
	means  string
	advice string
}{
	{finding.Error, "critical", "An error stands",
		"A pod cannot start or end, or data is in danger."},
	{finding.Warning, "warning", "A warning stands",
		"It holds nobody up yet, or only somebody's next move."},
	{finding.Info, "", "", // nobody is alerted
		"Nothing has to be done: it may end by itself."},
}

// Groups are all rules. There is one rule about findings for each severity that alerts
// anybody: see docs/adr/0019-alert-rules.md.
func Groups() []Group {
	return []Group{
		{Name: "volume-doctor.findings", Rules: findingRules()},
		{Name: "volume-doctor.waits", Rules: waitRules()},
		{Name: "volume-doctor.self", Rules: selfRules()},
	}
}

func findingRules() []Rule {
	var rules []Rule
	for _, s := range severities {
		if s.label == "" {
			continue
		}
		since := metric("volume_doctor_finding_since_timestamp_seconds")
		// The action may change while the alert must stay the same.
		labels := slices.DeleteFunc(slices.Clone(since.Labels), func(l string) bool { return l == "action" })
		rules = append(rules, Rule{
			Alert: "VolumeDoctor" + strings.ToUpper(string(s.of[:1])) + string(s.of[1:]),
			Expr:  fmt.Sprintf("%s (%s{severity=%q})", maxBy(labels...), since.Name, s.of),
			For:   settles, KeepFiringFor: lingers,
			Labels: Labels{s.label},
			Annotations: Annotations{
				Summary: "{{ $labels.code }} {{ $labels.check }}: {{ $labels.kind }} {{ if $labels.namespace }}{{ $labels.namespace }}/{{ end }}{{ $labels.name }}",
				Description: s.means + " since {{ $value | humanizeTimestamp }}{{ if $labels.volume }}, about volume {{ $labels.volume }}{{ end }}{{ if $labels.node }} on node {{ $labels.node }}{{ end }}. " + s.advice +
					" To see the evidence and what to do: kubectl volume-doctor diagnose{{ if $labels.namespace }} -n {{ $labels.namespace }}{{ end }} --check {{ $labels.code }}",
				RunbookURL: source + "diagnose/docs/{{ $labels.code }}.md",
			},
		})
	}
	return rules
}

func waitRules() []Rule {
	waiting, detaching := metric("volume_doctor_waiting_seconds"), metric("volume_doctor_detaching_seconds")
	// The state changes while the pod waits, and the alert must stay the same.
	labels := slices.DeleteFunc(slices.Clone(waiting.Labels), func(l string) bool { return l == "state" })
	return []Rule{
		warning("VolumeDoctorPodWaits",
			fmt.Sprintf("%s (%s) > %d", maxBy(labels...), waiting.Name, int(podWaits.Seconds())), settles, lingers, Annotations{
				Summary: "Pod {{ $labels.namespace }}/{{ $labels.pod }} waits for volume {{ $labels.volume }}",
				Description: "It has waited for {{ $value | humanizeDuration }}{{ if $labels.node }} on node {{ $labels.node }}{{ end }}{{ if $labels.claim }}, with claim {{ $labels.claim }}{{ end }}, in the stage {{ $labels.stage }}{{ if $labels.actor }}; {{ $labels.actor }} has to act{{ end }}. " +
					"To follow it stage by stage: kubectl volume-doctor trace {{ $labels.pod }} -n {{ $labels.namespace }}",
			}),
		warning("VolumeDoctorDetachWaits",
			fmt.Sprintf("%s (%s) > %d", maxBy(detaching.Labels...), detaching.Name, int(detachTakes.Seconds())), settles, lingers, Annotations{
				Summary: "Volume {{ $labels.volume }} waits to be detached from node {{ $labels.node }}",
				Description: "The detach was asked for {{ $value | humanizeDuration }} ago, and driver {{ $labels.driver }} has not done it{{ if $labels.claim }}. The volume belongs to claim {{ $labels.namespace }}/{{ $labels.claim }}{{ end }}. " +
					"To see who has to act: kubectl volume-doctor diagnose node/{{ $labels.node }}",
			}),
	}
}

func selfRules() []Rule {
	leader, gaps, lastLook := metric("volume_doctor_leader"), metric("volume_doctor_gaps"), metric("volume_doctor_last_look_timestamp_seconds")
	one := func(m standing.Metric) string { return fmt.Sprintf("%s (%s)", maxBy(), m.Name) }
	return []Rule{
		warning("VolumeDoctorNoLeader", one(leader)+" == 0", "5m", "", Annotations{
			Summary:     "No replica of volume-doctor follows the cluster",
			Description: "Every replica stands by, so that nobody looks and no finding can fire. Read the log of the pods: it says why the Lease cannot be taken.",
		}),
		warning("VolumeDoctorLookOld",
			fmt.Sprintf("time() - %s > %d\nor\n(%s == 1) unless %s", one(lastLook), int(lookAge.Seconds()), one(leader), one(lastLook)), "5m", "", Annotations{
				Summary:     "volume-doctor has not looked at the cluster for more than 5 minutes",
				Description: "A replica leads, but its last look is too old or it has made none, so that findings and waits are not up to date. Read the log of the pod that leads.",
			}),
		warning("VolumeDoctorGaps", fmt.Sprintf("%s (%s) > 0", maxBy("namespace", "job", "kind", "reason"), gaps.Name), "10m", "", Annotations{
			Summary:     "volume-doctor cannot follow {{ $labels.kind }}: {{ $labels.reason }}",
			Description: "The checks that need {{ $labels.kind }} do not run, so that no alert about them does not mean that all is well. If the reason is Forbidden, bind the roles of docs/in-cluster.md.",
		}),
		warning("VolumeDoctorAbsent", fmt.Sprintf("absent(%s)", leader.Name), "10m", "", Annotations{
			Summary:     "Prometheus scrapes no volume-doctor",
			Description: "No replica of kubectl volume-doctor serve is scraped, so that no alert about volumes can fire. Check that its pods run and that Prometheus has them as a target.",
		}),
	}
}

// maxBy takes one series of several replicas: one for each value of the labels, or of the
// installation's where none are given.
func maxBy(labels ...string) string {
	if len(labels) == 0 {
		labels = installation
	}
	if !slices.Contains(labels, "cluster") {
		labels = append([]string{"cluster"}, labels...) // a rule may be evaluated for several clusters
	}
	return "max by (" + strings.Join(labels, ", ") + ")"
}

// metric is serve's metric of this name.
func metric(name string) standing.Metric {
	all := standing.Metrics()
	i := slices.IndexFunc(all, func(m standing.Metric) bool { return m.Name == name })
	if i < 0 {
		panic("serve has no metric " + name)
	}
	return all[i]
}

// warning makes a rule with severity warning. docs/alerts.md has a section about it.
func warning(alert, expr, waits, lingers string, a Annotations) Rule {
	a.RunbookURL = source + "docs/alerts.md#" + strings.ToLower(alert)
	return Rule{Alert: alert, Expr: expr, For: waits, KeepFiringFor: lingers, Labels: Labels{"warning"}, Annotations: a}
}
