package fleet

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/command"
)

// fleetPage is the page whose commands are run.
const fleetPage = "../../docs/fleet.md"

// credentials is the program that the page names for those of a cluster of the inventory.
const credentials = `#!/bin/sh
printf '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"token-of-the-program"}}'
`

// TestCommandsOfThePage runs every command of docs/fleet.md, with the clusters and the file
// that it speaks of, and sees which clusters each examines.
func TestCommandsOfThePage(t *testing.T) {
	f := newFleet(time.Now())
	t.Cleanup(f.close)
	healthy, err := listsOf(size, f.now, true)
	must(t, err)
	broken, err := listsOf(size, f.now, false)
	must(t, err)
	must(t, f.add("prod-east", broken, "", nil))
	must(t, f.add("prod-west", broken, "", nil))
	must(t, f.add("staging", healthy, "", nil))
	must(t, f.add("fleet/prod-north", broken, "", nil))
	must(t, f.add("fleet/test", broken, "", nil))
	must(t, f.add("hub", withProfiles(t, f, "fleet/prod-north", "fleet/test"), "", nil))

	page, err := os.ReadFile(fleetPage)
	must(t, err)
	home, folder := t.TempDir(), t.TempDir()
	kubeconfig := filepath.Join(home, "config")
	must(t, clientcmd.WriteToFile(*f.only("prod-east", "prod-west", "staging", "hub"), kubeconfig))
	must(t, os.Mkdir(filepath.Join(home, "clusters"), 0o755))
	for _, name := range []string{"prod-west", "staging"} {
		must(t, clientcmd.WriteToFile(*f.only(name), filepath.Join(home, "clusters", name)))
	}
	_, section, _ := strings.Cut(string(page), "## A cluster inventory\n")
	_, providers, found := strings.Cut(section, "```yaml\nproviders:")
	providers, _, _ = strings.Cut(providers, "```")
	if !found {
		t.Fatal("the page has no file of providers")
	}
	must(t, os.WriteFile(filepath.Join(folder, "providers.json"), []byte("providers:"+providers), 0o600))
	programs := t.TempDir()
	must(t, os.WriteFile(filepath.Join(programs, "gke-gcloud-auth-plugin"), []byte(credentials), 0o755))

	want := map[string][]string{
		"kubectl volume-doctor diagnose --contexts 'prod-*'":                                                                   {"prod-east", "prod-west"},
		"kubectl volume-doctor diagnose --all-contexts":                                                                        {"hub", "prod-east", "prod-west", "staging"},
		"kubectl volume-doctor diagnose --kubeconfig-dir ~/clusters":                                                           {"prod-west", "staging"},
		"kubectl volume-doctor diagnose --context hub --clusterprofile-provider-file providers.json":                           {"fleet/prod-north", "fleet/test"},
		"kubectl volume-doctor diagnose --context hub --clusterprofile-provider-file providers.json --contexts 'fleet/prod-*'": {"fleet/prod-north"},
	}
	dir, err := command.Build()
	must(t, err)
	run := 0
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		for line := range strings.Lines(block[1]) {
			line = strings.TrimSpace(line)
			clusters, known := want[line]
			if !known {
				t.Errorf("no test knows what %q is to examine", line)
				continue
			}
			run++
			report := filepath.Join(t.TempDir(), "report.json")
			cmd := exec.CommandContext(t.Context(), "sh", "-e", "-c", line+" -o table -o json="+report)
			cmd.Dir = folder
			cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "HOME="+home, "PATH="+dir+":"+programs+":"+os.Getenv("PATH"))
			said, err := cmd.CombinedOutput()
			text, readErr := os.ReadFile(report)
			if readErr != nil {
				t.Errorf("%s: %v %v\n%s", line, err, readErr, said)
				continue
			}
			var r finding.Report
			must(t, json.Unmarshal(text, &r))
			var sources, drifted []string
			for _, s := range r.Sources {
				sources = append(sources, s.Context)
			}
			for _, finding := range r.Findings {
				drifted = append(drifted, finding.Context)
			}
			slices.Sort(sources)
			slices.Sort(drifted)
			drifted = slices.Compact(drifted)
			wantDrifted := slices.DeleteFunc(slices.Clone(clusters), func(name string) bool { return name == "staging" || name == "hub" })
			if !slices.Equal(sources, clusters) || !slices.Equal(drifted, wantDrifted) || len(r.Gaps) > 0 || cmd.ProcessState.ExitCode() != 1 {
				t.Errorf("%s: exit code %d, examined %v, want %v; findings in %v; gaps %v\n%s", line, cmd.ProcessState.ExitCode(), sources, clusters, drifted, r.Gaps, said)
			}
		}
	}
	if run != len(want) {
		t.Errorf("%d commands were run, and the test knows %d", run, len(want))
	}
}

// only is the kubeconfig of some of the servers, the last of which is current.
func (f *fleet) only(names ...string) *clientcmdapi.Config {
	config := clientcmdapi.NewConfig()
	for _, name := range names {
		config.Clusters[name], config.AuthInfos[name], config.Contexts[name] = f.config.Clusters[name], f.config.AuthInfos[name], f.config.Contexts[name]
		config.CurrentContext = name
	}
	return config
}

// withProfiles are the lists of a healthy hub whose inventory has the servers with these
// names, NAMESPACE/NAME, and the access provider of the page.
func withProfiles(t *testing.T, f *fleet, names ...string) lists {
	t.Helper()
	answers, err := listsOf(size, f.now, true)
	must(t, err)
	var items []any
	for _, full := range names {
		namespace, name, _ := strings.Cut(full, "/")
		reached := f.config.Clusters[full]
		items = append(items, map[string]any{
			"metadata": map[string]any{"namespace": namespace, "name": name},
			"status": map[string]any{"accessProviders": []any{map[string]any{
				"name": "google", "cluster": map[string]any{"server": reached.Server, "certificate-authority-data": reached.CertificateAuthorityData},
			}}},
		})
	}
	text, err := json.Marshal(map[string]any{"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ClusterProfileList", "metadata": map[string]any{}, "items": items})
	must(t, err)
	answers["/apis/multicluster.x-k8s.io/v1alpha1/clusterprofiles"] = text
	return answers
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
