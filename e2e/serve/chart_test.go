package serve_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/command"
)

const (
	base = "../../deploy/kustomize"
	// patience is how long a command line may take.
	patience = 2 * time.Minute
)

// tools is a folder with the plug-in, kubectl and Helm.
var tools = sync.OnceValues(func() (string, error) {
	dir, err := command.Build()
	if err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", filepath.Join(dir, "helm"), "helm.sh/helm/v4/cmd/helm")
	build.Dir = "../helm"
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build helm: %w\n%s", err, text)
	}
	return dir, nil
})

// try runs a command line as the admin, in the folder that the documents mean.
func try(t *testing.T, stdin, line string) (string, error) {
	t.Helper()
	dir, err := tools()
	must(t, err)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience) // also once the test has ended
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-e", "-c", line)
	cmd.Dir = "../.."
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+cluster.Kubeconfig, "HOME="+t.TempDir(), "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	text, err := cmd.CombinedOutput()
	return string(text), err
}

// shell runs command lines; one that warns has failed.
func shell(t *testing.T, stdin, lines string) string {
	t.Helper()
	text, err := try(t, stdin, lines)
	if err != nil || strings.Contains(strings.ToLower(text), "warn") {
		t.Fatalf("%s\n%v: %s", lines, err, text)
	}
	return text
}

// objects are the objects of a text of manifests, by kind and name, without the Namespace: the
// base has one, and the chart is installed into one.
func objects(t *testing.T, text string) map[string]unstructured.Unstructured {
	t.Helper()
	found := map[string]unstructured.Unstructured{}
	for document := range strings.SplitSeq(text, "\n---\n") {
		var o unstructured.Unstructured
		must(t, yaml.Unmarshal([]byte(document), &o.Object))
		if len(o.Object) == 0 || o.GetKind() == "Namespace" {
			continue
		}
		key := o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
		if _, twice := found[key]; twice {
			t.Errorf("%s is there twice", key)
		}
		found[key] = o
	}
	return found
}

// template are the objects of the chart with some values.
func template(t *testing.T, flags string) map[string]unstructured.Unstructured {
	t.Helper()
	return objects(t, shell(t, "", "helm template volume-doctor deploy/chart -n volume-doctor "+flags))
}

// TestChartLints: Helm has nothing to say about the chart, and the schema of its values
// refuses what would be ignored or would not run.
func TestChartLints(t *testing.T) {
	const all = "--set driverObjects=true,events=true,reports=true,reportPage=true,replicas=1,serviceMonitor.enabled=true"
	for _, flags := range []string{"", all} {
		shell(t, "", "helm lint --strict deploy/chart "+flags)
	}
	for _, values := range []string{"replicas=0", "replicas=two", "event=true", "events=yes", "reports=yes", "driverObjects=yes", "image.tag=a:b", "image.digest=sha256:0", "args=--events", "networkPolicy.apiServerPorts={70000}", "serviceMonitor.label.a=b"} {
		if text, err := try(t, "", "helm template deploy/chart --set '"+values+"'"); err == nil || !strings.Contains(text, "schema") {
			t.Errorf("%s: %v, %.300s", values, err, text)
		}
	}
}

// TestSameObjects: the base has the objects of the chart, and its components make the same
// of them as the chart's switches.
func TestSameObjects(t *testing.T) {
	with := func(component string) string {
		folder := t.TempDir()
		from, err := filepath.Rel(folder, abs(t, base))
		must(t, err)
		must(t, os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte("resources: ["+from+"]\ncomponents: ["+from+"/"+component+"]\n"), 0o600))
		return folder
	}
	for _, test := range []struct{ folder, flags string }{
		{"deploy/kustomize", ""},
		{with("events"), "--set events=true"},
		{with("reports"), "--set reports=true"},
		{with("driver-objects"), "--set driverObjects=true"},
	} {
		want, got := template(t, test.flags), objects(t, shell(t, "", "kubectl kustomize "+test.folder))
		if want, got := slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got)); !slices.Equal(got, want) {
			t.Errorf("%s has\n%v\nand the chart\n%v", test.folder, got, want)
		}
		for key, object := range want {
			want, err := json.MarshalIndent(object.Object, "", " ")
			must(t, err)
			got, err := json.MarshalIndent(got[key].Object, "", " ")
			must(t, err)
			if string(got) != string(want) {
				t.Errorf("%s: %s is\n%s\nand in the chart\n%s\n\"make base\" writes the base again", test.folder, key, got, want)
			}
		}
	}
}

// TestChoices: what is only there where the values ask for it.
func TestChoices(t *testing.T) {
	kinds := func(objects map[string]unstructured.Unstructured) (list []string) {
		for key := range objects {
			kind, _, _ := strings.Cut(key, " ")
			list = append(list, kind)
		}
		slices.Sort(list)
		return list
	}
	always := []string{"ClusterRole", "ClusterRoleBinding", "Deployment", "NetworkPolicy", "Role", "RoleBinding", "Service", "ServiceAccount"}
	for _, test := range []struct {
		flags       string
		more, fewer []string
	}{
		{"", []string{"PodDisruptionBudget"}, nil},
		{"--set replicas=1", nil, nil},
		{"--set replicas=1,networkPolicy.enabled=false", nil, []string{"NetworkPolicy"}},
		{"--set replicas=1,reportPage=true,serviceMonitor.enabled=true", []string{"ClusterRole", "ServiceMonitor"}, nil},
	} {
		want := slices.DeleteFunc(slices.Concat(always, test.more), func(kind string) bool { return slices.Contains(test.fewer, kind) })
		slices.Sort(want)
		if got := kinds(template(t, test.flags)); !slices.Equal(got, want) {
			t.Errorf("%q makes %v, want %v", test.flags, got, want)
		}
	}
	digest := "sha256:" + strings.Repeat("a", 64)
	if got := deployment(t, template(t, "--set image.digest="+digest)).Spec.Template.Spec.Containers[0].Image; got != "ghcr.io/volume-doctor/volume-doctor@"+digest {
		t.Errorf("with a digest the image is %s", got)
	}
	// Two releases in a cluster share no object.
	one, other := template(t, ""), objects(t, shell(t, "", "helm template second deploy/chart -n other"))
	for key := range other {
		if _, shared := one[key]; shared || !strings.Contains(key, "second-volume-doctor") {
			t.Errorf("a second release has %s", key)
		}
	}
}

func deployment(t *testing.T, objects map[string]unstructured.Unstructured) *appsv1.Deployment {
	t.Helper()
	object, found := objects["Deployment volume-doctor/volume-doctor"]
	if !found {
		t.Fatal("no Deployment")
	}
	text, err := json.Marshal(object.Object)
	must(t, err)
	var d appsv1.Deployment
	must(t, yaml.UnmarshalStrict(text, &d))
	return &d
}

// TestInstall: the commands of docs/in-cluster.md install by the chart and by the base,
// the API server takes the pod under the strictest pod security standard, and what
// removes it leaves nothing.
func TestInstall(t *testing.T) {
	installs, uninstalls := blocks(t, "## Install it", "sh"), blocks(t, "## Remove it", "sh")
	if len(installs) < 2 || len(uninstalls) < 2 {
		t.Fatalf("%d ways to install and %d to remove", len(installs), len(uninstalls))
	}
	for i, way := range []string{"chart", "base"} {
		t.Run(way, func(t *testing.T) {
			before := everything(t)
			shell(t, "", installs[i])
			installed, err := cluster.Client().AppsV1().Deployments(namespace).Get(t.Context(), "volume-doctor", metav1.GetOptions{})
			must(t, err)
			takesPod(t, installed.Spec.Template.Spec)
			p := start(t, asServiceAccount(t), "--leader-elect=true")
			p.says(t, "leading as")
			if code := p.end(t); code != 0 {
				t.Errorf("exit code %d after SIGTERM", code)
			}
			shell(t, "", uninstalls[i])
			after := everything(t)
			for object := range after {
				if !before[object] {
					t.Errorf("%s is left", object)
				}
			}
		})
	}
}

// takesPod: the API server takes the pod, and refuses it once it asks for more.
func takesPod(t *testing.T, spec corev1.PodSpec) {
	t.Helper()
	pods, dry := cluster.Client().CoreV1().Pods(namespace), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "volume-doctor-0"}, Spec: spec}
	_, err := pods.Create(t.Context(), pod, dry)
	must(t, err)
	pod.Spec.HostNetwork = true
	if _, err := pods.Create(t.Context(), pod, dry); err == nil || !strings.Contains(err.Error(), "restricted") {
		t.Errorf("a pod on the node's network: %v", err)
	}
}

// everything that the API server lists, but for events and what components keep for
// themselves.
func everything(t *testing.T) map[string]bool {
	t.Helper()
	config := cluster.RESTConfig()
	config.WarningHandler = rest.NoWarnings{} // some kinds are deprecated
	clients, err := dynamic.NewForConfig(config)
	must(t, err)
	lists, err := discovery.NewDiscoveryClientForConfigOrDie(config).ServerPreferredResources()
	must(t, err)
	found := map[string]bool{}
	for _, list := range lists {
		group, err := schema.ParseGroupVersion(list.GroupVersion)
		must(t, err)
		for _, r := range list.APIResources {
			if !slices.Contains(r.Verbs, "list") || r.Name == "events" || r.Name == "componentstatuses" {
				continue
			}
			objects, err := clients.Resource(group.WithResource(r.Name)).List(t.Context(), metav1.ListOptions{})
			must(t, err)
			for _, o := range objects.Items {
				found[r.Name+" "+o.GetNamespace()+"/"+o.GetName()] = true
			}
		}
	}
	if len(found) < 50 {
		t.Fatalf("only %d objects are there", len(found))
	}
	return found
}

func abs(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	must(t, err)
	return path
}
