package trace_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/golden"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// traceFile is one file of testdata/traces: a cluster whose pod default/app is in one stage,
// and the expected trace. The file's name begins with the stage: f0 to f10 on the way up, t0 to
// t5 on the way down, in the order of the kubelet and the controller, or with "other" for what
// only looks like a wait.
type traceFile struct {
	stage string
	trace *trace.Trace
	path  string
	file  *txtar.Archive
}

func traceFiles(t *testing.T) []traceFile {
	t.Helper()
	paths, err := filepath.Glob("../../testdata/traces/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no traces: %v", err)
	}
	files := make([]traceFile, 0, len(paths))
	for _, path := range paths {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		s, warnings, err := snapshot.Read(path, bytes.NewReader(archive.Files[0].Data), snapshot.ReadOptions{})
		if err != nil || len(warnings) > 0 || len(s.Gaps) > 0 {
			t.Fatalf("%s: %v, warnings %v, gaps %v", path, err, warnings, s.Gaps)
		}
		pod := s.Pod(types.NamespacedName{Namespace: "default", Name: "app"})
		if pod == nil {
			t.Fatalf("%s has no pod default/app", path)
		}
		stage, _, _ := strings.Cut(filepath.Base(path), "-")
		files = append(files, traceFile{stage, diagnose.TracePod(s, pod, diagnose.Options{}), path, archive})
	}
	return files
}

// text is the verdict, and a line for each stage.
func (f traceFile) text() string {
	var b strings.Builder
	v := f.trace.Verdict
	fmt.Fprintf(&b, "%s %s: %s\n", v.State, v.Reason, v.Message)
	for _, volume := range f.trace.Volumes {
		fmt.Fprintf(&b, "%s\n", volume.Name)
		for _, s := range volume.Stages {
			mark := " "
			if s.Stage == volume.Broken {
				mark = ">"
			}
			fmt.Fprintf(&b, "%s %s %s", mark, s.State, s.Stage)
			if s.Overdue {
				b.WriteString(" overdue")
			}
			if s.Stage == volume.Broken {
				fmt.Fprintf(&b, " on %s: %s", s.On, s.Detail)
			}
			b.WriteByte('\n')
			for _, said := range s.Said {
				fmt.Fprintf(&b, "    %s: %s\n", said.By, said.Means)
			}
		}
	}
	return b.String()
}

func TestMain(m *testing.M) { os.Exit(golden.Main(m)) }

// TestGeneratedTraceStages compares the trace of each file with the expected one.
func TestGeneratedTraceStages(t *testing.T) {
	for _, f := range traceFiles(t) {
		t.Run(filepath.Base(f.path), func(t *testing.T) {
			got := f.text()
			if golden.Update() {
				f.file.Files = append(f.file.Files[:1], txtar.File{Name: "want-trace.txt", Data: []byte(got)})
				golden.Keep(f.path, txtar.Format(f.file))
			}
			if len(f.file.Files) != 2 {
				t.Fatal("it wants nothing: run make generate, and read what it claims")
			}
			if diff := gocmp.Diff(string(f.file.Files[1].Data), got); diff != "" {
				t.Errorf("want-trace.txt (-want +got):\n%s", diff)
			}
			wantsDown := strings.HasPrefix(f.stage, "t")
			if down := f.trace.Direction == trace.Down; down != wantsDown {
				t.Errorf("direction %s", f.trace.Direction)
			}
			if waits := f.trace.Verdict.State != finding.NoWait; f.stage == "other" && waits {
				t.Errorf("taken for a wait for a volume: %s", f.trace.Verdict.Message)
			}
		})
	}
}

// brokenIn is the expected broken stage, by the stage of the kubelet or the controller in which
// the volume is. The kubelet verifies an attachment (f5) without an event, so that no object
// distinguishes it from the mount that follows.
var brokenIn = map[string][]trace.StageName{
	"f0":  {trace.StageScheduled},
	"f1":  {trace.StageClaimBound, trace.StageInVolumesInUse},
	"f2":  {trace.StageInVolumesInUse},
	"f3":  {trace.StageAttached},
	"f4":  {trace.StageInVolumesAttached},
	"f5":  {trace.StageMounted},
	"f6":  {trace.StageStaged},
	"f7":  {trace.StageRegistered, trace.StageStaged},
	"f8":  {trace.StageMounted},
	"f9":  {trace.StageMounted},
	"f10": {""},
	"t0":  {trace.StageStopped},
	"t1":  {trace.StageUnmounted},
	"t2":  {trace.StageUnstaged},
	"t3":  {trace.StageUnstaged},
	"t4":  {trace.StageDetached},
	"t5":  {trace.StageDetached, ""},
}

// lookAlikes are the reasons of verdicts that are no wait for a volume but keep a pod from
// starting or ending, and of the waits that have a name of their own.
var lookAlikes = []string{
	"Unscheduled", "NodeNotReady", "KubeletSilent", "NetworkNotReady", "DynamicResources", "Cgroups", "Sandbox", "ImagePull", "ContainerConfig",
	"ContainerStart", "ContainerCreating", "ContainerFails", "InitContainers", "NoVolumes", "Mounted", "ContainersRunning", "Ended",
	"MultiAttach", "MissingSecret", "MissingConfigMap", "OwnershipChange",
}

// TestEveryStageHasACase: each stage of the kubelet and the controller has a file, each file is
// named by its stage, and each stage of a trace occurs.
func TestEveryStageHasACase(t *testing.T) {
	seen := map[string][]trace.StageName{}
	var reasons []string
	for _, f := range traceFiles(t) {
		reasons = append(reasons, f.trace.Verdict.Reason)
		if f.stage == "other" {
			continue
		}
		want, ok := brokenIn[f.stage]
		if !ok {
			t.Errorf("%s: no stage %q", f.path, f.stage)
		}
		broken := f.trace.Volumes[0].Broken
		if !slices.Contains(want, broken) {
			t.Errorf("%s waits in %q, want one of %q", f.path, broken, want)
		}
		seen[f.stage] = append(seen[f.stage], broken)
	}
	var all []trace.StageName
	for stage, want := range brokenIn {
		for _, name := range want {
			if !slices.Contains(seen[stage], name) {
				t.Errorf("stage %s has no case that waits in %q", stage, name)
			}
		}
		all = append(all, seen[stage]...)
	}
	for _, name := range stageNames(t) {
		if !slices.Contains(all, name) {
			t.Errorf("no case waits in %s", name)
		}
	}
	for _, reason := range lookAlikes {
		if !slices.Contains(reasons, reason) {
			t.Errorf("no case has the verdict %s", reason)
		}
	}
}

// stageNames are all constants of type StageName, from the source.
func stageNames(t *testing.T) []trace.StageName {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "trace.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var names []trace.StageName
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "StageName" {
				name, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				names = append(names, trace.StageName(name))
			}
		}
		return true
	})
	if len(names) < 12 {
		t.Fatalf("only %v were found", names)
	}
	return names
}
