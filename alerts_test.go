package main

import (
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/internal/alerts"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/golden"
)

// TestAlertFiles keeps the rules and the dashboard what the tables of checks and of
// metrics make of them. That Prometheus takes them is shown in e2e/alerts.
func TestAlertFiles(t *testing.T) {
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
