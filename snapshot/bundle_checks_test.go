package snapshot_test

import (
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/golden"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

func TestMain(m *testing.M) { os.Exit(golden.Main(m)) }

// TestGeneratedChecksOfLayouts: the page has how many checks run on what each tool writes of one
// cluster, whose lists are those that the tool takes.
func TestGeneratedChecksOfLayouts(t *testing.T) {
	const path = "../docs/offline.md"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.Open("../testdata/bases/running.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	base, _, err := snapshot.Read("base", text, snapshot.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	all := " of " + strconv.Itoa(len(diagnose.Diagnose(base, diagnose.Options{}).Checks))
	ran := func(tree fs.FS) string {
		s, _, err := snapshot.ReadFS("dir", tree, snapshot.ReadOptions{Now: base.TakenAt})
		if err != nil {
			t.Fatal(err)
		}
		return strconv.Itoa(len(diagnose.Diagnose(s, diagnose.Options{}).Checks)) + all
	}
	rows := []string{"| checks that run on such a cluster | " + ran(withoutBeside("must-gather")) + " | " + ran(withoutBeside("support-bundle")) + " | " + ran(withoutBeside("cluster-info-dump")) + " |"}
	for _, of := range [][2]string{{"support-bundle-kit (Longhorn, Harvester)", "support-bundle-kit"}, {"sonobuoy", "sonobuoy"}, {"Velero backup", "velero"}, {"insights-operator", "insights"}} {
		rows = append(rows, "| "+of[0]+" | "+ran(snapshot.LayoutTree(t, of[1], base))+" |")
	}
	lines := strings.Split(string(page), "\n")
	for _, row := range rows {
		label := row[:strings.Index(row[1:], "|")+2]
		at := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, label) })
		if at < 0 {
			t.Fatalf("docs/offline.md has no row %s", label)
		}
		lines[at] = row + lines[at][rowEnd(row, lines[at]):]
	}
	golden.Want(t, path, []byte(strings.Join(lines, "\n")))
}

// rowEnd is where the columns of the row end in the line, which may have more.
func rowEnd(row, line string) int {
	end := 0
	for range strings.Count(row, "|") {
		end += strings.Index(line[end:], "|") + 1
	}
	return end
}

// withoutBeside is one of the miniature bundles, without the file that somebody put beside it.
func withoutBeside(name string) fs.FS {
	return besideless{os.DirFS("../testdata/snapshots/bundles/" + name)}
}

type besideless struct{ fs.FS }

func (b besideless) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(b.FS, name)
	kept := entries[:0]
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "volume-doctor.") {
			kept = append(kept, e)
		}
	}
	return kept, err
}
