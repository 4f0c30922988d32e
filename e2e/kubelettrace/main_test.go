package kubelettrace

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/controlplane"
)

// world is what the tests of this package share; nil where they cannot run.
var world *World

func TestMain(m *testing.M) {
	if why() != "" {
		os.Exit(m.Run())
	}
	ctx := context.Background()
	binary, err := Build(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(controlplane.Main(m, controlplane.Options{}, func(c *controlplane.Cluster) {
		if world, err = NewWorld(ctx, c, binary); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}))
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
