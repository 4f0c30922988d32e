// Package kit_test makes the kit for other tools of the corpus and the threads, and
// tries its scorer.
package kit_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/volume-doctor/kubectl-volume-doctor/cmd"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/long"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// kitVersion is that of the kit's form: files, fields and how they are scored.
const kitVersion = "v1"

var kitDir = flag.String("kit", "", "write the kit for other tools, as a folder and a tar.gz, into this folder")

// kitCase is expected.json of a case.
type kitCase struct {
	Case       string            `json:"case"`
	Kind       string            `json:"kind"` // corpus or thread
	Title      string            `json:"title"`
	Source     string            `json:"source,omitempty"` // a thread's address
	Kubernetes string            `json:"kubernetes"`
	Now        string            `json:"now"`
	Settings   map[string]string `json:"settings,omitempty"` // flags of kube-controller-manager
	Causes     []kitCause        `json:"causes"`
	MayReport  []finding.Code    `json:"mayReport"`
	Refuted    []finding.Code    `json:"refuted"`
	Waiting    []kitWaiting      `json:"waiting"`
}

type kitCause struct {
	AnyOf    []finding.Code `json:"anyOf"`
	Check    string         `json:"check"`
	Title    string         `json:"title"`
	Severity string         `json:"severity,omitempty"`
	// Objects are those that it is about; any will do where there are none.
	Objects []string `json:"objects"`
}

type kitWaiting struct {
	Pod     string `json:"pod"`
	Verdict string `json:"verdict"`
	Stage   string `json:"stage"`
	Actor   string `json:"actor"`
}

// kitFiles are all files of the kit by their paths in it, made once.
var kitFiles = sync.OnceValues(func() (map[string][]byte, error) {
	files := map[string][]byte{}
	for from, to := range map[string]string{"score.py": "score.py", "../docs/kit.md": "README.md", "../LICENSE": "LICENSE"} {
		text, err := os.ReadFile(from)
		if err != nil {
			return nil, err
		}
		files[to] = text
	}
	cases, err := testcases.All()
	if err != nil {
		return nil, err
	}
	for _, c := range cases {
		if err := addCorpusCase(files, c); err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
	}
	paths, err := filepath.Glob("../testdata/threads/*.txtar")
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		if err := addThread(files, path); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	hash := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.HasPrefix(name, "cases/") {
			fmt.Fprintf(hash, "%s %d\n%s", name, len(files[name]), files[name])
		}
	}
	files["kit.json"] = fmt.Appendf(nil, "{\"version\": %q, \"cases\": %d, \"digest\": \"%x\"}\n", kitVersion, len(cases)+len(paths), hash.Sum(nil))
	return files, nil
})

// addCorpusCase takes what is expected from the report, which TestGeneratedCorpus of diagnose
// holds to the reviewed text of the case.
func addCorpusCase(files map[string][]byte, c *testcases.Case) error {
	s, err := c.Snapshot()
	if err != nil {
		return err
	}
	title := strings.Join(strings.Fields(string(c.Archive.Comment)), " ")
	k := newKitCase(c.Name, "corpus", title, s.Source.ServerVersion, s.TakenAt.Format("2006-01-02T15:04:05Z07:00"))
	k.Settings = kitSettings(c.Settings)
	r := diagnose.Diagnose(s, diagnose.Options{Reconcile: c.Settings})
	causes := map[finding.Code]int{}
	for _, f := range r.Findings {
		if f.Severity == finding.Info {
			k.MayReport = append(k.MayReport, f.Code)
			continue
		}
		i, known := causes[f.Code]
		if !known {
			i = len(k.Causes)
			causes[f.Code] = i
			k.Causes = append(k.Causes, kitCause{AnyOf: []finding.Code{f.Code}, Check: f.Check, Title: titleOf(f.Check), Severity: string(f.Severity)})
		}
		k.Causes[i].Objects = append(k.Causes[i].Objects, kitObjects(f)...)
	}
	for i := range k.Causes {
		slices.Sort(k.Causes[i].Objects)
		k.Causes[i].Objects = slices.Compact(k.Causes[i].Objects)
	}
	slices.Sort(k.MayReport)
	k.MayReport = slices.Compact(k.MayReport)
	for _, w := range r.Waiting {
		k.Waiting = append(k.Waiting, kitWaiting{w.Pod, string(w.Verdict), w.Stage, w.Actor})
	}
	provenance := "Made up for this project. What is expected is what its maintainers hold to be right; the page of each code argues it.\n"
	return k.add(files, c.Cluster, provenance)
}

// addThread takes what is expected from the thread's participants, whatever this
// program finds.
func addThread(files map[string][]byte, path string) error {
	archive, err := txtar.ParseFile(path)
	if err != nil {
		return err
	}
	fields, last := map[string]string{}, ""
	for line := range strings.Lines(string(archive.Comment)) {
		if more, goesOn := strings.CutPrefix(line, " "); goesOn {
			fields[last] += " " + strings.TrimSpace(more)
			continue
		}
		var value string
		last, value, _ = strings.Cut(line, ":")
		fields[last] = strings.TrimSpace(value)
	}
	var header struct{ takenAt, serverVersion string }
	for line := range strings.Lines(strings.SplitN(string(archive.Files[0].Data), "\n---\n", 2)[0]) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "takenAt":
			header.takenAt = strings.Trim(value, `"`)
		case "serverVersion":
			header.serverVersion = value
		}
	}
	name := "thread-" + strings.TrimSuffix(filepath.Base(path), ".txtar")
	k := newKitCase(name, "thread", fields["title"], header.serverVersion, header.takenAt)
	k.Source = fields["thread"]
	cause := kitCause{Title: fields["conclusion"], Objects: []string{}}
	for _, check := range strings.Fields(fields["expected"]) {
		code, err := codeOf(check)
		if err != nil {
			return err
		}
		cause.AnyOf, cause.Check = append(cause.AnyOf, code), check
	}
	k.Causes = append(k.Causes, cause)
	for _, check := range strings.Fields(fields["wrong"]) {
		code, err := codeOf(check)
		if err != nil {
			return err
		}
		k.Refuted = append(k.Refuted, code)
	}
	provenance := fmt.Sprintf("Rebuilt from %s (read: %s). What its participants found: %s\n\nNot in the thread, and filled in: %s\n",
		fields["thread"], fields["read"], fields["conclusion"], fields["filled-in"])
	return k.add(files, archive.Files[0].Data, provenance)
}

func newKitCase(name, kind, title, kubernetes, now string) *kitCase {
	return &kitCase{Case: name, Kind: kind, Title: title, Kubernetes: kubernetes, Now: now,
		Causes: []kitCause{}, MayReport: []finding.Code{}, Refuted: []finding.Code{}, Waiting: []kitWaiting{}}
}

// add writes the case's three files.
func (k *kitCase) add(files map[string][]byte, cluster []byte, provenance string) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(k); err != nil {
		return err
	}
	dir := "cases/" + k.Case + "/"
	files[dir+"expected.json"], files[dir+"snapshot.yaml"] = b.Bytes(), cluster
	files[dir+"README.md"] = fmt.Appendf(nil, "# %s\n\n%s\n\n%s\nApache License 2.0, as the rest of the kit.\n", k.Case, k.Title, provenance)
	return nil
}

// kitObjects are the objects that an answer may name for the finding, as
// kind/namespace/name in small letters, or kind/name.
func kitObjects(f finding.Finding) []string {
	var list []string
	add := func(kind string, names ...string) {
		for _, name := range names {
			if name != "" {
				list = append(list, strings.ToLower(kind)+"/"+name)
			}
		}
	}
	add(f.Subject.Kind, strings.TrimPrefix(f.Subject.Namespace+"/"+f.Subject.Name, "/"))
	add("node", string(f.Node), string(f.Holder))
	add("persistentvolume", f.PersistentVolume)
	add("volumeattachment", f.VolumeAttachment)
	add("pod", f.Pods...)
	add("persistentvolumeclaim", f.Claims...)
	return list
}

func kitSettings(o reconcile.Options) map[string]string {
	settings := map[string]string{}
	if o.MaxWaitForUnmount != 0 {
		settings["max-wait-for-unmount"] = o.MaxWaitForUnmount.String()
	}
	if o.DisableForceDetachOnTimeout {
		settings["disable-force-detach-on-timeout"] = "true"
	}
	if len(o.FlexAttachable) > 0 {
		settings["flex-attachable"] = strings.Join(o.FlexAttachable, ",")
	}
	return settings
}

func codeOf(check string) (finding.Code, error) {
	for _, c := range diagnose.Checks() {
		if c.Name == check {
			return c.Code, nil
		}
	}
	return "", fmt.Errorf("no check is called %q", check)
}

func titleOf(check string) string {
	for _, c := range diagnose.Checks() {
		if c.Name == check {
			return c.Title
		}
	}
	return check
}

// kit is the kit in a folder.
func kit(t *testing.T) string {
	t.Helper()
	files, err := kitFiles()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "kit-"+kitVersion)
	writeKit(t, dir, files)
	return dir
}

func writeKit(t *testing.T, dir string, files map[string][]byte) {
	t.Helper()
	for name, text := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// kitArchive is the kit as a tar.gz, the same bytes each time.
func kitArchive(t *testing.T, files map[string][]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	zip := gzip.NewWriter(&b)
	w := tar.NewWriter(zip)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		mode := int64(0o644)
		if name == "score.py" {
			mode = 0o755
		}
		if err := w.WriteHeader(&tar.Header{Name: "kit-" + kitVersion + "/" + name, Mode: mode, Size: int64(len(files[name])), Format: tar.FormatPAX}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(files[name]); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []interface{ Close() error }{w, zip} {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// TestKit: every case of the corpus and every thread is in the kit, says where it is
// from, and needs nothing but its own file. With -kit it is written.
func TestKit(t *testing.T) {
	long.Test(t)
	files, err := kitFiles()
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for name, text := range files {
		dir, is := strings.CutSuffix(name, "/expected.json")
		if !is {
			continue
		}
		var k kitCase
		if err := json.Unmarshal(text, &k); err != nil {
			t.Fatal(err)
		}
		kinds[k.Kind]++
		if k.Title == "" || k.Now == "" || "cases/"+k.Case != dir || (k.Kind == "thread") != strings.HasPrefix(k.Source, "https://") {
			t.Errorf("%s: %s", name, text)
		}
		for _, c := range k.Causes {
			if len(c.AnyOf) == 0 || c.Title == "" || (k.Kind == "corpus") != (len(c.Objects) > 0) {
				t.Errorf("%s: %+v", name, c)
			}
		}
		if k.Kind == "corpus" && strings.HasPrefix(k.Case, "healthy-") && len(k.Causes) > 0 {
			t.Errorf("%s is healthy and expects %+v", k.Case, k.Causes)
		}
		header, _, _ := bytes.Cut(files[dir+"/snapshot.yaml"], []byte("\n---\n"))
		if !bytes.Contains(header, []byte("kind: Snapshot")) || !bytes.Contains(header, []byte(k.Now)) || !bytes.Contains(files[dir+"/README.md"], []byte("Apache License 2.0")) {
			t.Errorf("%s lacks its snapshot or where it is from", dir)
		}
	}
	if kinds["corpus"] < 800 || kinds["thread"] < 80 {
		t.Errorf("the kit has %v", kinds)
	}
	archive := kitArchive(t, files)
	if !bytes.Equal(archive, kitArchive(t, files)) {
		t.Error("the archive has other bytes each time")
	}
	if *kitDir == "" {
		return
	}
	dir := filepath.Join(*kitDir, "kit-"+kitVersion)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	writeKit(t, dir, files)
	if err := os.WriteFile(dir+".tar.gz", archive, 0o644); err != nil {
		t.Fatal(err)
	}
}

// kitAnswers are a tool's, as score.py takes them.
type kitAnswers struct {
	Tool  string               `json:"tool"`
	Cases map[string]kitAnswer `json:"cases"`
}

type kitAnswer struct {
	Findings []kitFinding `json:"findings"`
	Waiting  []kitWaiting `json:"waiting"`
}

type kitFinding struct {
	Code     string `json:"code,omitempty"`
	Object   string `json:"object,omitempty"`
	Severity string `json:"severity,omitempty"`
}

// ownAnswers are what the command says of each case's file, as anybody would call it.
func ownAnswers(t *testing.T, dir string) kitAnswers {
	t.Helper()
	folders, err := filepath.Glob(filepath.Join(dir, "cases", "*"))
	if err != nil {
		t.Fatal(err)
	}
	answers := kitAnswers{"kubectl volume-doctor", map[string]kitAnswer{}}
	for _, folder := range folders {
		text, err := os.ReadFile(filepath.Join(folder, "expected.json"))
		if err != nil {
			t.Fatal(err)
		}
		var k kitCase
		if err := json.Unmarshal(text, &k); err != nil {
			t.Fatal(err)
		}
		args := []string{"diagnose", "-f", filepath.Join(folder, "snapshot.yaml"), "-o", "json"}
		for name, value := range k.Settings {
			args = append(args, "--"+name+"="+value)
		}
		var stdout, stderr bytes.Buffer
		cmd.Main(args, strings.NewReader(""), &stdout, &stderr)
		r := &finding.Report{}
		if err := json.Unmarshal(stdout.Bytes(), r); err != nil {
			t.Fatalf("%s: %v: %s", k.Case, err, stderr.String())
		}
		var a kitAnswer
		for _, f := range r.Findings {
			a.Findings = append(a.Findings, kitFinding{string(f.Code), kitObjects(f)[0], string(f.Severity)})
		}
		for _, w := range r.Waiting {
			a.Waiting = append(a.Waiting, kitWaiting{w.Pod, string(w.Verdict), w.Stage, w.Actor})
		}
		answers.Cases[k.Case] = a
	}
	return answers
}

// kitScore is what score.py counts for a kind of cases.
type kitScore struct{ Cases, Causes, Named, Object, Missed, FalseAlarms, Waits, Verdicts, Stages, Actors int }

// scored runs score.py of the folder.
func scored(t *testing.T, dir string, answers any) (byKind map[string]kitScore, code int, said string) {
	t.Helper()
	text, err := json.Marshal(answers)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "answers.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), "python3", filepath.Join(dir, "score.py"), "--json", file)
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	if err := c.Run(); c.ProcessState == nil {
		t.Fatal(err)
	}
	var result struct{ Scores map[string]kitScore }
	if code = c.ProcessState.ExitCode(); code < 2 {
		if err := json.Unmarshal(stdout.Bytes(), &result); err != nil {
			t.Fatalf("%v: %s%s", err, stdout.String(), stderr.String())
		}
	}
	return result.Scores, code, stderr.String()
}

// TestKitScore: the scorer gives the command's own answers all causes of the corpus and
// those of the threads that docs/real-threads.md gives them, and counts what is wrong in
// spoilt answers.
func TestKitScore(t *testing.T) {
	long.Test(t)
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("the scorer is a Python program, and there is no python3 here")
	}
	dir := kit(t)
	answers := ownAnswers(t, dir)
	scores, code, said := scored(t, dir, answers)
	c := scores["corpus"]
	if c.Named != c.Causes || c.Object+c.Missed+c.FalseAlarms > 0 || c.Verdicts != c.Waits || c.Stages != c.Waits || c.Actors != c.Waits || c.Cases < 800 || c.Causes < 600 || c.Waits < 300 {
		t.Errorf("the corpus: %+v, %s", c, said)
	}
	page, err := os.ReadFile("../docs/real-threads.md")
	if err != nil {
		t.Fatal(err)
	}
	th := scores["thread"]
	if want := fmt.Sprintf("| cause | a finding names the cause that the thread's participants found | %d,", th.Named); !strings.Contains(string(page), want) || th.Named+th.Missed != th.Causes || th.FalseAlarms > 0 {
		t.Errorf("the threads: %+v; docs/real-threads.md does not say %q", th, want)
	}
	if code != 1 {
		t.Errorf("exit code %d, and threads are missed", code)
	}
	for _, tc := range []struct {
		name   string
		change func(*kitAnswer)
		want   func(*kitScore)
	}{
		{"a finding is left out", func(a *kitAnswer) { a.Findings = nil }, func(s *kitScore) { s.Named--; s.Missed++ }},
		{"the object alone", func(a *kitAnswer) {
			for i := range a.Findings {
				a.Findings[i].Code = ""
			}
		}, func(s *kitScore) { s.Named--; s.Object++ }},
		{"the cause without an object", func(a *kitAnswer) { a.Findings = []kitFinding{{Code: "VD102"}} }, func(*kitScore) {}},
		{"another object of the same cause", func(a *kitAnswer) { a.Findings = []kitFinding{{Code: "VD102", Object: "node/n1"}} }, func(*kitScore) {}},
		{"the cause at a wrong object", func(a *kitAnswer) { a.Findings = []kitFinding{{Code: "VD102", Object: "node/n2000"}} }, func(s *kitScore) { s.Named--; s.Missed++; s.FalseAlarms++ }},
		{"one finding too many", func(a *kitAnswer) {
			a.Findings = append(a.Findings, kitFinding{Code: "VD301", Object: "pod/default/db-0"})
		}, func(s *kitScore) { s.FalseAlarms++ }},
		{"a hint too many", func(a *kitAnswer) { a.Findings = append(a.Findings, kitFinding{Code: "VD301", Severity: "info"}) }, func(*kitScore) {}},
		{"a wrong verdict", func(a *kitAnswer) { a.Waiting[0].Verdict = "in-flight" }, func(s *kitScore) { s.Verdicts--; s.Stages--; s.Actors-- }},
		{"a wrong stage", func(a *kitAnswer) { a.Waiting[0].Stage = "mounted" }, func(s *kitScore) { s.Stages-- }},
		{"a wrong actor", func(a *kitAnswer) { a.Waiting[0].Actor = "nobody" }, func(s *kitScore) { s.Actors-- }},
		{"a pod that does not wait", func(a *kitAnswer) { a.Waiting = append(a.Waiting, kitWaiting{Pod: "default/other", Verdict: "stuck"}) }, func(s *kitScore) { s.FalseAlarms++ }},
	} {
		const spoilt = "vd102-forty-pods"
		changed := kitAnswers{answers.Tool, maps.Clone(answers.Cases)}
		a := kitAnswer{slices.Clone(answers.Cases[spoilt].Findings), slices.Clone(answers.Cases[spoilt].Waiting)}
		tc.change(&a)
		changed.Cases[spoilt] = a
		want := c
		tc.want(&want)
		if got, _, said := scored(t, dir, changed); got["corpus"] != want {
			t.Errorf("%s: %+v, want %+v: %s", tc.name, got["corpus"], want, said)
		}
	}
	for name, bad := range map[string]any{
		"no cases":          map[string]any{"tool": "x"},
		"an unknown case":   kitAnswers{Cases: map[string]kitAnswer{"none": {}}},
		"an unknown field":  map[string]any{"cases": map[string]any{"vd102-due": map[string]any{"causes": []string{}}}},
		"an empty finding":  kitAnswers{Cases: map[string]kitAnswer{"vd102-due": {Findings: []kitFinding{{Severity: "error"}}}}},
		"a code of no text": map[string]any{"cases": map[string]any{"vd102-due": map[string]any{"findings": []any{map[string]any{"code": 102}}}}},
	} {
		if _, code, said := scored(t, dir, bad); code != 2 || !strings.HasPrefix(said, "error: ") || strings.Count(said, "\n") != 1 {
			t.Errorf("%s: exit code %d: %s", name, code, said)
		}
	}
}
