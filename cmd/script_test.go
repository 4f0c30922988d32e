package cmd_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/volume-doctor/kubectl-volume-doctor/cmd"
	"github.com/volume-doctor/kubectl-volume-doctor/standing"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"kubectl-volume_doctor": func() { os.Exit(cmd.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
		"told-the-time": func() {
			cmd.SleepBy(tellTime(os.Getenv(tellTimeTo)))
			os.Exit(cmd.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
		},
		"kubectl-volume_doctor-serve": func() { os.Exit(standing.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
	})
}

// TestScripts runs the command as a person or a script calls it, one behaviour in each file.
func TestScripts(t *testing.T) {
	snapshots, err := filepath.Abs("../testdata/snapshots")
	if err != nil {
		t.Fatal(err)
	}
	// A link of its own: lines that name a file shall not wrap by where the checkout is.
	link := filepath.Join(t.TempDir(), "snapshots")
	if err := os.Symlink(snapshots, link); err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "../testdata/scripts",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Setup: func(env *testscript.Env) error {
			env.Setenv("SNAPSHOTS", link)
			env.Setenv("COLUMNS", "80")
			env.Setenv("KUBECONFIG", filepath.Join(env.WorkDir, "no-kubeconfig"))
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			// exits N COMMAND ARGS... runs the command and checks its exit code.
			"exits": exits,
			// dated FILE TIME sets the time at which the file was last written.
			"dated": func(ts *testscript.TestScript, neg bool, args []string) {
				if neg || len(args) != 2 {
					ts.Fatalf("usage: dated FILE TIME")
				}
				at, err := time.Parse(time.RFC3339, args[1])
				ts.Check(err)
				ts.Check(os.Chtimes(ts.MkAbs(args[0]), at, at))
			},
		},
	})
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND [ARGS...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if err != nil {
		code, ok := err.(interface{ ExitCode() int })
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = code.ExitCode()
	}
	if got != want {
		ts.Fatalf("%s: exit code %d, want %d\nstderr:\n%s", args[1], got, want, ts.ReadFile("stderr"))
	}
}
