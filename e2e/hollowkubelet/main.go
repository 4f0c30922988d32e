//go:build linux

// Command hollowkubelet is the real kubelet on a machine of package kubeletoracle: its
// pod workers, status manager, volume and plugin manager, mounts, node status, lease and
// server are those of k8s.io/kubernetes. Hollow is what is below it: the containers, which
// a fake runtime behind its CRI socket has, cAdvisor and the cgroups.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"k8s.io/klog/v2"
	kubeletapp "k8s.io/kubernetes/cmd/kubelet/app"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/kubeletoracle/wire"
)

func main() {
	// it ends with its input
	if err := serve(context.Background(), json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)); !errors.Is(err, io.EOF) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve runs the kubelet until the machine hangs up: it says once that all was started.
// What it knows it tells at its own server alone.
func serve(ctx context.Context, in *json.Decoder, out *json.Encoder) error {
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	if err := flags.Parse([]string{"-v=4"}); err != nil {
		return err
	}
	var m wire.Machine
	if err := in.Decode(&m); err != nil {
		return fmt.Errorf("read what node it is of: %w", err)
	}
	if m.Hollow == nil {
		return errors.New("read what node it is of: it has no runtime")
	}
	if err := run(ctx, m); err != nil {
		return fmt.Errorf("run the kubelet of %s: %w", m.Node, err)
	}
	for {
		if err := out.Encode(wire.Answer{}); err != nil {
			return err
		}
		var r wire.Request
		if err := in.Decode(&r); err != nil {
			return err
		}
	}
}

func run(ctx context.Context, m wire.Machine) error {
	s, err := settings(m)
	if err != nil {
		return err
	}
	d, err := dependencies(ctx, m, s)
	if err != nil {
		return err
	}
	return kubeletapp.RunKubelet(ctx, s, d)
}
