package house

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var addCheck = flag.Bool("add-check", false, "add a check to a copy of the module, as CONTRIBUTING.md says, and run its tests; takes minutes")

// newCheck are the files that somebody writes to add a check: steps 1, 2 and 4 of
// CONTRIBUTING.md. The check itself is useless. It reads a field of pods that no other code
// reads.
var newCheck = map[string]string{
	"testdata/cases/vd699-odd.txtar": `A pod has the class.
-- overlay.yaml --
base: running
---
patch: Pod default/web-0
spec: {priorityClassName: odd}
`,
	"testdata/cases/vd699-near-another-class.txtar": `The class is another.
-- overlay.yaml --
base: running
---
patch: Pod default/web-0
spec: {priorityClassName: even}
`,
	"testdata/cases/vd699-near-longer-name.txtar": `The name of the class only begins so.
-- overlay.yaml --
base: running
---
patch: Pod default/web-0
spec: {priorityClassName: oddly}
`,
	"diagnose/checks/driver/vd699_odd_pod.go": `package driver

import (
	"fmt"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var OddPod = check.Check{
	Code:     "VD699",
	Name:     "odd-pod",
	Title:    "A pod has an odd class",
	Severity: finding.Info,
	Needs:    []snapshot.Kind{snapshot.Pods},
	Never:    "take the class off a pod that runs",
	Run:      runOddPod,
}

func runOddPod(p *check.Run) {
	for _, pod := range p.Snapshot.Pods {
		if pod.Spec.PriorityClassName != "odd" {
			continue
		}
		p.Report(finding.Finding{
			Subject:   facts.PodObject(pod),
			Message:   fmt.Sprintf("Pod %s has an odd class", facts.PodName(pod)),
			Cause:     "somebody has chosen the class",
			Evidence:  []finding.Evidence{{Object: "pod/" + facts.PodName(pod), Field: "spec.priorityClassName", Value: pod.Spec.PriorityClassName}},
			SelfHeals: finding.SelfHeals{Because: "nobody chooses another"},
			Advice:    "{change} choose another class",
		})
	}
}
`,
	"diagnose/docs/VD699.md": `# VD699 odd-pod

Do this now: look who has chosen the class.

    kubectl get pod NAME -n NAMESPACE -o yaml

A pod has an odd class.

## Symptom

None.

## Evidence

- The pod has the class.

## Look-alikes

- Other classes.

## Does it heal by itself?

No.

## Repair

Choose another class.

## Risk

None.

## Dangerous advice

Do not take the class off a pod that runs.

## References

None.
`,
}

// inLists are step 3: the table of checks, and the list of permanent names. Each new line
// comes after the last that looks like it.
var inLists = map[string]struct{ after, line string }{
	"diagnose/all.go":         {`\t\tdriver\.\w+,\n`, "\t\tdriver.OddPod,\n"},
	"diagnose/checks_test.go": {`\t"VD6\d\d": "[a-z-]+",\n`, "\t\"VD699\": \"odd-pod\",\n"},
}

// generated are the files that a new check changes beside its own.
var generated = []string{"README.md", "docs/codes.md", "docs/offline.md"}

// TestAddACheck follows CONTRIBUTING.md in a copy of the module: the six steps are
// enough, and nothing else changes.
func TestAddACheck(t *testing.T) {
	if !*addCheck {
		t.Skip("make unit runs in a copy of the module, which would double the gate's longest part; make add-check runs it, and make prove each night")
	}
	dir := t.TempDir()
	copyModule(t, dir)
	before := sums(t, dir)
	byHand := slices.Concat(slices.Collect(maps.Keys(newCheck)), slices.Collect(maps.Keys(inLists)))
	for path, text := range newCheck {
		write(t, filepath.Join(dir, path), text)
	}
	for path, list := range inLists {
		text, err := os.ReadFile(filepath.Join(dir, path))
		if err != nil {
			t.Fatal(err)
		}
		places := regexp.MustCompile(list.after).FindAllIndex(text, -1)
		if len(places) == 0 {
			t.Fatalf("%s has no place for %q", path, list.line)
		}
		end := places[len(places)-1][1]
		write(t, filepath.Join(dir, path), string(text[:end])+list.line+string(text[end:]))
	}
	run := func(name string, arguments ...string) {
		command := exec.Command(name, arguments...)
		command.Dir = dir
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", command.Args, err, out)
		}
	}
	run("make", "generate")
	run("make", "unit")
	var changed []string
	for path, sum := range sums(t, dir) {
		if before[path] != sum {
			changed = append(changed, path)
		}
	}
	slices.Sort(changed)
	if diff := cmp.Diff(slices.Sorted(slices.Values(slices.Concat(byHand, generated))), changed); diff != "" {
		t.Errorf("the files that changed (-want +got):\n%s", diff)
	}
	written, err := os.ReadFile(filepath.Join(dir, "testdata/cases/vd699-odd.txtar"))
	if err != nil || !strings.Contains(string(written), "info VD699 odd-pod") {
		t.Errorf("the case expects: %s, %v", written, err)
	}
	run("go", "build", "-o", "with-odd-pod", ".")
	file, address := oddCluster(t)
	for _, from := range [][]string{{"-f", file}, {"--server", address}} {
		command := exec.Command(filepath.Join(dir, "with-odd-pod"), append([]string{"diagnose", "--check", "VD699", "--fail-on", "info"}, from...)...)
		out, err := command.CombinedOutput()
		if command.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), "Pod default/web-0 has an odd class") {
			t.Errorf("%v: %v\n%s", command.Args, err, out)
		}
	}
}

// oddCluster is a cluster with such a pod: as a file, and as an API server that sends it in
// protobuf.
func oddCluster(t *testing.T) (file, address string) {
	t.Helper()
	c, err := testcases.Load("healthy-statefulset-rolling")
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(s.Pods, func(pod *corev1.Pod) bool { return pod.Name == "web-0" })
	if i < 0 {
		t.Fatal("the cluster has no pod web-0")
	}
	s.Pods[i].Spec.PriorityClassName = "odd"
	var text bytes.Buffer
	if err := snapshot.Write(&text, s); err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "odd.yaml")
	write(t, file, text.String())
	objects := map[string][]json.RawMessage{} // by apiVersion and kind
	for line := range strings.Lines(text.String()) {
		var of struct{ APIVersion, Kind string }
		if strings.HasPrefix(line, "{") && json.Unmarshal([]byte(line), &of) == nil {
			objects[of.APIVersion+" "+of.Kind] = append(objects[of.APIVersion+" "+of.Kind], json.RawMessage(line))
		}
	}
	lists := map[string][]byte{"/version": []byte(`{"gitVersion": "v1.36.3"}`)}
	for _, r := range snapshot.Resources() {
		prefix := "/apis/" + r.Version
		if r.Group() == "" {
			prefix = "/api/" + r.Version
		}
		text, err := json.Marshal(map[string]any{"apiVersion": r.Version, "kind": r.Object + "List",
			"metadata": map[string]string{"resourceVersion": "7"}, "items": objects[r.Version+" "+r.Object]})
		if err != nil {
			t.Fatal(err)
		}
		list, _, err := scheme.Codecs.UniversalDeserializer().Decode(text, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := scheme.Codecs.EncoderForVersion(protobuf.NewSerializer(scheme.Scheme, scheme.Scheme), r.GroupVersion()).Encode(list, &b); err != nil {
			t.Fatal(err)
		}
		lists[prefix+"/"+string(r.Kind)] = b.Bytes()
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		list, known := lists[r.URL.Path]
		if !known {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Date", s.TakenAt.UTC().Format(http.TimeFormat))
		if list[0] != '{' {
			w.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
		}
		_, _ = w.Write(list)
	}))
	t.Cleanup(server.Close)
	return file, server.URL
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// copyModule copies the files that are under version control.
func copyModule(t *testing.T, to string) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".git", "bin", "dist"}, entry.Name()):
			return filepath.SkipDir
		case entry.IsDir():
			return os.MkdirAll(filepath.Join(to, path), 0o700)
		case !entry.Type().IsRegular():
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, path), data, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// sums are the digests of all files below the directory.
func sums(t *testing.T, dir string) map[string][sha256.Size]byte {
	t.Helper()
	all := map[string][sha256.Size]byte{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		all[filepath.ToSlash(name)] = sha256.Sum256(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
