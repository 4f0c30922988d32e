package house

import (
	"bytes"
	"strings"
	"testing"
	"text/template"

	"github.com/volume-doctor/kubectl-volume-doctor/cmd"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/alerts"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/golden"
)

// TestGeneratedAlertFiles keeps the rules and the dashboard in agreement with the tables of
// checks and of metrics. e2e/alerts shows that Prometheus accepts them.
func TestGeneratedAlertFiles(t *testing.T) {
	for path, make_ := range map[string]func() ([]byte, error){
		"deploy/alerts/rules.yaml": alerts.RulesFile, "deploy/alerts/prometheusrule.yaml": alerts.PrometheusRule, "deploy/alerts/dashboard.json": alerts.Dashboard,
	} {
		text, err := make_()
		if err != nil {
			t.Fatal(err)
		}
		golden.Want(t, path, text)
	}
}

// TestAlertCommands: the commands in an alert's text run, and answer, whether or not the
// object has a namespace.
func TestAlertCommands(t *testing.T) {
	const file = "testdata/snapshots/backoff-drop.yaml"
	commands := 0
	for _, group := range alerts.Groups() {
		for _, rule := range group.Rules {
			for _, namespace := range []string{"default", ""} {
				same := func(v float64) float64 { return v }
				text, err := template.New(rule.Alert).Funcs(template.FuncMap{"humanizeTimestamp": same, "humanizeDuration": same}).Parse("{{ $labels := . }}{{ $value := 1.0 }}" + rule.Annotations.Description)
				if err != nil {
					t.Fatal(err)
				}
				var b strings.Builder
				if err := text.Execute(&b, map[string]string{"namespace": namespace, "code": "VD301", "pod": "web-0", "node": "n1", "claim": "data", "volume": "pv", "driver": "d"}); err != nil {
					t.Fatal(err)
				}
				_, command, found := strings.Cut(b.String(), ": kubectl volume-doctor ")
				if !found || namespace == "" && strings.HasPrefix(command, "trace ") { // each pod has a namespace
					continue
				}
				commands++
				var out, errOut bytes.Buffer
				if code := cmd.Main(append(strings.Fields(command), "-f", file), nil, &out, &errOut); code > 1 || out.Len() == 0 {
					t.Errorf("%s: %s: exit code %d: %s", rule.Alert, command, code, errOut.String())
				}
			}
		}
	}
	if commands != 7 {
		t.Errorf("%d commands", commands)
	}
}
