package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

const deployed = "../../deploy/alerts/"

// promtool builds Prometheus' own tool, at the version of go.mod, and runs it. It needs no
// service discovery, which would be most of the build.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	binary := filepath.Join("..", "bin", "promtool")
	if text, err := exec.CommandContext(t.Context(), "go", "build", "-tags", "remove_all_sd", "-ldflags=-s -w", "-o", binary, "github.com/prometheus/prometheus/cmd/promtool").CombinedOutput(); err != nil {
		t.Fatalf("build promtool: %v\n%s", err, text)
	}
	if text, err := exec.CommandContext(t.Context(), binary, args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %v: %v\n%s", args, err, text)
	}
}

// TestRules: promtool takes the rules without a complaint, and each does what its tests in
// testdata say.
func TestRules(t *testing.T) {
	promtool(t, "check", "rules", "--lint=all", "--lint-fatal", deployed+"rules.yaml")
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	promtool(t, append([]string{"test", "rules"}, files...)...)
}

// TestConfiguration: Prometheus takes the configuration of docs/alerts.md.
func TestConfiguration(t *testing.T) {
	page, err := os.ReadFile("../../docs/alerts.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, found := strings.Cut(string(page), "```yaml\nrule_files: ")
	block, _, _ = strings.Cut(block, "```")
	rules, err := filepath.Abs(deployed + "rules.yaml")
	if err != nil || !found {
		t.Fatal("the page has no configuration", err)
	}
	file := filepath.Join(t.TempDir(), "prometheus.yaml")
	if err := os.WriteFile(file, []byte("rule_files: "+strings.Replace(block, "/etc/prometheus/volume-doctor/rules.yaml", rules, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "check", "config", "--lint=none", file)
}

// theRules are those of the rules file, as Prometheus reads it.
func theRules(t *testing.T) []rulefmt.Rule {
	t.Helper()
	groups, errs := rulefmt.ParseFile(deployed+"rules.yaml", false, model.UTF8Validation, syntax, silent)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	var all []rulefmt.Rule
	for _, g := range groups.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

// TestEveryRuleIsTested: for each alert, testdata says when it fires and when it does not.
func TestEveryRuleIsTested(t *testing.T) {
	var tests strings.Builder
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		tests.Write(text)
	}
	page, err := os.ReadFile("../../docs/alerts.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range theRules(t) {
		silent := regexp.MustCompile(`alertname: ` + r.Alert + `, exp_alerts: \[\]`)
		fires := regexp.MustCompile(`alertname: ` + r.Alert + `\n +exp_alerts:\n|alertname="` + r.Alert + `", severity="`)
		if !silent.MatchString(tests.String()) || !fires.MatchString(tests.String()) {
			t.Errorf("testdata does not say both when %s fires and when it does not", r.Alert)
		}
		if !regexp.MustCompile(`(?m)^## .*\b` + r.Alert + `\b`).Match(page) {
			t.Errorf("docs/alerts.md has no section on %s", r.Alert)
		}
	}
}

// known are the metrics with their labels, by the table that docs/alerts.md is held
// to, and the two that each Go process has.
func known(t *testing.T) map[string][]string {
	t.Helper()
	page, err := os.ReadFile("../../docs/alerts.md")
	if err != nil {
		t.Fatal(err)
	}
	metrics := map[string][]string{"process_cpu_seconds_total": nil, "process_resident_memory_bytes": nil}
	for _, row := range regexp.MustCompile("(?m)^\\| `(volume_doctor_\\w+)` \\| ([^|]*) \\|").FindAllStringSubmatch(string(page), -1) {
		metrics[row[1]] = nil
		if labels := strings.TrimSpace(row[2]); labels != "" {
			metrics[row[1]] = strings.Split(labels, ", ")
		}
	}
	if len(metrics) < 13 {
		t.Fatalf("the page has only %v", metrics)
	}
	for _, part := range []string{"_sum", "_count", "_bucket"} {
		metrics["volume_doctor_look_duration_seconds"+part] = nil
	}
	return metrics
}

// ofTarget are the labels that the target gives to every series.
var ofTarget = []string{"cluster", "namespace", "job", "instance"}

// sound says what is wrong with an expression: it does not parse, or has a metric or a
// label that serve has not.
func sound(expr string, metrics map[string][]string) (faults []string) {
	parsed, err := syntax.ParseExpr(expr)
	if err != nil {
		return []string{err.Error()}
	}
	parser.Inspect(parsed, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.VectorSelector:
			labels, there := metrics[n.Name]
			if !there {
				faults = append(faults, "there is no metric "+n.Name)
			}
			for _, m := range n.LabelMatchers {
				if m.Name != model.MetricNameLabel && !slices.Contains(labels, m.Name) {
					faults = append(faults, n.Name+" has no label "+m.Name)
				}
			}
		case *parser.AggregateExpr:
			labels := slices.Clone(ofTarget)
			parser.Inspect(n, func(below parser.Node, _ []parser.Node) error {
				if s, ok := below.(*parser.VectorSelector); ok {
					labels = append(labels, metrics[s.Name]...)
				}
				return nil
			})
			for _, l := range n.Grouping {
				if !slices.Contains(labels, l) {
					faults = append(faults, "nothing has the label "+l)
				}
			}
		}
		return nil
	})
	return faults
}

// shown is as much of a panel of the dashboard as the tests look at.
type shown struct {
	Title   string
	GridPos struct{ H, W, X, Y int }
	Targets []struct{ Expr string }
}

func thePanels(t *testing.T) []shown {
	t.Helper()
	text, err := os.ReadFile(deployed + "dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct{ Panels []shown }
	if err := json.Unmarshal(text, &dashboard); err != nil || len(dashboard.Panels) < 10 {
		t.Fatalf("%d panels: %v", len(dashboard.Panels), err)
	}
	return dashboard.Panels
}

// TestExpressions: what rules and panels ask for is there, by Prometheus' own parser.
func TestExpressions(t *testing.T) {
	metrics := known(t)
	for _, r := range theRules(t) {
		for _, fault := range sound(r.Expr, metrics) {
			t.Errorf("%s: %s", r.Alert, fault)
		}
	}
	panels := thePanels(t)
	taken := map[[2]int]string{}
	for _, p := range panels {
		for _, target := range p.Targets {
			for _, fault := range sound(target.Expr, metrics) {
				t.Errorf("panel %q: %s\n%s", p.Title, fault, target.Expr)
			}
		}
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				cell := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if taken[cell] != "" || cell[0] >= 24 {
					t.Errorf("panel %q covers %q", p.Title, taken[cell])
				}
				taken[cell] = p.Title
			}
		}
	}
}

// TestUnsoundExpressions: the test above sees what it is to see.
func TestUnsoundExpressions(t *testing.T) {
	for _, expr := range []string{
		"max by (pod) (volume_doctor_leader", "volume_doctor_leaders", `volume_doctor_findings{sevrity="error"}`, "max by (cod) (volume_doctor_findings)",
		`sum(rate(volume_doctor_look_duration_seconds_total[5m]))`,
	} {
		if len(sound(expr, known(t))) == 0 {
			t.Errorf("%s: nothing is found", expr)
		}
	}
}
