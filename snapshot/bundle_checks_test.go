package snapshot_test

import (
	"io/fs"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// TestChecksOfLayouts: the page has how many checks run on what each tool writes of one
// cluster, whose lists are those that the tool takes.
func TestChecksOfLayouts(t *testing.T) {
	page, err := os.ReadFile("../docs/offline.md")
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
	for _, row := range rows {
		if !strings.Contains(string(page), "\n"+row) {
			t.Errorf("docs/offline.md lacks the row %s", row)
		}
	}
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
