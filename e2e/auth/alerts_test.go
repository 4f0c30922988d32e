package auth_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/command"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/gomodule"
)

// operator is the Prometheus operator whose resources the API server is given.
const operator = "github.com/prometheus-operator/prometheus-operator@v0.85.0"

// TestAlertsInstall runs the command of docs/alerts.md, and has the API server look at its
// PodMonitor, with the definitions of the Prometheus operator.
func TestAlertsInstall(t *testing.T) {
	module, err := gomodule.Download(t.Context(), operator)
	must(t, err)
	for _, kind := range []string{"prometheusrules", "podmonitors"} {
		file := filepath.Join(module, "example", "prometheus-operator-crd", "monitoring.coreos.com_"+kind+".yaml")
		if r := kubectl(t, "create", "-f", file); r.Code != 0 {
			t.Fatal(r.Stderr)
		}
		t.Cleanup(func() {
			if r, err := command.Run(context.WithoutCancel(t.Context()), "kubectl", cluster.Kubeconfig, "delete", "-f", file); err != nil || r.Code != 0 {
				t.Error(err, r.Stderr)
			}
		})
		if r := kubectl(t, "wait", "--for=condition=Established", "--timeout=1m", "-f", file); r.Code != 0 {
			t.Fatal(r.Stderr)
		}
	}
	const namespace = "volume-doctor-alerts"
	must(t, fixture.Namespace(t.Context(), cluster.Client(), namespace))

	page, err := os.ReadFile("../../docs/alerts.md")
	must(t, err)
	commands, monitors := 0, 0
	for i, block := range strings.Split(string(page), "```") {
		language, body, _ := strings.Cut(block, "\n")
		body = strings.ReplaceAll(body, "-n volume-doctor ", "-n "+namespace+" ") // that of other tests
		body = strings.ReplaceAll(body, "namespace: volume-doctor\n", "namespace: "+namespace+"\n")
		switch {
		case i%2 == 0:
		case language == "sh":
			commands++
			inShell(t, "", body)
		case strings.HasPrefix(body, "apiVersion: "):
			monitors++
			inShell(t, body, "kubectl apply --dry-run=server --validate=strict -f -")
		}
	}
	if commands != 1 || monitors != 1 {
		t.Errorf("%d commands and %d monitors", commands, monitors)
	}
	r := kubectl(t, "get", "prometheusrule", "volume-doctor", "-n", namespace, "-o", "jsonpath={range .spec.groups[*]}{.rules[*].alert}{.rules[*].keep_firing_for}{end}")
	for _, kept := range []string{"VolumeDoctorError", "VolumeDoctorAbsent", "3m"} {
		if !strings.Contains(r.Stdout, kept) {
			t.Errorf("the API server has not kept %s: %s", kept, r.Stdout)
		}
	}
}

// inShell runs commands of a page as the admin, in the folder of the README; one that
// warns has failed.
func inShell(t *testing.T, stdin, commands string) {
	t.Helper()
	dir, err := command.Build()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), "sh", "-e", "-c", commands)
	cmd.Dir = "../.."
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+cluster.Kubeconfig, "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	if text, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(text), "Warning") {
		t.Errorf("%v: %s", err, text)
	}
}
