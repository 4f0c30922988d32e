package cmd

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ulikunitz/xz"
)

// TestArchives: the same snapshot gives the same report, packed or not, from a file and from
// a pipe.
func TestArchives(t *testing.T) {
	text, err := os.ReadFile("../testdata/snapshots/lost-node.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var tarred, packed, zipped bytes.Buffer
	w := tar.NewWriter(&tarred)
	must(t, w.WriteHeader(&tar.Header{Name: "lost-node.yaml", Mode: 0o644, Size: int64(len(text))}))
	_, err = w.Write(text)
	must(t, err)
	must(t, w.Close())
	x, err := xz.NewWriter(&packed)
	must(t, err)
	_, err = x.Write(tarred.Bytes())
	must(t, err)
	must(t, x.Close())
	z := zip.NewWriter(&zipped)
	entry, err := z.Create("lost-node.yaml")
	must(t, err)
	_, err = entry.Write(text)
	must(t, err)
	must(t, z.Close())

	var first string
	for _, form := range []struct {
		name string
		text []byte
	}{{"yaml", text}, {"tar", tarred.Bytes()}, {"tar.xz", packed.Bytes()}, {"zip", zipped.Bytes()}} {
		file := filepath.Join(t.TempDir(), "any-name")
		must(t, os.WriteFile(file, form.text, 0o600))
		for from, stdin := range map[string]io.Reader{file: nil, "-": struct{ io.Reader }{bytes.NewReader(form.text)}} {
			var out, errOut strings.Builder
			code := Main([]string{"diagnose", "-f", from, "-o", "name"}, stdin, &out, &errOut)
			if first == "" {
				first = out.String()
			}
			if code != exitFindings || out.String() != first || out.Len() == 0 {
				t.Errorf("%s from %s: exit code %d, %q, %s", form.name, from, code, out.String(), errOut.String())
			}
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
