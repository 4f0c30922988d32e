package cmd_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/volume-doctor/kubectl-volume-doctor/cmd"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/long"
)

// action is the metadata of a composite GitHub Action, as far as ours uses them; any other
// field in the file is refused.
type action struct {
	Name, Description, Author string
	Inputs                    map[string]struct {
		Description, Default string
		Required             bool
	}
	Outputs map[string]struct{ Description, Value string }
	Runs    struct {
		Using string
		Steps []step
	}
}

type step struct {
	Name, ID, If, Uses, Shell, Run string
	With                           map[string]any
	Env                            map[string]string
}

type gitlabJob struct {
	Image        string
	Variables    map[string]string
	BeforeScript []string `json:"before_script"`
	Script       []string
	Artifacts    struct {
		When    string
		Paths   []string
		Reports struct{ JUnit string }
	}
}

func readStrict[T any](t *testing.T, file string) T {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var document T
	if err := yaml.UnmarshalStrict(text, &document); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return document
}

func theAction(t *testing.T) action {
	t.Helper()
	return readStrict[action](t, "../ci/github/action.yml")
}

var expression = regexp.MustCompile(`(inputs|steps)\.([a-z-]+)(?:\.outputs\.([a-z-]+))?`)

// TestActionIsWhole: everything that its steps refer to exists, each input is used, and none
// is inserted into a script, where its text would be run.
func TestActionIsWhole(t *testing.T) {
	a := theAction(t)
	if a.Name == "" || a.Description == "" || a.Runs.Using != "composite" {
		t.Errorf("%+v", a)
	}
	used := map[string]bool{}
	outputs := map[string]string{} // step -> its script
	refer := func(text string) {
		for _, m := range expression.FindAllStringSubmatch(text, -1) {
			switch script, earlier := outputs[m[2]]; {
			case m[1] == "inputs":
				used[m[2]] = true
			case !earlier || !strings.Contains(script, m[3]+"="):
				t.Errorf("%s: no earlier step has that output", m[0])
			}
		}
	}
	for _, s := range a.Runs.Steps {
		if (s.Run == "") == (s.Uses == "") || (s.Run != "") != (s.Shell == "bash") {
			t.Errorf("%s %s: a step runs with a shell, or uses", s.Name, s.Uses)
		}
		if strings.Contains(s.Run, "${{") {
			t.Errorf("%s: an expression in the script", s.Name)
		}
		if s.Uses != "" && !regexp.MustCompile(`^[a-z/-]+@[0-9a-f]{40}$`).MatchString(s.Uses) {
			t.Errorf("%s is not pinned by a digest", s.Uses)
		}
		refer(s.If)
		for _, text := range s.Env {
			refer(text)
		}
		for _, text := range s.With {
			if text, ok := text.(string); ok {
				refer(text)
			}
		}
		if s.ID != "" {
			outputs[s.ID] = s.Run
		}
	}
	for _, o := range a.Outputs {
		refer(o.Value)
	}
	if declared, used := slices.Sorted(maps.Keys(a.Inputs)), slices.Sorted(maps.Keys(used)); !slices.Equal(declared, used) {
		t.Errorf("inputs %v, of which %v are used", declared, used)
	}
	for name, in := range a.Inputs {
		if in.Description == "" || in.Required == (in.Default != "") && name != "arguments" {
			t.Errorf("input %s: %+v", name, in)
		}
	}
}

// TestActionRuns runs the step that diagnoses as the runner does, with the real
// command.
func TestActionRuns(t *testing.T) {
	a := theAction(t)
	i := slices.IndexFunc(a.Runs.Steps, func(s step) bool { return s.ID == "diagnose" })
	script := a.Runs.Steps[i].Run
	for name, c := range map[string]struct {
		arguments, failOn, code string
		answered                bool
	}{
		"a finding":   {"-f SNAPSHOT", "warning", "1", true},
		"not so bad":  {"-f SNAPSHOT", "never", "0", true},
		"none":        {"-f SNAPSHOT --skip VD301", "warning", "0", true},
		"no file":     {"-f missing.yaml", "warning", "2", false},
		"no such way": {"--nonsense", "warning", "2", false},
		"no cluster":  {"", "warning", "2", false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			out, summary := filepath.Join(dir, "output"), filepath.Join(dir, "summary.md")
			text, code := shell(t, dir, script, "ARGUMENTS="+strings.ReplaceAll(c.arguments, "SNAPSHOT", snapshotIn(t, dir)), "FAIL_ON="+c.failOn,
				"RUNNER_TEMP="+dir, "GITHUB_OUTPUT="+out, "GITHUB_STEP_SUMMARY="+summary)
			if code != 0 {
				t.Fatalf("exit code %d:\n%s", code, text)
			}
			written := read(t, out)
			if !strings.Contains(written, "exit-code="+c.code+"\n") {
				t.Errorf("outputs:\n%s\n%s", written, text)
			}
			sarif, report := filepath.Join(dir, "volume-doctor.sarif"), filepath.Join(dir, "volume-doctor.json")
			if want := "sarif=" + sarif + "\nreport=" + report + "\n"; strings.Contains(written, want) != c.answered {
				t.Errorf("outputs:\n%s", written)
			}
			if !c.answered {
				return
			}
			for _, file := range []string{sarif, report} {
				if !json.Valid([]byte(read(t, file))) {
					t.Errorf("%s is no JSON", file)
				}
			}
			if !strings.Contains(read(t, summary), "#") || text == "" {
				t.Error("nothing for a person to read")
			}
		})
	}
}

// TestGitLabRuns is the same test for the script of GitLab's job.
func TestGitLabRuns(t *testing.T) {
	jobs := readStrict[map[string]gitlabJob](t, "../ci/gitlab.yml")
	job, ok := jobs["volume-doctor"]
	if !ok || len(jobs) != 1 || job.Artifacts.When != "always" {
		t.Fatalf("%+v", jobs)
	}
	dir := t.TempDir()
	text, code := shell(t, dir, strings.Join(job.Script, "\n"), "VOLUME_DOCTOR_ARGUMENTS=-f "+snapshotIn(t, dir))
	if code != 1 || !strings.Contains(text, "VD301") {
		t.Errorf("exit code %d:\n%s", code, text)
	}
	for _, file := range append(job.Artifacts.Paths, job.Artifacts.Reports.JUnit) {
		if read(t, filepath.Join(dir, file)) == "" {
			t.Errorf("%s is empty", file)
		}
	}
	if !strings.Contains(read(t, filepath.Join(dir, job.Artifacts.Reports.JUnit)), "<testsuites") {
		t.Error("no JUnit")
	}
	if _, code := shell(t, dir, strings.Join(job.BeforeScript, "\n")); code == 0 {
		t.Error("it does not ask for the repository")
	}
}

// TestPipelinesBuild: in a bare folder, with only Go, git and make, the instructions of
// docs/ci.md and of GitLab's job build the plug-in from a repository, and the exit code is
// that of its findings.
func TestPipelinesBuild(t *testing.T) {
	long.Test(t)
	blocks := regexp.MustCompile("(?s)## Any other pipeline\n.*?```sh\n(.*?)```").FindStringSubmatch(read(t, "../docs/ci.md"))
	if blocks == nil {
		t.Fatal("docs/ci.md has no such pipeline")
	}
	job := readStrict[map[string]gitlabJob](t, "../ci/gitlab.yml")["volume-doctor"]
	for name, c := range map[string]struct {
		script, arguments string
		code              int
	}{
		"page, a finding":       {blocks[1], "", 1},
		"GitLab, a finding":     {strings.Join(slices.Concat(job.BeforeScript, job.Script), "\n"), "-f snapshot.yaml", 1},
		"GitLab, nothing wrong": {strings.Join(slices.Concat(job.BeforeScript, job.Script), "\n"), "-f snapshot.yaml --skip VD301", 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			snapshotIn(t, dir)
			if err := os.WriteFile(filepath.Join(dir, ".gitconfig"), []byte("[safe]\n\tdirectory = *\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			root, err := filepath.Abs("..")
			if err != nil {
				t.Fatal(err)
			}
			env := []string{"VOLUME_DOCTOR_REPOSITORY=" + root, "VOLUME_DOCTOR_FOLDER=" + filepath.Join(dir, "a folder", "volume-doctor"), "VOLUME_DOCTOR_ARGUMENTS=" + c.arguments}
			for _, name := range []string{"GOCACHE", "GOMODCACHE"} {
				value, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
				if err != nil {
					t.Fatal(err)
				}
				env = append(env, name+"="+strings.TrimSpace(string(value)))
			}
			text, code := shell(t, dir, c.script, env...)
			if code != c.code || strings.Contains(text, "VD301") != (c.code == 1) {
				t.Errorf("exit code %d:\n%s", code, text)
			}
			if !strings.Contains(read(t, filepath.Join(dir, job.Artifacts.Reports.JUnit)), "<testsuites") {
				t.Error("no JUnit")
			}
		})
	}
}

// TestPageOfCI: the command accepts the command lines of docs/ci.md.
func TestPageOfCI(t *testing.T) {
	commands := regexp.MustCompile(`(?m)^kubectl volume-doctor (.*)$`).FindAllStringSubmatch(read(t, "../docs/ci.md"), -1)
	if len(commands) < 5 {
		t.Fatalf("%d commands", len(commands))
	}
	for _, c := range commands {
		var out, errOut bytes.Buffer
		if code := cmd.Main(append(strings.Fields(c[1]), "--help"), nil, &out, &errOut); code != 0 {
			t.Errorf("%s: %s", c[1], errOut.String())
		}
	}
}

// shell runs a script in dir as the runners do, with the command on its PATH.
func shell(t *testing.T, dir, script string, env ...string) (string, int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir() // under this name, this binary is the command: see TestMain
	if err := os.Symlink(self, filepath.Join(bin, "kubectl-volume_doctor")); err != nil {
		t.Fatal(err)
	}
	run := exec.CommandContext(t.Context(), "bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script)
	run.Dir = dir
	run.Env = append([]string{"PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH"), "HOME=" + dir, "KUBECONFIG=" + filepath.Join(dir, "none")}, env...)
	text, err := run.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(text), run.ProcessState.ExitCode()
}

// snapshotIn puts a snapshot into the folder and returns its name there. A script splits its arguments at
// spaces, which the path of the checkout may have.
func snapshotIn(t *testing.T, dir string) string {
	t.Helper()
	const name = "snapshot.yaml"
	if err := os.WriteFile(filepath.Join(dir, name), []byte(read(t, "../testdata/snapshots/backoff-drop.yaml")), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
