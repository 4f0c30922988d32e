package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/command"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/load"
)

func TestMain(m *testing.M) {
	runner()
	os.Exit(m.Run())
}

// TestMemory: what a command took is told, and not what its caller has.
func TestMemory(t *testing.T) {
	ballast := make([]byte, 200<<20)
	for i := range ballast {
		ballast[i] = 1
	}
	var out bytes.Buffer
	used, err := execute(t.Context(), "", &out, "sh", "-c", "echo here")
	if err != nil || out.String() != "here\n" || used.wall <= 0 {
		t.Fatalf("%v %q %+v", err, out.String(), used)
	}
	if used.memory <= 0 || used.memory > int64(len(ballast))/2 {
		t.Errorf("a shell that says one word took %d bytes", used.memory)
	}
	if _, err := execute(t.Context(), "", &out, "sh", "-c", "exit 3"); err == nil {
		t.Error("a command that failed did not")
	}
}

// TestRequests: through a real API server everything that was broken is found,
// and nothing else, in as many requests as there are kinds to read; with small
// chunks, and from a snapshot, too.
func TestRequests(t *testing.T) {
	dir, err := command.Build()
	if err != nil {
		t.Fatal(err)
	}
	l, err := start(t.Context(), load.Size{Nodes: 50, Pods: 1500, Volumes: 418})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Stop)
	counter, err := load.NewCounter(l.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(counter.Close)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := counter.Kubeconfig(l.Kubeconfig, kubeconfig); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (out []byte, requests int64) {
		t.Helper()
		var stdout bytes.Buffer
		if _, err := execute(context.WithoutCancel(t.Context()), kubeconfig, &stdout, append([]string{filepath.Join(dir, command.Binary)}, args...)...); err != nil {
			t.Fatal(err)
		}
		requests, bytes := counter.Count()
		t.Logf("%v: %d requests, %d bytes", args, requests, bytes)
		return stdout.Bytes(), requests
	}
	doctor := func(args ...string) int64 {
		t.Helper()
		out, requests := run(args...)
		if args[0] == "diagnose" {
			if err := l.check(out); err != nil {
				t.Errorf("%v: %v", args, err)
			}
		}
		return requests
	}
	if n := doctor("diagnose", "-o", "json"); n > 10 {
		t.Errorf("%d requests, want at most 10", n)
	}
	if n := doctor("diagnose", "-o", "json", "--chunk-size", "500"); n < 12 {
		t.Errorf("%d requests: --chunk-size changes nothing", n)
	}
	file := filepath.Join(t.TempDir(), "snapshot.yaml.gz")
	doctor("snapshot", file)
	doctor("diagnose", "-o", "json", "-f", file)

	// The first pod has fallen out of its node's list; the second is in order.
	whole, _ := run("diagnose", "-o", "json")
	for volume, want := range map[int]int{7: 1, 8: 0} {
		pod := load.VolumePod(volume)
		near, n := run("diagnose", "-o", "json", "pod/"+pod, "-n", load.Namespace(volume))
		if n > 10 {
			t.Errorf("pod %s: %d requests, want at most 10", pod, n)
		}
		got, all := findings(t, near), findings(t, whole)
		all = slices.DeleteFunc(all, func(f finding.Finding) bool { return !slices.Contains(f.Pods, load.Namespace(volume)+"/"+pod) })
		if len(got) != want || len(all) != want || want > 0 && !reflect.DeepEqual(all, got) {
			t.Errorf("pod %s: the whole cluster has the findings %+v, and asked for alone %+v; want %d findings", pod, all, got, want)
		}
	}
}

func findings(t *testing.T, report []byte) []finding.Finding {
	t.Helper()
	var r finding.Report
	if err := json.Unmarshal(report, &r); err != nil {
		t.Fatal(err)
	}
	return r.Findings
}
