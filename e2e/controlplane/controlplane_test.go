package controlplane_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/controlplane"
)

var cluster *controlplane.Cluster

func TestMain(m *testing.M) {
	os.Exit(controlplane.Main(m, controlplane.Options{}, func(c *controlplane.Cluster) { cluster = c }))
}

// TestServerReportsItsVersion: what the API server says of itself is what it was built from.
func TestServerReportsItsVersion(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes").Output()
	if err != nil {
		t.Fatal(err)
	}
	if built := strings.TrimSpace(string(out)); built != controlplane.KubernetesVersion {
		t.Errorf("the control plane is built from %s and says %s", built, controlplane.KubernetesVersion)
	}
	version, err := cluster.Client().Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if version.GitVersion != controlplane.KubernetesVersion {
		t.Errorf("server version is %s, want %s", version.GitVersion, controlplane.KubernetesVersion)
	}
}

func TestViewerMayNothing(t *testing.T) {
	viewer, err := cluster.ClientFor(controlplane.UserViewer)
	if err != nil {
		t.Fatal(err)
	}
	_, err = viewer.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("viewer lists pods: error is %v, want Forbidden", err)
	}
	if _, err := cluster.KubeconfigFor("nobody"); err == nil {
		t.Error("an unknown user got a kubeconfig")
	}
}

func TestWritesNamesTheWriter(t *testing.T) {
	admin, err := cluster.ClientFor(controlplane.UserAdmin)
	if err != nil {
		t.Fatal(err)
	}
	before, err := cluster.Writes(controlplane.UserAdmin)
	if err != nil {
		t.Fatal(err)
	}
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "written"}}
	for _, dryRun := range [][]string{{metav1.DryRunAll}, nil} {
		options := metav1.CreateOptions{DryRun: dryRun}
		if _, err := admin.CoreV1().ConfigMaps("default").Create(t.Context(), configMap, options); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := cluster.Client().CoreV1().ConfigMaps("default").Delete(ctx, configMap.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	if _, err := admin.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}

	writes, err := cluster.Writes(controlplane.UserAdmin)
	if err != nil {
		t.Fatal(err)
	}
	writes = writes[len(before):]
	if len(writes) != 2 {
		t.Fatalf("audit log has %d writes of the admin, want the dry run and the creation: %v", len(writes), writes)
	}
	for _, w := range writes {
		if w.Verb != "create" || w.ObjectRef.Resource != "configmaps" || w.ObjectRef.Name != "written" {
			t.Errorf("audit log has %s %s %s, want create configmaps written", w.Verb, w.ObjectRef.Resource, w.ObjectRef.Name)
		}
	}
}

func TestComponentsRestart(t *testing.T) {
	if err := cluster.RestartController(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := cluster.StartController(t.Context()); err == nil {
		t.Error("a second controller started beside the first")
	}
	cluster.KillAttacher()
	if err := cluster.StartAttacher(t.Context()); err != nil {
		t.Fatal(err)
	}
}
