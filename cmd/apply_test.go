package cmd

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/repair/apply"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// TestAsking: only a plain yes counts.
func TestAsking(t *testing.T) {
	for answer, want := range map[string]bool{
		"y\n": true, "yes\n": true, " YES \n": true, "y": true,
		"\n": false, "n\n": false, "": false, "yep\n": false, "sure, y\n": false,
	} {
		var errOut bytes.Buffer
		streams := genericiooptions.IOStreams{In: strings.NewReader(answer), Out: io.Discard, ErrOut: &errOut}
		a := applyFlags{enabled: true, dryRun: "none"}
		if got := a.confirmed(streams, make([]repair.Repair, 2)); got != want {
			t.Errorf("answer %q: %t, want %t", answer, got, want)
		}
		if !strings.Contains(errOut.String(), "Make these 2 repairs now? [y/N]") {
			t.Errorf("the question is %q", errOut.String())
		}
	}
	quiet := genericiooptions.IOStreams{In: strings.NewReader(""), ErrOut: io.Discard}
	for _, a := range []applyFlags{{yes: true, dryRun: "none"}, {dryRun: "client"}, {dryRun: "server"}} {
		if !a.confirmed(quiet, make([]repair.Repair, 1)) {
			t.Errorf("%+v asks", a)
		}
	}
}

// TestFencingIsAskedByName: the user who says that a node is off must type its name, because
// a y is typed too quickly.
func TestFencingIsAskedByName(t *testing.T) {
	fenced := repair.Repair{Guards: []repair.Guard{{Name: "fenced"}}}
	fenced.Finding.Node, fenced.Finding.PersistentVolume = "n1", "pv1"
	for answers, want := range map[string]bool{"n1\ny\n": true, "y\ny\n": false, "n1\nn\n": false, "n2\ny\n": false, "\n": false} {
		var errOut bytes.Buffer
		streams := genericiooptions.IOStreams{In: strings.NewReader(answers), Out: io.Discard, ErrOut: &errOut}
		a := applyFlags{enabled: true, dryRun: "none", fenced: []string{"n1"}}
		if got := a.confirmed(streams, []repair.Repair{fenced}); got != want || !strings.Contains(errOut.String(), "two nodes write to pv1") {
			t.Errorf("answers %q: %t, want %t\n%s", answers, got, want, errOut.String())
		}
	}
	// A repair that does not rest on fencing needs only a yes.
	streams := genericiooptions.IOStreams{In: strings.NewReader("y\n"), Out: io.Discard, ErrOut: io.Discard}
	a := applyFlags{enabled: true, dryRun: "none", fenced: []string{"n1"}}
	if !a.confirmed(streams, make([]repair.Repair, 1)) {
		t.Error("the name is asked for where nothing rests on it")
	}
}

// TestNobodyToAsk: without a terminal --apply fails before it reads anything.
func TestNobodyToAsk(t *testing.T) {
	for _, tc := range []struct {
		flags applyFlags
		fails bool
	}{
		{applyFlags{enabled: true, dryRun: "none"}, true},
		{applyFlags{enabled: true, dryRun: "none", yes: true}, false},
		{applyFlags{enabled: true, dryRun: "server"}, false},
		{applyFlags{dryRun: "none"}, false},
	} {
		if err := tc.flags.mayAsk(strings.NewReader("y\n")); (err != nil) != tc.fails {
			t.Errorf("%+v: %v", tc.flags, err)
		}
	}
}

func TestApplyFlags(t *testing.T) {
	for args, want := range map[string]string{
		"--yes":                           "--yes goes with --apply",
		"--dry-run":                       "--dry-run goes with --apply",
		"--settle=1m":                     "--settle goes with --apply",
		"--journal=x":                     "--journal goes with --apply",
		"--max-repairs=2":                 "--max-repairs goes with --apply",
		"--apply --dry-run=sometimes":     "not \"sometimes\"",
		"--apply --max-repairs=0":         "at least 1",
		"--apply --settle=-1s":            "not be negative",
		"--apply --dry-run":               "",
		"--apply --dry-run=server --yes":  "",
		"--apply --settle=1s --journal=x": "",
	} {
		var a applyFlags
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		a.add(f)
		if err := f.Parse(strings.Fields(args)); err != nil {
			t.Fatal(err)
		}
		err := a.validate(f, false)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

// TestJournalFile: only the owner can read a journal, and nothing but a journal is ever
// written to.
func TestJournalFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "journal")
	f, entries, err := openJournal(t.Context(), name, os.O_CREATE)
	if err != nil || len(entries) != 0 {
		t.Fatal(entries, err)
	}
	info, err := f.Stat()
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	f.Close()

	for _, text := range []string{"precious notes\n", "one line without an end"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := openJournal(t.Context(), name, os.O_CREATE); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%q is taken for a journal: %v", text, err)
		}
		if left, err := os.ReadFile(name); err != nil || string(left) != text {
			t.Errorf("%q has become %q, %v", text, left, err)
		}
	}
	if _, _, err := openJournal(t.Context(), filepath.Join(t.TempDir(), "none"), 0); err == nil {
		t.Error("undo makes a journal")
	}
}

// TestEnding: the result of a repair is printed in the words of the report, without the name
// of a guard.
func TestEnding(t *testing.T) {
	for want, r := range map[string]apply.Result{
		"Repaired": {Outcome: apply.Repaired},
		"not done: the volume is in use there; to make it safe: wait until the kubelet has unmounted the volume": {
			Outcome: apply.Skipped, Guard: "not-in-use", Detail: "the volume is in use there", SafeOnce: "wait until the kubelet has unmounted the volume"},
		"nothing left to do: it is no longer found": {Outcome: apply.Skipped, Guard: "finding", Detail: "it is no longer found", Moot: true},
		"not done: interrupted":                     {Outcome: apply.Skipped, Detail: "interrupted"},
		"Unverified: the finding is still there":    {Outcome: apply.Unverified, Detail: "the finding is still there"},
	} {
		if got := ending(&r); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}

// TestPodsThatRanShowNothing: of the waiting pods only those that do not run yet show whether
// a repair worked.
func TestPodsThatRanShowNothing(t *testing.T) {
	pod := func(name string, phase corev1.PodPhase) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}, Status: corev1.PodStatus{Phase: phase}}
	}
	s := snapshot.New(time.Time{}, snapshot.Source{}, snapshot.Objects{Pods: []*corev1.Pod{pod("runs", corev1.PodRunning), pod("waits", corev1.PodPending)}}, nil)
	got := notRunning(s, []finding.Waiting{{Pod: "a/runs"}, {Pod: "a/waits"}, {Pod: "a/gone"}})
	if !slices.Equal(got, []string{"a/waits"}) {
		t.Errorf("%q", got)
	}
}
