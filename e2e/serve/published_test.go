package serve_test

import (
	"os"
	"strings"
	"testing"
)

// TestPublishedKinds holds what is made for the Prometheus operator and for Open Cluster
// Management against the published definitions, on the real API server: no field that
// nobody knows.
func TestPublishedKinds(t *testing.T) {
	const crds = "e2e/serve/testdata/crds/"
	fleet, err := os.ReadFile("../../docs/fleet.md")
	must(t, err)
	_, management, _ := strings.Cut(string(fleet), "### Open Cluster Management\n")
	_, management, found := strings.Cut(management, "```yaml\n")
	management, _, _ = strings.Cut(management, "```")
	rule, err := os.ReadFile("../../deploy/alerts/prometheusrule.yaml")
	must(t, err)
	monitor := shell(t, "", "helm template volume-doctor deploy/chart -n default --set serviceMonitor.enabled=true -s templates/servicemonitor.yaml")
	if !found || !strings.Contains(monitor, "ServiceMonitor") {
		t.Fatal("there is nothing to apply")
	}
	for _, test := range []struct{ definitions, objects, field string }{
		{"prometheus-operator.yaml", monitor, "honorLabels"},
		{"prometheus-operator.yaml", string(rule), "keep_firing_for"},
		{"open-cluster-management.yaml", management, "placementRefs"},
	} {
		shell(t, "", "kubectl apply --server-side -f "+crds+test.definitions+"\nkubectl wait --for=condition=Established -f "+crds+test.definitions)
		t.Cleanup(func() { shell(t, "", "kubectl delete --wait=false --ignore-not-found -f "+crds+test.definitions) })
		const apply = "kubectl create --dry-run=server --validate=strict -f -"
		shell(t, test.objects, apply)
		if text, err := try(t, strings.Replace(test.objects, test.field, "misspelt", 1), apply); err == nil || !strings.Contains(text, "misspelt") {
			t.Errorf("%s: a field that nobody knows is taken: %v, %.300s", test.field, err, text)
		}
	}
}
