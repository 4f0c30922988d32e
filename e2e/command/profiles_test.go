package command_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientauthv1 "k8s.io/client-go/pkg/apis/clientauthentication/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/command"
)

// TestClusterProfiles examines what a cluster inventory lists, by the published
// definition of its objects, as somebody who may do no more than list them there. The
// program for credentials gives an administrator's.
func TestClusterProfiles(t *testing.T) {
	t.Parallel()
	kubectl := func(args ...string) {
		t.Helper()
		r, err := command.Run(t.Context(), "kubectl", cluster.Kubeconfig, args...)
		if err != nil || r.Code != 0 {
			t.Fatalf("kubectl %v: %v, exit code %d: %s", args, err, r.Code, r.Stderr)
		}
	}
	reader, err := cluster.KubeconfigWithCertificate("inventory-reader")
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := clientcmd.LoadFromFile(cluster.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	in := kubeconfig.Contexts[kubeconfig.CurrentContext]
	server, admin := kubeconfig.Clusters[in.Cluster], kubeconfig.AuthInfos[in.AuthInfo]
	dir := t.TempDir()
	write := func(name string, content any) string {
		text, err := json.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	credential := write("credential.json", clientauthv1.ExecCredential{
		TypeMeta: metav1.TypeMeta{APIVersion: clientauthv1.SchemeGroupVersion.String(), Kind: "ExecCredential"},
		Status:   &clientauthv1.ExecCredentialStatus{Token: admin.Token},
	})
	programs := write("programs.json", map[string]any{"providers": []map[string]any{{
		"name": "file", "execConfig": clientcmdv1.ExecConfig{APIVersion: clientauthv1.SchemeGroupVersion.String(), Command: "cat", Args: []string{credential}},
	}}})
	examine := func(args ...string) command.Result {
		t.Helper()
		return doctorAs(t, reader, append([]string{"diagnose", "--clusterprofile-provider-file", programs, "-o", "json", "--fail-on", "never"}, args...)...)
	}
	refused := func(says string) {
		t.Helper()
		if r := examine(); r.Code != 2 || !strings.Contains(r.Stderr, says) || r.Stdout != "" {
			t.Errorf("exit code %d, want the error %q", r.Code, says)
		}
	}

	refused(`cannot list resource "clusterprofiles"`)
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "inventory-reader"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"multicluster.x-k8s.io"}, Resources: []string{"clusterprofiles"}, Verbs: []string{"list"}}},
	}
	if _, err := cluster.Client().RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	kubectl("create", "clusterrolebinding", role.Name, "--clusterrole="+role.Name, "--user=inventory-reader")
	refused("knows no ClusterProfile objects")
	definition := filepath.Join("testdata", "crds", "cluster-profiles.yaml")
	kubectl("apply", "--server-side", "-f", definition)
	t.Cleanup(func() {
		if _, err := command.Run(context.WithoutCancel(t.Context()), "kubectl", cluster.Kubeconfig, "delete", "--wait=false", "-f", definition); err != nil {
			t.Error(err)
		}
	})
	kubectl("wait", "--for=condition=Established", "-f", definition)
	refused("has no ClusterProfile object")

	kubectl("create", "namespace", "inventory")
	reached := clientcmdv1.Cluster{Server: server.Server, CertificateAuthorityData: server.CertificateAuthorityData, TLSServerName: server.TLSServerName}
	for name, access := range map[string]clientcmdv1.NamedCluster{
		"east":  {Name: "file", Cluster: reached},
		"west":  {Name: "file", Cluster: clientcmdv1.Cluster{Server: "https://127.0.0.1:1"}},
		"north": {Name: "vault", Cluster: reached},
	} {
		profile := map[string]any{
			"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ClusterProfile", "metadata": map[string]any{"name": name, "namespace": "inventory"},
			"spec": map[string]any{"displayName": name, "clusterManager": map[string]any{"name": "test"}},
		}
		kubectl("create", "-f", write(name+".json", profile))
		status, err := json.Marshal(map[string]any{"status": map[string]any{"accessProviders": []any{access}}})
		if err != nil {
			t.Fatal(err)
		}
		kubectl("patch", "clusterprofile", name, "-n", "inventory", "--subresource=status", "--type=merge", "-p", string(status))
	}

	r := examine()
	report := parse[finding.Report](t, r.Stdout)
	gaps := map[string]string{}
	for _, g := range report.Gaps {
		gaps[g.Context] = g.Detail
	}
	if r.Code != 2 || len(report.Sources) != 3 || len(gaps) != 2 ||
		!strings.Contains(gaps["inventory/west"], "connection refused") || !strings.Contains(gaps["inventory/north"], "has the access providers vault, and the file has none of them") {
		t.Errorf("exit code %d, sources %v, gaps %v", r.Code, report.Sources, gaps)
	}
	r = examine("--contexts", "*/east")
	report = parse[finding.Report](t, r.Stdout)
	if fmt.Sprint(r.Code, len(report.Sources), len(report.Gaps), report.Complete) != "0 1 0 true" || report.Sources[0].Server != server.Server {
		t.Errorf("exit code %d, sources %+v, gaps %v", r.Code, report.Sources, report.Gaps)
	}
	if strings.Contains(r.Stdout+r.Stderr, admin.Token) {
		t.Error("the token is told")
	}
}
