//go:build unix

package cmd_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/cmd"
)

// TestServeIsOneProcess: a signal to the plug-in's process reaches the program that serves,
// and that program's exit code is the process's.
func TestServeIsOneProcess(t *testing.T) {
	_, kubeconfig := newAPI(t, "vd102-forty-pods")
	p := start(t, t.TempDir(), nil, "serve", "--kubeconfig", kubeconfig, "--leader-elect=false", "--listen", "127.0.0.1:0")
	p.says("listening on http://127.0.0.1:")
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.exits(0)
}

// TestServeForOtherStreams: a caller with streams of its own gets the program's output there,
// and its exit code.
func TestServeForOtherStreams(t *testing.T) {
	for _, test := range []struct {
		args             []string
		code             int
		stdout, complain string
	}{
		{args: []string{"serve", "--help"}, stdout: "--leader-elect"},
		{args: []string{"serve", "-f", "x"}, code: 2, complain: "error: serve follows a cluster: it does not go with -f\n"},
	} {
		var out, errOut bytes.Buffer
		if code := cmd.Main(test.args, nil, &out, &errOut); code != test.code || !strings.Contains(out.String(), test.stdout) || errOut.String() != test.complain {
			t.Errorf("%v: exit code %d\n%s%s", test.args, code, &out, &errOut)
		}
	}
}

// TestServeIsNotThere: without the program one line says which one is missing, and where it
// was looked for.
func TestServeIsNotThere(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"serve"}, {"serve", "--help"}} {
		var out, errOut bytes.Buffer
		code := cmd.Main(args, nil, &out, &errOut)
		if said := errOut.String(); code != 2 || strings.Count(said, "\n") != 1 || out.Len() > 0 ||
			!strings.HasPrefix(said, "error: serve is a program of its own, kubectl-volume_doctor-serve, and it is neither in "+filepath.Dir(self)+" nor on PATH") {
			t.Errorf("%v: exit code %d, %q", args, code, said)
		}
	}
}
