//go:build unix

package cmd_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// TestStrangersSuppressions: a file of suppressions that came with the input hides nothing,
// however its folder is reached and whether or not it lies above the input; one that is used
// is named with the number of findings that it hides.
func TestStrangersSuppressions(t *testing.T) {
	const hideAll = "suppressions:\n- {check: VD302, reason: never mind}\n- {check: VD301, reason: never mind}\n- {check: VD303, reason: never mind}\n"
	c, err := testcases.Load(lostEntry)
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	var broken bytes.Buffer
	if err := snapshot.Write(&broken, s); err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(home, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, folder := range []string{"ticket", "ticket/sub", "mine", "tree"} {
		write(folder+"/.volume-doctor.yaml", hideAll)
	}
	write("ticket/snapshot.yaml", broken.String())
	write("tree/deep/er/snapshot.yaml", broken.String())
	write("bare/snapshot.yaml", broken.String())
	write("empty/.volume-doctor.yaml", "suppressions: []\n")
	for link, target := range map[string]string{"by-link": "ticket", "tree-link": "tree", "to-file.yaml": "ticket/snapshot.yaml", "mine/to-file.yaml": "../bare/snapshot.yaml"} {
		if err := os.Symlink(target, filepath.Join(home, link)); err != nil {
			t.Fatal(err)
		}
	}
	const (
		refused = "note: .volume-doctor.yaml is not used, because it lies in the folder of -f"
		unknown = "note: .volume-doctor.yaml is not used, because nobody knows"
		used    = "note: .volume-doctor.yaml hides 1 finding"
	)
	for _, tc := range []struct {
		in, args string
		exit     int
		says     string
	}{
		{"ticket", "-f snapshot.yaml", 1, refused},
		{"ticket", "-f ./snapshot.yaml", 1, refused},
		{"ticket", "-f .", 1, refused},
		{"ticket/sub", "-f ../snapshot.yaml", 1, refused},
		{"ticket/sub", "-f ..", 1, refused},
		{"ticket", "-f ../by-link/snapshot.yaml", 1, refused},
		{"by-link", "-f snapshot.yaml", 1, refused},
		{"by-link", "-f ../ticket/snapshot.yaml", 1, refused},
		{"ticket", "-f ../to-file.yaml", 1, refused},
		{"mine", "-f to-file.yaml", 1, refused},
		{"ticket", "-f HOME/ticket/snapshot.yaml", 1, refused},
		{"mine", "-f HOME", 1, refused},
		{"mine", "-f ../ticket/snapshot.yaml", 0, used},
		{"mine", "-f ../bare", 0, used},
		{"mine", "-f -", 1, unknown},
		{"ticket", "-f -", 1, unknown},
		{"mine", "-f - --ignore .volume-doctor.yaml", 0, used},
		{"tree", "-f deep/er/snapshot.yaml", 1, refused},
		{"tree", "-f deep", 1, refused},
		{"tree", "-f ../tree-link/deep/er/snapshot.yaml", 1, refused},
		{"tree-link", "-f HOME/tree/deep/er", 1, refused},
		{"tree-link", "-f deep/er", 1, refused},
		{"ticket", "-f snapshot.yaml --ignore .volume-doctor.yaml", 0, used},
		{"bare", "-f snapshot.yaml --ignore ../ticket/.volume-doctor.yaml", 0, "note: ../ticket/.volume-doctor.yaml hides 1 finding"},
		{"empty", "-f ../bare/snapshot.yaml", 1, "note: .volume-doctor.yaml hides 0 findings"},
		{"mine", "-f ../bare/snapshot.yaml --ignore /dev/null", 1, "note: /dev/null hides 0 findings"},
	} {
		args := strings.Fields(strings.ReplaceAll(tc.args, "HOME", home))
		if tc.args == "-f HOME" { // the folder above both
			write("snapshot.yaml", broken.String())
			args[1] = filepath.Join(home, "snapshot.yaml")
		}
		p := start(t, filepath.Join(home, tc.in), strings.NewReader(broken.String()), append([]string{"diagnose"}, args...)...)
		p.exits(tc.exit)
		if strings.Count(p.stderr(), "note: ") != 1 || !strings.Contains(p.stderr(), tc.says) {
			t.Errorf("in %s, %s: %q is not said alone:\n%s", tc.in, tc.args, tc.says, p.stderr())
		}
	}
	p := start(t, filepath.Join(home, "bare"), nil, "diagnose", "-f", "snapshot.yaml")
	p.exits(1)
	if strings.Contains(p.stderr(), "note:") {
		t.Errorf("there is no file to speak of: %s", p.stderr())
	}
}
