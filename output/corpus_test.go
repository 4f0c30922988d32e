package output

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// drawn are the formats whose outputs are kept as golden files, by the ending
// under which a program knows them.
var drawn = map[string]string{
	"tree": "txt", "sarif": "sarif", "junit": "xml", "markdown": "md", "html": "html", "prometheus": "prom",
}

// shown are the cases whose whole outputs are kept: one for each layer, one with
// a cause and its consequences, one with gaps, and a healthy one.
var shown = []string{
	"healthy-background", "vd101-many-nodes", "vd201-two-writers", "vd301-backoff-drop", "vd301-no-events",
	"vd102-forty-pods", "vd401-storage-silent", "vd501-bound-to-another", "vd604-ten-pods",
}

type corpusCase struct {
	name   string
	report *diagnose.Report
	plan   *Plan
}

// corpus is what the cases of testdata/cases are diagnosed as, read once.
var corpus = sync.OnceValues(func() ([]corpusCase, error) {
	paths, err := filepath.Glob("../testdata/cases/*.txtar")
	if err != nil || len(paths) == 0 {
		return nil, fmt.Errorf("no cases: %w", err)
	}
	cases := make([]corpusCase, len(paths))
	errs := make([]error, len(paths))
	var wg sync.WaitGroup
	slots := make(chan struct{}, 4)
	for i, path := range paths {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			cases[i], errs[i] = readCase(path)
		})
	}
	wg.Wait()
	i := slices.IndexFunc(errs, func(err error) bool { return err != nil })
	if i >= 0 {
		return nil, fmt.Errorf("%s: %w", paths[i], errs[i])
	}
	return cases, nil
})

func readCase(path string) (corpusCase, error) {
	archive, err := txtar.ParseFile(path)
	if err != nil {
		return corpusCase{}, err
	}
	name := strings.TrimSuffix(filepath.Base(path), ".txtar")
	var settings reconcile.Options
	var s *snapshot.Snapshot
	for _, f := range archive.Files {
		switch f.Name {
		case "settings.json":
			if err := json.Unmarshal(f.Data, &settings); err != nil {
				return corpusCase{}, err
			}
		case "cluster.yaml":
			if s, _, err = snapshot.Read(name, bytes.NewReader(f.Data), snapshot.ReadOptions{}); err != nil {
				return corpusCase{}, err
			}
		}
	}
	if s == nil {
		return corpusCase{}, fmt.Errorf("no cluster.yaml")
	}
	world := reconcile.NewWorld(s, settings)
	plan := world.Reconcile()
	return corpusCase{name, diagnose.Examine(s, world, plan, nil), NewPlan(s, world, plan, nil)}, nil
}

func eachCase(t *testing.T, check func(t *testing.T, c corpusCase)) {
	t.Helper()
	cases, err := corpus()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { check(t, c) })
	}
}

func printed(t testing.TB, format string, r *diagnose.Report) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := PrintReport(&b, format, r, Options{}); err != nil {
		t.Fatalf("%s: %v", format, err)
	}
	return b.Bytes()
}

// TestGolden keeps the whole outputs of a few cases, to be read and opened, and a
// digest of every format for every case.
func TestGolden(t *testing.T) {
	cases, err := corpus()
	if err != nil {
		t.Fatal(err)
	}
	formats := append(slices.Clone(ReportFormats()), "plan tree")
	var digests strings.Builder
	fmt.Fprintf(&digests, "# case %s\n", strings.Join(formats, " "))
	missing := slices.Clone(shown)
	for _, c := range cases {
		digests.WriteString(c.name)
		for _, format := range formats {
			var text []byte
			if format == "plan tree" {
				var b bytes.Buffer
				if err := PrintPlan(&b, "tree", c.plan, Options{}); err != nil {
					t.Fatal(err)
				}
				text = b.Bytes()
			} else {
				text = printed(t, format, c.report)
				if again := printed(t, format, c.report); !bytes.Equal(text, again) {
					t.Errorf("%s: %s differs from print to print", c.name, format)
				}
			}
			sum := sha256.Sum256(text)
			fmt.Fprintf(&digests, " %x", sum[:4])
			if ending := drawn[format]; ending != "" && slices.Contains(shown, c.name) {
				golden(t, c.name+"."+ending, text)
			}
		}
		digests.WriteByte('\n')
		missing = slices.DeleteFunc(missing, func(name string) bool { return name == c.name })
	}
	if len(missing) > 0 {
		t.Errorf("no such cases: %v", missing)
	}
	golden(t, "corpus.txt", []byte(digests.String()))
	golden(t, "report.json", printed(t, "json", report()))
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
		return
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got), go test ./output -update rewrites it:\n%s", name, diff)
	}
}
