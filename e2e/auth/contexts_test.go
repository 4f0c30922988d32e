package auth_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/command"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/controlplane"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// contexts is a kubeconfig with the same cluster under three names: for the
// admin twice, and for the viewer; and with one where nobody listens.
func contexts(t *testing.T) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(cluster.Kubeconfig)
	must(t, err)
	path, err := cluster.KubeconfigFor(controlplane.UserViewer)
	must(t, err)
	other, err := clientcmd.LoadFromFile(path)
	must(t, err)
	name := config.Contexts[config.CurrentContext].Cluster
	config.AuthInfos[controlplane.UserViewer] = other.AuthInfos[controlplane.UserViewer]
	config.Clusters["gone"] = &clientcmdapi.Cluster{Server: "https://127.0.0.1:1"}
	config.Contexts = map[string]*clientcmdapi.Context{
		"east":    {Cluster: name, AuthInfo: controlplane.UserAdmin},
		"west":    {Cluster: name, AuthInfo: controlplane.UserAdmin},
		"limited": {Cluster: name, AuthInfo: controlplane.UserViewer},
		"gone":    {Cluster: "gone", AuthInfo: controlplane.UserAdmin},
	}
	config.CurrentContext = "limited"
	path = filepath.Join(t.TempDir(), "kubeconfig")
	must(t, clientcmd.WriteToFile(*config, path))
	return path
}

// TestContexts: one report on several clusters says of each finding and of each
// gap where it is, and the worst of them decides the exit code.
func TestContexts(t *testing.T) {
	w := broken(t)
	found(t, cluster.Kubeconfig, w)
	kubeconfig := contexts(t)
	across := func(code int, args ...string) finding.Report {
		t.Helper()
		r := run(t, kubeconfig, append([]string{"diagnose", "-n", w.Namespace, "-o", "json"}, args...)...)
		if r.Code != code {
			t.Errorf("%v: exit code %d, want %d: %s", args, r.Code, code, r.Stderr)
		}
		return parse[finding.Report](t, r.Stdout)
	}
	both := across(1, "--contexts", "east,west")
	fingerprints := map[string]string{}
	for _, f := range both.Findings {
		if f.Check != "inuse-not-attached" {
			continue
		}
		fingerprints[f.Context] = f.Fingerprint
		if !strings.HasPrefix(f.Message, "in "+f.Context+": ") || f.Repair == nil || !strings.Contains(f.Repair.Commands[0], "kubectl --context="+f.Context+" patch") {
			t.Errorf("who reads or pastes it does not learn that it is about %s: %s %+v", f.Context, f.Message, f.Repair)
		}
	}
	if len(fingerprints) != 2 || fingerprints["east"] == "" || fingerprints["east"] == fingerprints["west"] {
		t.Errorf("fingerprints: %v", fingerprints)
	}
	if len(both.Sources) != 2 || both.Sources[0].Context != "east" || both.Sources[1].Context != "west" || !both.Complete || both.Summary.Error != 2 {
		t.Errorf("sources %v, complete %v, %+v", both.Sources, both.Complete, both.Summary)
	}

	some := across(2, "--contexts", "east,limited")
	if i := slices.IndexFunc(some.Gaps, func(g snapshot.Gap) bool { return g.Context != "limited" }); len(some.Gaps) == 0 || i >= 0 {
		t.Errorf("gaps: %v", some.Gaps)
	}
	if some.Summary.Error != 1 || len(some.SkippedChecks) == 0 || some.SkippedChecks[0].Context != "limited" {
		t.Errorf("%+v, skipped %v", some.Summary, some.SkippedChecks)
	}
	across(1, "--contexts", "east,limited", "--allow-gaps")

	lost := across(2, "--contexts", "gone,east", "--allow-gaps") // that nobody is there is no gap to be allowed
	if len(lost.Gaps) != 1 || lost.Gaps[0].Context != "gone" || !strings.Contains(lost.Gaps[0].Detail, "connection refused") || lost.Summary.Error != 1 {
		t.Errorf("gaps %v, %+v", lost.Gaps, lost.Summary)
	}
	if r := run(t, kubeconfig, "diagnose", "--contexts", "gone"); r.Code != 2 || r.Stdout != "" || strings.Count(command.WithoutProgress(r.Stderr), "\n") != 1 || !strings.HasPrefix(command.WithoutProgress(r.Stderr), "error: ") {
		t.Errorf("nobody anywhere: exit code %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}

	// What one run found is no news to the next; what another cluster had is.
	baseline := filepath.Join(t.TempDir(), "baseline.json")
	run(t, kubeconfig, "diagnose", "--contexts", "east", "-o", "json="+baseline)
	if next := across(1, "--contexts", "east,west", "--baseline", baseline); next.Known == 0 || next.Summary.Error != 1 {
		t.Errorf("known %d, %+v", next.Known, next.Summary)
	}
	r := run(t, kubeconfig, "diagnose", "--context", "east", "--baseline", baseline)
	if r.Code != 2 || r.Stdout != "" || !strings.Contains(r.Stderr, "several clusters") {
		t.Errorf("a baseline of another kind: exit code %d: %s", r.Code, r.Stderr)
	}
	run(t, kubeconfig, "diagnose", "--context", "east", "-o", "json="+baseline)
	if r := run(t, kubeconfig, "diagnose", "--context", "east", "-n", w.Namespace, "--baseline", baseline, "--quiet"); r.Code != 0 || r.Stdout+r.Stderr != "" {
		t.Errorf("nothing new: exit code %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	// Nor is it repaired.
	r = run(t, kubeconfig, "diagnose", "--context", "east", "-n", w.Namespace, "--baseline", baseline, "--apply", "--yes", "--for", "1s")
	if r.Code != 0 || !strings.Contains(r.Stderr, "there is nothing to repair") {
		t.Errorf("--apply: exit code %d: %s", r.Code, r.Stderr)
	}
	must(t, fixture.Await(t.Context(), w.Dropped()))
}
