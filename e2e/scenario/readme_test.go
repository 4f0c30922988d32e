package scenario_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/command"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/scenario"
)

// TestPrintedCommandRepairsThatFinding follows the README in the sandbox's own world, and
// in another that is broken alike: of two findings, the command that is printed with one
// is pasted into a shell, and repairs that finding and no other.
func TestPrintedCommandRepairsThatFinding(t *testing.T) {
	dir, err := command.Build()
	if err != nil {
		t.Fatal(err)
	}
	var worlds []*scenario.World
	for _, name := range []string{"readme-first", "readme-second"} {
		w, err := scenario.BackoffDrop(t.Context(), cluster, scenario.Options{Namespace: name, Node: name + "-n1"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := w.Close(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
		})
		worlds = append(worlds, w)
	}
	first, second := worlds[0], worlds[1]
	var line string
	found := fixture.Condition{
		What: "both worlds have a finding that comes with a repair",
		Check: func(ctx context.Context) (bool, []runtime.Object, error) {
			report, err := reported(ctx)
			if err != nil {
				return false, nil, err
			}
			line = applyLine(report, first)
			return line != "" && applyLine(report, second) != "", nil, nil
		},
	}
	if err := fixture.AwaitFor(t.Context(), foundWithin, found); err != nil {
		t.Fatal(err)
	}

	// The table prints the same line, and nothing but the answer to its question is added.
	table, err := command.Run(t.Context(), command.Binary, cluster.Kubeconfig, "diagnose")
	if err != nil {
		t.Fatal(err)
	}
	if table.Code != 1 || !strings.Contains(table.Stdout, line+"\n") {
		t.Errorf("exit code %d; the table lacks %q:\n%s", table.Code, line, table.Stdout)
	}
	journal := filepath.Join(t.TempDir(), "journal")
	pasted := line + " --yes --for=1s --settle=2s --journal=" + journal
	shell := exec.CommandContext(t.Context(), "sh", "-c", pasted)
	shell.Env = append(os.Environ(), "KUBECONFIG="+cluster.Kubeconfig, "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	if out, err := shell.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", pasted, err, out)
	}
	await(t, fixture.PodRunning(cluster.Client(), first.Namespace, first.Subject.Pod))

	after, err := reported(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if left := applyLine(after, first); left != "" {
		t.Errorf("the finding is still there, with %q", left)
	}
	if applyLine(after, second) == "" {
		t.Error("the other world's finding was repaired as well")
	}
	if err := fixture.Await(t.Context(), second.Dropped()); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(text, []byte(second.Node)) {
		t.Errorf("the journal names the other world's node:\n%s", text)
	}
}

// reported is what diagnose finds, as its own process prints it.
func reported(ctx context.Context) (*finding.Report, error) {
	result, err := command.Run(ctx, command.Binary, cluster.Kubeconfig, "diagnose", "-o", "json")
	if err != nil {
		return nil, err
	}
	if result.Code > 1 {
		return nil, fmt.Errorf("exit code %d: %s", result.Code, result.Stderr)
	}
	var report finding.Report
	return &report, json.Unmarshal([]byte(result.Stdout), &report)
}

// applyLine is the command that is printed with the world's finding; "" where there is no
// such finding.
func applyLine(report *finding.Report, w *scenario.World) string {
	i := slices.IndexFunc(report.Findings, func(f finding.Finding) bool {
		return f.Check == "inuse-not-attached" && f.Names(w.Namespace+"/"+w.Subject.Pod)
	})
	if i < 0 || report.Findings[i].Repair == nil {
		return ""
	}
	return report.Findings[i].Repair.Apply
}
