//go:build unix

package cmd_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/long"
)

// kubeconfigOf writes a kubeconfig with the contexts, each as NAME=SERVER.
func kubeconfigOf(t *testing.T, file string, contexts ...string) {
	t.Helper()
	text := "apiVersion: v1\nkind: Config\ncontexts:\n"
	servers := "clusters:\n"
	for _, c := range contexts {
		name, server, _ := strings.Cut(c, "=")
		text += fmt.Sprintf("- {name: %q, context: {cluster: %q}}\n", name, name)
		servers += fmt.Sprintf("- {name: %q, cluster: {server: %q}}\n", name, server)
	}
	if err := os.WriteFile(file, []byte(text+servers), 0o600); err != nil {
		t.Fatal(err)
	}
}

// across runs diagnose and returns the report.
func across(t *testing.T, code int, args ...string) (finding.Report, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report.json")
	p := start(t, t.TempDir(), nil, append([]string{"diagnose", "-o", "json=" + file, "--check", "VD306,VD301", "--fail-on", "warning"}, args...)...)
	p.exits(code)
	var r finding.Report
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, p.stderr())
	}
	return r, p.stderr()
}

// TestContextsByPattern: a cluster under two names is read once, and the report says so; a
// pattern that matches nothing is not taken for a fleet without faults.
func TestContextsByPattern(t *testing.T) {
	long.Test(t)
	one, _ := newAPI(t, lostEntry)
	two, _ := newAPI(t, lostEntry)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	kubeconfigOf(t, kubeconfig, "prod-1="+one.URL, "prod-2="+two.URL, "prod-again="+one.URL, "test=http://127.0.0.1:1")
	r, said := across(t, 1, "--kubeconfig", kubeconfig, "--contexts", "prod-*")
	if len(r.Sources) != 2 || r.SameContexts["prod-again"] != "prod-1" || r.Affected() != 2 || !r.Complete {
		t.Errorf("%v, the same %v, %+v", r.Sources, r.SameContexts, r.Summary)
	}
	for _, line := range []string{"note: prod-again has the server and the user of prod-1, and is not read again\n", "prod-2: errors: 0, warnings: 1\n"} {
		if !strings.Contains(said, line) {
			t.Errorf("%q is not said in\n%s", line, said)
		}
	}
	if r, _ := across(t, 1, "--kubeconfig", kubeconfig, "--contexts", "prod-1,prod-again"); len(r.Sources) != 2 {
		t.Errorf("both were asked for: %v", r.Sources)
	}
	r, said = across(t, 2, "--kubeconfig", kubeconfig, "--all-contexts", "--allow-gaps")
	if len(r.Gaps) != 1 || r.Gaps[0].Context != "test" || len(r.Sources) != 3 || !strings.Contains(said, "error: test: cannot reach") {
		t.Errorf("nobody listens in test: %v, %v\n%s", r.Gaps, r.Sources, said)
	}
	for _, bad := range []struct{ args, says string }{
		{"--contexts dev-*", `no context fits "dev-*"`},
		{"--contexts prod-1,dev-*", `no context fits "dev-*"`},
		{"--contexts [", "is no pattern"},
		{"--contexts prod-1 --all-contexts", "exclude each other"},
		{"--all-contexts --apply", "--all-contexts and --apply exclude each other"},
		{"--all-contexts --context prod-1", "--all-contexts and --context exclude each other"},
		{"--all-contexts --watch", "exclude each other"},
		{"--all-contexts pod/web-0", "--all-contexts examines whole clusters"},
		{"--kubeconfig-dir . ", "--kubeconfig-dir and --kubeconfig exclude each other"},
		{"--clusterprofile-provider-file p.json", "--clusterprofile-provider-file is gone, because a ClusterProfile object could choose"},
		{"--clusterprofile-provider-file=p.json --all-contexts", "use --contexts or --kubeconfig-dir"},
		{"--attacher-log a.log", "--attacher-log is gone: give the storage system's own list"},
		{"--all-contexts --request-timeout soon", "--request-timeout"},
	} {
		p := start(t, t.TempDir(), nil, append([]string{"diagnose", "--kubeconfig", kubeconfig}, strings.Fields(bad.args)...)...)
		p.exits(2)
		if !strings.Contains(p.stderr(), bad.says) {
			t.Errorf("%s: %s", bad.args, p.stderr())
		}
	}
}

// TestKubeconfigFolder: every file of a folder is used. Equal names are distinguished, a
// command line names the file of its cluster, and a broken file is a gap.
func TestKubeconfigFolder(t *testing.T) {
	one, _ := newAPI(t, lostEntry)
	two, _ := newAPI(t, lostEntry)
	folder := t.TempDir()
	kubeconfigOf(t, filepath.Join(folder, "east.yaml"), "admin="+one.URL)
	kubeconfigOf(t, filepath.Join(folder, "west.yaml"), "admin="+two.URL)
	if err := os.WriteFile(filepath.Join(folder, "north.yaml"), []byte("kind: Config\nclusters: 7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, said := across(t, 2, "--kubeconfig-dir", folder)
	if len(r.Gaps) != 1 || r.Gaps[0].Context != "north.yaml" || !strings.Contains(r.Gaps[0].Detail, "is no kubeconfig") {
		t.Errorf("gaps %v: %s", r.Gaps, said)
	}
	seen := map[string]bool{}
	for _, f := range r.Findings {
		if f.Code != "VD301" {
			continue // no repair is for a write to the lists
		}
		_, file, _ := strings.Cut(f.Context, "@")
		flags := "--context=admin --kubeconfig=" + filepath.Join(folder, file)
		if f.Repair == nil || !strings.Contains(f.Repair.Apply, flags) || !strings.HasPrefix(f.Repair.Commands[0], "kubectl "+flags+" ") {
			t.Errorf("%s: %+v", f.Context, f.Repair)
		}
		seen[f.Context] = true
	}
	if !seen["admin@east.yaml"] || !seen["admin@west.yaml"] || len(seen) != 2 {
		t.Errorf("findings in %v", seen)
	}
	if r, _ := across(t, 2, "--kubeconfig-dir", folder, "--contexts", "*@east.yaml"); len(r.Sources) != 2 || r.Affected() != 1 {
		t.Errorf("%v: nobody knows what the broken file has", r.Sources)
	}
	p := start(t, t.TempDir(), nil, "diagnose", "--kubeconfig-dir", t.TempDir())
	p.exits(2)
	p.says("has no kubeconfig")
}
