package golden

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// inner is set in the process that TestWritesAllOrNothing starts.
const inner = "GOLDEN_INNER"

func TestMain(m *testing.M) { os.Exit(Main(m)) }

// TestGeneratedInner stands for two tests of a package that generates files: the first wants
// a file, the second fails where it is told to.
func TestGeneratedInner(t *testing.T) {
	dir, ok := os.LookupEnv(inner)
	if !ok {
		return // the test below starts it
	}
	t.Run("wants", func(t *testing.T) { Want(t, filepath.Join(dir, "page.md"), []byte("new\n")) })
	t.Run("fails", func(t *testing.T) {
		if os.Getenv("GOLDEN_FAILS") != "" {
			t.Error("as it is told to")
		}
	})
}

// TestWritesAllOrNothing: a file is written only with -update, and only if no test has
// failed; with a directory it is written there.
func TestWritesAllOrNothing(t *testing.T) {
	for _, tc := range []struct {
		name, flag, fails string
		passes            bool
		page, staged      string
	}{
		{"compared", "-update=false", "", false, "old\n", ""},
		{"written", "-update", "", true, "new\n", ""},
		{"a test fails", "-update", "yes", false, "old\n", ""},
		{"staged", "-update=STAGE", "", true, "old\n", "new\n"},
		{"staged, a test fails", "-update=STAGE", "yes", false, "old\n", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			module, stage := t.TempDir(), t.TempDir()
			docs := filepath.Join(module, "docs")
			if err := os.Mkdir(docs, 0o755); err != nil {
				t.Fatal(err)
			}
			for name, text := range map[string]string{filepath.Join(module, "go.mod"): "module x\n", filepath.Join(docs, "page.md"): "old\n"} {
				if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			flag := tc.flag
			if flag == "-update=STAGE" {
				flag = "-update=" + stage
			}
			run := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestGeneratedInner$", flag)
			run.Env = append(os.Environ(), inner+"="+docs, "GOLDEN_FAILS="+tc.fails)
			out, err := run.CombinedOutput()
			if (err == nil) != tc.passes {
				t.Errorf("ends with %v:\n%s", err, out)
			}
			page, err := os.ReadFile(filepath.Join(docs, "page.md"))
			if err != nil || string(page) != tc.page {
				t.Errorf("the page is %q, not %q (%v)", page, tc.page, err)
			}
			staged, err := os.ReadFile(filepath.Join(stage, "docs", "page.md"))
			if string(staged) != tc.staged || (err == nil) != (tc.staged != "") {
				t.Errorf("staged is %q, not %q (%v)", staged, tc.staged, err)
			}
		})
	}
}
