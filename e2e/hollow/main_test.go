package hollow_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/controlplane"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/hollow"
)

var (
	plane   *controlplane.Cluster
	kubelet hollow.Kubelet
)

func TestMain(m *testing.M) {
	if hollow.Why() != "" {
		os.Exit(m.Run())
	}
	os.Exit(controlplane.Main(m, controlplane.Options{}, func(c *controlplane.Cluster) {
		plane = c
		var err error
		if kubelet, err = hollow.Build(context.Background(), os.Stderr); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}))
}
