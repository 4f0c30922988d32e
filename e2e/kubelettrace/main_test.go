package kubelettrace

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/controlplane"
)

// recorder keeps the looks that were compared and right; nil where none are recorded.
var recorder *Recorder

// world is shared by the tests of this package; nil where they cannot run.
var world *World

func TestMain(m *testing.M) {
	flag.Parse()
	// recorded looks need no world
	if why() != "" || strings.HasPrefix(flag.Lookup("test.run").Value.String(), "^TestRecorded") {
		os.Exit(m.Run())
	}
	ctx := context.Background()
	var err error
	if *recordLooks {
		if recorder, err = NewRecorder(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	kubelet, err := Build(ctx, Newest, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := controlplane.Main(m, controlplane.Options{}, func(c *controlplane.Cluster) {
		if world, err = NewWorld(ctx, c, kubelet); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	})
	if *saidPath != "" && code == 0 {
		if err := writeSaid(*saidPath, saidIn); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	if err := recorder.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// why says why no kubelet can run here; "" where one can.
func why() string {
	switch {
	case runtime.GOOS != "linux":
		return "a kubelet with real mounts runs on Linux alone"
	case os.Getuid() != 0:
		return "mounts in a namespace of its own need root"
	default:
		return ""
	}
}

func needsKubelet(t *testing.T) {
	t.Helper()
	if why := why(); why != "" {
		t.Skip(why)
	}
}
