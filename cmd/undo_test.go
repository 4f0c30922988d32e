package cmd

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// journalOf is the journal of one write to the server.
func journalOf(t *testing.T, server string) string {
	t.Helper()
	entry := `{"name":"kubernetes.io/csi/d^vol-1","devicePath":""}`
	line := `{"apiVersion":"volume-doctor/v1","kind":"JournalEntry","type":"intent","write":1,"time":"2026-11-20T10:00:00Z","server":"` + server + `",` +
		`"finding":{"code":"VD301","check":"inuse-not-attached","fingerprint":"f","subject":{"kind":"Pod","namespace":"default","name":"web-0"},` +
		`"volume":"kubernetes.io/csi/d^vol-1","node":"n1","persistentVolume":"pv1"},"repair":"patch-node-status",` +
		`"operation":{"verb":"patch","target":{"kind":"Node","name":"n1","uid":"u","apiVersion":"v1","resourceVersion":"5"},"subresource":"status",` +
		`"patch":[{"op":"test","path":"/metadata/uid","value":"u"},{"op":"replace","path":"/metadata/resourceVersion","value":"5"},` +
		`{"op":"test","path":"/status/volumesAttached","value":null},{"op":"add","path":"/status/volumesAttached","value":[` + entry + `]}]},` +
		`"preImage":{"status":{"volumesAttached":[]}},` +
		`"inverse":{"verb":"patch","target":{"kind":"Node","name":"n1","uid":"u","apiVersion":"v1"},"subresource":"status",` +
		`"patch":[{"op":"test","path":"/metadata/uid","value":"u"},{"op":"test","path":"/status/volumesAttached/0","value":` + entry + `},{"op":"remove","path":"/status/volumesAttached/0"}]}}`
	name := filepath.Join(t.TempDir(), "journal")
	if err := os.WriteFile(name, []byte(sealed(line)), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// sealed adds the digest to the first line of a journal, as anybody can.
func sealed(line string) string {
	return fmt.Sprintf("%s,\"digest\":\"%x\"}\n", strings.TrimSuffix(line, "}"), sha256.Sum256([]byte("\n"+line)))
}

// TestUndoAsksAndHoldsTheJournalAgainstTheCluster: nothing is written without a terminal or
// --yes, on another server, or from a journal that was changed.
func TestUndoAsksAndHoldsTheJournalAgainstTheCluster(t *testing.T) {
	writes := 0
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && !strings.Contains(r.URL.Path, "selfsubjectaccessreviews") {
			writes++
		}
		http.Error(w, "no", http.StatusInternalServerError)
	}))
	defer api.Close()
	forged := journalOf(t, api.URL)
	text, err := os.ReadFile(forged)
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(text), `,"digest"`)
	if err := os.WriteFile(forged, []byte(sealed(strings.ReplaceAll(line, `"node":"n1"`, `"node":"n2"`)+"}")), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		journal string
		args    []string
		code    int
		says    string
	}{
		"nobody to ask":     {journalOf(t, api.URL), nil, exitNoAnswer, "undo asks before it writes, and there is no terminal"},
		"another server":    {journalOf(t, "https://other"), []string{"--yes"}, exitUndone, "--server-moved"},
		"a changed journal": {forged, []string{"--yes"}, exitNoAnswer, "the journal was changed"},
		"no such mode":      {journalOf(t, api.URL), []string{"--dry-run=maybe"}, exitNoAnswer, `not "maybe"`},
		"nothing answers":   {journalOf(t, api.URL), []string{"--yes"}, exitNoAnswer, "error: "},
	} {
		t.Run(name, func(t *testing.T) {
			var errOut bytes.Buffer
			args := append([]string{"undo", test.journal, "--server", api.URL, "--kubeconfig", os.DevNull}, test.args...)
			code := Main(args, strings.NewReader("y\n"), io.Discard, &errOut)
			if code != test.code || !strings.Contains(errOut.String(), test.says) || writes != 0 {
				t.Errorf("exit code %d, %d writes\n%s", code, writes, errOut.String())
			}
		})
	}
}

// TestUndoQuestion: the question says what would be taken back, and only a plain yes counts.
func TestUndoQuestion(t *testing.T) {
	for answer, want := range map[string]bool{"y\n": true, "yes\n": true, "\n": false, "n\n": false, "": false} {
		var errOut bytes.Buffer
		u := &undoFlags{ask: applyFlags{enabled: true, dryRun: "none"}}
		streams := genericiooptions.IOStreams{In: strings.NewReader(answer), Out: io.Discard, ErrOut: &errOut}
		if got := u.confirmed(streams, 2); got != want || !strings.Contains(errOut.String(), "Take back these 2 writes now? [y/N]") {
			t.Errorf("answer %q: %t, want %t: %s", answer, got, want, errOut.String())
		}
	}
	for _, ask := range []applyFlags{{enabled: true, yes: true, dryRun: "none"}, {enabled: true, dryRun: "client"}, {enabled: true, dryRun: "server"}} {
		u := &undoFlags{ask: ask}
		if !u.confirmed(genericiooptions.IOStreams{In: strings.NewReader(""), ErrOut: io.Discard}, 1) {
			t.Errorf("%+v asks", ask)
		}
	}
}
