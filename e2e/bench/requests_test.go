package main

import (
	"bytes"
	"context"
	"path/filepath"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/command"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/load"
)

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
	doctor := func(args ...string) int64 {
		t.Helper()
		var out bytes.Buffer
		if _, err := execute(context.WithoutCancel(t.Context()), kubeconfig, &out, append([]string{filepath.Join(dir, command.Binary)}, args...)...); err != nil {
			t.Fatal(err)
		}
		if args[0] == "diagnose" {
			if err := l.check(out.Bytes()); err != nil {
				t.Errorf("%v: %v", args, err)
			}
		}
		requests, bytes := counter.Count()
		t.Logf("%v: %d requests, %d bytes", args, requests, bytes)
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
}
