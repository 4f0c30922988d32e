package command_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/command"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/controlplane"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
)

// TestForbiddenListIsAGap: a user who may not list a kind is told so, and is never told that
// all is well.
func TestForbiddenListIsAGap(t *testing.T) {
	t.Parallel()
	client := cluster.Client()
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "viewer-without-csinodes"},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"pods", "nodes", "persistentvolumes", "persistentvolumeclaims", "events"}, Verbs: []string{"get", "list"}},
			{APIGroups: []string{"storage.k8s.io"}, Resources: []string{"volumeattachments", "csidrivers", "storageclasses"}, Verbs: []string{"get", "list"}},
			{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "list"}},
			{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: []string{"get", "list"}},
		},
	}
	if _, err := client.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: controlplane.UserViewer}},
	}
	if _, err := client.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := cluster.KubeconfigFor(controlplane.UserViewer)
	if err != nil {
		t.Fatal(err)
	}
	calm := calmNamespace(t)
	r := doctorAs(t, kubeconfig, "diagnose", "-n", calm, "-o", "json")
	report := parse[finding.Report](t, r.Stdout)
	if r.Code != 2 || report.Complete || len(report.Gaps) != 1 || report.Gaps[0].Kind != "csinodes" || report.Gaps[0].Reason != "Forbidden" {
		t.Errorf("exit code %d, gaps %v", r.Code, report.Gaps)
	}
	if r := doctorAs(t, kubeconfig, "diagnose", "-n", calm, "--allow-gaps"); r.Code != 0 {
		t.Errorf("--allow-gaps: exit code %d", r.Code)
	}
	if r := doctorAs(t, kubeconfig, "diagnose", "-n", calm); !strings.Contains(r.Stdout, "gap: csinodes could not be read (Forbidden)") {
		t.Errorf("the table does not name the gap")
	}
}

// calmNamespace has a pod without volumes and without faults.
func calmNamespace(t *testing.T) string {
	t.Helper()
	name := "calm-" + strings.ToLower(t.Name())
	if err := fixture.Namespace(t.Context(), cluster.Client(), name); err != nil {
		t.Fatal(err)
	}
	if _, err := fixture.CreatePod(t.Context(), cluster.Client(), fixture.Pod(name, "calm", "")); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestNoAnswer: each way of not reaching a cluster is one clear line.
func TestNoAnswer(t *testing.T) {
	t.Parallel()
	config, err := clientcmd.LoadFromFile(cluster.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, auth := range config.AuthInfos {
		auth.Token = "expired"
	}
	expired := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, expired); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		kubeconfig string
		args       []string
		want       string
	}{
		"expired token": {expired, nil, "credentials"},
		"wrong context": {cluster.Kubeconfig, []string{"--context", "nowhere"}, "nowhere"},
		"no cluster":    {cluster.Kubeconfig, []string{"--server", "https://127.0.0.1:1"}, "connection refused"},
		"no kubeconfig": {filepath.Join(t.TempDir(), "none"), nil, ""},
		"unknown pod":   {cluster.Kubeconfig, []string{"pod/nobody"}, "does not exist"},
	} {
		for _, verb := range []string{"diagnose", "plan", "snapshot"} {
			if name == "unknown pod" && verb != "diagnose" {
				continue
			}
			r := doctorAs(t, tc.kubeconfig, append([]string{verb}, tc.args...)...)
			said := command.WithoutProgress(r.Stderr)
			if r.Code != 2 || r.Stdout != "" || strings.Count(said, "\n") != 1 ||
				!strings.HasPrefix(said, "error: ") || !strings.Contains(strings.ToLower(said), strings.ToLower(tc.want)) {
				t.Errorf("%s, %s: exit code %d, stderr %q", name, verb, r.Code, r.Stderr)
			}
		}
	}
}

// TestPlugin: kubectl finds the command and completes its arguments.
func TestPlugin(t *testing.T) {
	t.Parallel()
	dir, err := command.Build()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"kubectl_complete-volume_doctor", "kubectl_complete-volume_doctor-serve"} {
		completer, err := os.ReadFile("../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), completer, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"volume-doctor", "diagnose", "-n", calmNamespace(t)}, "Nothing wrong"},
		{[]string{"volume-doctor", "--help"}, "kubectl volume-doctor diagnose"},
		{[]string{"__complete", "volume-doctor", "exp"}, "explain"},
		{[]string{"__complete", "volume-doctor", "explain", "inuse"}, "inuse-not-attached"},
		{[]string{"volume-doctor", "serve", "--help"}, "--leader-elect"},
		{[]string{"__complete", "volume-doctor", "ser"}, "serve"},
		{[]string{"__complete", "volume-doctor", "serve", "--li"}, "--listen"},
	} {
		r, err := command.Run(t.Context(), "kubectl", cluster.Kubeconfig, tc.args...)
		if err != nil {
			t.Fatal(err)
		}
		if r.Code != 0 || !strings.Contains(r.Stdout, tc.want) {
			t.Errorf("kubectl %v: exit code %d, lacks %q:\n%s%s", tc.args, r.Code, tc.want, r.Stdout, r.Stderr)
		}
	}
}
