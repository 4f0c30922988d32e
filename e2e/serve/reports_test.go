package serve_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
	doctor "github.com/volume-doctor/kubectl-volume-doctor/standing"
)

// misuseTaint makes a node that is Ready and has the out-of-service taint, which is found
// without a namespace.
func misuseTaint(t *testing.T) {
	t.Helper()
	shell(t, `{apiVersion: v1, kind: Node, metadata: {name: told}, spec: {taints: [{key: node.kubernetes.io/out-of-service, value: nodeshutdown, effect: NoExecute}]}}`, "kubectl create -f -")
	shell(t, "", `kubectl patch node told --subresource=status --type=merge -p '{"status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}'`)
}

// reportOf is the OpenReport in the namespace, or the ClusterReport for ""; nil if it does not
// exist.
func reportOf(ctx context.Context, namespace string) (*doctor.OpenReport, error) {
	path := "/apis/openreports.io/v1alpha1/clusterreports"
	if namespace != "" {
		path = "/apis/openreports.io/v1alpha1/namespaces/" + namespace + "/reports"
	}
	text, err := cluster.Client().CoreV1().RESTClient().Get().AbsPath(path).SetHeader("Accept", "application/json").DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	var list struct{ Items []doctor.OpenReport }
	if err := json.Unmarshal(text, &list); err != nil || len(list.Items) == 0 {
		return nil, err
	}
	return &list.Items[0], nil
}

// awaitReport waits until the codes that a namespace's report names are these; "" is for
// no report.
func awaitReport(t *testing.T, namespace, codes string) *doctor.OpenReport {
	t.Helper()
	var there *doctor.OpenReport
	must(t, fixture.Await(t.Context(), fixture.Condition{What: fmt.Sprintf("the report in %q has %q", namespace, codes), Check: func(ctx context.Context) (bool, []runtime.Object, error) {
		o, err := reportOf(ctx, namespace)
		got := map[string]bool{}
		if o != nil {
			for _, r := range o.Results {
				got[r.Policy] = true
			}
		}
		there = o
		return err == nil && (codes == "") == (o == nil) && (codes == "" || got[codes]), nil, err
	}}))
	return there
}

// TestOpenReports: with the published definitions, a report follows its findings, another
// process goes on with it, what others have made is left alone, and whichever right of the
// chart is missing, that is said.
func TestOpenReports(t *testing.T) {
	kubeconfig := install(t, "reports=true")
	flags := []string{"--leader-elect=false", "--reports"}

	before := start(t, kubeconfig, flags...)
	before.says(t, "OpenReports were not written: reports.openreports.io: the server could not find the requested resource")
	before.end(t)

	shell(t, "", "kubectl apply --server-side -f e2e/serve/testdata/crds/openreports.yaml\nkubectl wait --for=condition=Established -f e2e/serve/testdata/crds/openreports.yaml")
	t.Cleanup(func() { shell(t, "", "kubectl delete --wait=false -f e2e/serve/testdata/crds/openreports.yaml") })
	loseClaim(t, "foreign")
	shell(t, `{apiVersion: openreports.io/v1alpha1, kind: Report, metadata: {name: volume-doctor, namespace: foreign}, source: somebody}`, "kubectl create -f -")
	foreign, err := reportOf(t.Context(), "foreign")
	must(t, err)
	claim, _ := loseClaim(t, "told")
	t.Cleanup(func() {
		shell(t, "", "kubectl delete pods,persistentvolumeclaims --all -n told\nkubectl delete pods,persistentvolumeclaims --all -n foreign\nkubectl delete node told --ignore-not-found")
	})

	first := start(t, kubeconfig, flags...)
	first.says(t, `in namespace "foreign" is somebody else's`)
	told := awaitReport(t, "told", "VD504")
	result := told.Results[0]
	if told.Name != "volume-doctor" || told.Source != "volume-doctor" || told.Summary.Warn != 1 ||
		// the finding is young; it becomes an error later
		result.Result != "warn" || result.Severity != "medium" || result.Properties["confidence"] != "suspected" ||
		result.Resources[0].Name != "data" || result.Resources[0].UID != claim.UID || result.Timestamp.Seconds == 0 || !strings.Contains(result.Message, "told") {
		t.Errorf("%+v", told)
	}
	misuseTaint(t)
	awaitReport(t, "", "VD110")
	must(t, first.cmd.Process.Kill())

	// Healed while nobody looked.
	restore(t, claim)
	second := start(t, kubeconfig, flags...)
	awaitReport(t, "told", "")
	shell(t, "", "kubectl delete node told")
	awaitReport(t, "", "")
	if now, err := reportOf(t.Context(), "foreign"); err != nil || now == nil || now.ResourceVersion != foreign.ResourceVersion {
		t.Errorf("somebody else's report: %+v, %v", now, err)
	}
	second.end(t)

	// Another serve looks at another namespace, and takes nothing for healed there.
	misuseTaint(t)
	mine := start(t, kubeconfig, flags...)
	there := awaitReport(t, "", "VD110")
	other := start(t, cluster.Kubeconfig, "--leader-elect=false", "--reports", "-n", "foreign")
	other.says(t, `in namespace "foreign" is somebody else's`)
	if now, err := reportOf(t.Context(), ""); err != nil || now == nil || now.UID != there.UID {
		t.Errorf("the report of another serve: %+v, %v", now, err)
	}
	other.end(t)
	mine.end(t)

	const ours = `{apiVersion: openreports.io/v1alpha1, kind: %s, metadata: {name: volume-doctor, namespace: %q, labels: {app.kubernetes.io/managed-by: volume-doctor, app.kubernetes.io/instance: volume-doctor}}}`
	lostClaim, _ := loseClaim(t, "told-again")
	t.Cleanup(func() { shell(t, "", "kubectl delete pods,persistentvolumeclaims --all -n told-again") })
	for _, lost := range roles(t)[0] {
		verb, resource, _ := strings.Cut(lost, " ")
		if resource != "reports" && resource != "clusterreports" {
			continue
		}
		t.Run(lost, func(t *testing.T) {
			shell(t, "", "kubectl delete reports.openreports.io volume-doctor -n told-again --ignore-not-found\nkubectl delete clusterreports.openreports.io --all")
			switch lost {
			case "update reports", "delete reports":
				shell(t, fmt.Sprintf(ours, "Report", "told-again"), "kubectl create -f -")
			case "update clusterreports", "delete clusterreports":
				shell(t, fmt.Sprintf(ours, "ClusterReport", ""), "kubectl create -f -")
			}
			switch lost {
			case "delete reports":
				restore(t, lostClaim)
			case "delete clusterreports":
				shell(t, "", "kubectl delete node told")
			}
			lose(t, lost)
			p := start(t, kubeconfig, flags...)
			if line := p.says(t, "OpenReports were not written: "); !strings.Contains(line, "cannot "+verb+" resource \""+resource+"\"") {
				t.Errorf("%q", line)
			}
			if code := p.end(t); code != 0 {
				t.Errorf("exit code %d", code)
			}
		})
	}
}
