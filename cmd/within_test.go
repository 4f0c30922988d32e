//go:build unix

package cmd_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestNamespaceOfACluster: to find nothing wrong in an empty namespace would be a lie, for
// one cluster and for several. A pod without volumes, a claim or a volume in the namespace is
// enough, and of several clusters one that has it.
func TestNamespaceOfACluster(t *testing.T) {
	const noSuch = "namespace web has no pod, claim or volume: does it exist?"
	object := func(kind, namespace string, spec map[string]any) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": kind, "spec": spec}}
		o.SetName("of-web")
		o.SetNamespace(namespace)
		o.SetUID("uid-of-web")
		o.SetResourceVersion("100")
		return o
	}
	for name, test := range map[string]struct {
		has  *unstructured.Unstructured
		code int
	}{
		"nothing":               {nil, 2},
		"a pod without volumes": {object("Pod", "web", map[string]any{}), 0},
		"a claim":               {object("PersistentVolumeClaim", "web", map[string]any{"volumeName": "of-web", "storageClassName": "fast"}), 0},
		"a volume that is left": {object("PersistentVolume", "", map[string]any{"storageClassName": "fast", "claimRef": map[string]any{"namespace": "web", "name": "gone"}}), 0},
	} {
		t.Run(name, func(t *testing.T) {
			server, kubeconfig := newAPI(t, lostEntry)
			if test.has != nil {
				server.add(test.has)
			}
			p := start(t, t.TempDir(), nil, "diagnose", "--kubeconfig", kubeconfig, "-n", "web", "--fail-on", "never")
			p.exits(test.code)
			if strings.Contains(p.stderr(), noSuch) != (test.code == 2) {
				t.Error(p.stderr())
			}
			other, _ := newAPI(t, lostEntry)
			both := filepath.Join(t.TempDir(), "both")
			text := fmt.Sprintf(`{apiVersion: v1, kind: Config, contexts: [{name: a, context: {cluster: a}}, {name: b, context: {cluster: b}}],
				clusters: [{name: a, cluster: {server: %q}}, {name: b, cluster: {server: %q}}]}`, server.URL, other.URL)
			if err := os.WriteFile(both, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			p = start(t, t.TempDir(), nil, "diagnose", "--kubeconfig", both, "--contexts", "a,b", "-n", "web", "--fail-on", "never")
			p.exits(test.code)
			if strings.Contains(p.stderr(), noSuch) != (test.code == 2) {
				t.Error(p.stderr())
			}
		})
	}
}
