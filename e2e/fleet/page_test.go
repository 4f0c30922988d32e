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

	page, err := os.ReadFile(fleetPage)
	must(t, err)
	home, folder := t.TempDir(), t.TempDir()
	kubeconfig := filepath.Join(home, "config")
	must(t, clientcmd.WriteToFile(*f.only("prod-east", "prod-west", "staging"), kubeconfig))
	must(t, os.Mkdir(filepath.Join(home, "clusters"), 0o755))
	for _, name := range []string{"prod-west", "staging"} {
		must(t, clientcmd.WriteToFile(*f.only(name), filepath.Join(home, "clusters", name)))
	}
	want := map[string][]string{
		"kubectl volume-doctor diagnose --contexts 'prod-*'":         {"prod-east", "prod-west"},
		"kubectl volume-doctor diagnose --all-contexts":              {"prod-east", "prod-west", "staging"},
		"kubectl volume-doctor diagnose --kubeconfig-dir ~/clusters": {"prod-west", "staging"},
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
			cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "HOME="+home, "PATH="+dir+":"+os.Getenv("PATH"))
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

// only is a kubeconfig with some of the servers; the last one is current.
func (f *fleet) only(names ...string) *clientcmdapi.Config {
	config := clientcmdapi.NewConfig()
	for _, name := range names {
		config.Clusters[name], config.AuthInfos[name], config.Contexts[name] = f.config.Clusters[name], f.config.AuthInfos[name], f.config.Contexts[name]
		config.CurrentContext = name
	}
	return config
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
