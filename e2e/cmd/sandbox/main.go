// Command sandbox starts a Kubernetes control plane on loopback with a broken
// pod in it, so that one can try volume-doctor without a cluster. It stays until
// Ctrl-C and leaves nothing behind.
//
// It needs a Go toolchain and nothing else. The first start compiles etcd,
// kube-apiserver, kube-controller-manager and csi-attacher, which takes some
// minutes; later ones take seconds.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/controlplane"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/scenario"
)

// world is a world to choose from.
type world struct {
	build func(context.Context, *controlplane.Cluster, scenario.Options) (*scenario.World, error)
	story string // what there is to see; %[1]s is the pod, %[2]s the node
}

var worlds = map[string]world{
	"healthy": {scenario.Healthy, `Pod %[1]s and its neighbour run on node %[2]s. There is nothing to find.`},
	"backoff-drop": {scenario.BackoffDrop, `Pod %[1]s waits in ContainerCreating on node %[2]s, without a single event. Its
volume is attached, but the node's status.volumesAttached does not list it.`},
	"reuse-while-detaching": {scenario.ReuseWhileDetaching, `Pod %[1]s has come back to node %[2]s while the driver fails to detach its volume:
the VolumeAttachment is being deleted, and nothing can be attached until it is gone.`},
	"busy-disk": {scenario.BusyDisk, `Pod %[1]s has moved to node %[2]s and waits there: the driver fails to detach its
volume from the node where the pod was. diagnose suspects that after a minute, and is
certain, and offers a repair, after 10.`},
	"two-nodes": {scenario.TwoNodes, `Pod %[1]s waits on node %[2]s for a ReadWriteOnce volume with which another pod runs
on another node. It may still end: diagnose names the cause after 3 minutes.`},
	"disk-lost":      {scenario.DiskLost, `Pod %[1]s waits on node %[2]s for a volume that the storage system does not have.`},
	"node-full":      {scenario.NodeFull, `Pod %[1]s waits on node %[2]s, to which the driver attaches no further volume.`},
	"plugin-missing": {scenario.PluginMissing, `Pod %[1]s waits on node %[2]s, where the driver's node plugin does not run.`},
	"taken-elsewhere": {scenario.TakenElsewhere, `Pod %[1]s waits on node %[2]s for a volume that the storage system has attached to
another machine.`},
}

func main() {
	// A pipe that ends and a terminal that closes, too, are no reason to leave anything behind.
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	defer cancel()
	names := slices.Sorted(maps.Keys(worlds))
	name := flag.String("scenario", "backoff-drop", "the world to build: "+strings.Join(names, ", "))
	port := flag.Int("port", 0, "the first of the five ports on loopback that it takes (default: free ones)")
	flag.Parse()
	chosen, known := worlds[*name]
	if !known || flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "sandbox: --scenario takes one of %s\n", strings.Join(names, ", "))
		os.Exit(2)
	}
	if err := run(ctx, chosen, *port); err != nil && ctx.Err() == nil {
		fmt.Fprintf(os.Stderr, "sandbox: %v\n", err)
		os.Exit(1)
	}
}

// run keeps a world up until ctx ends.
func run(ctx context.Context, chosen world, port int) error {
	cluster, err := controlplane.Start(ctx, controlplane.Options{Log: os.Stderr, FirstPort: port})
	if err != nil {
		return err
	}
	defer func() {
		fmt.Fprintln(os.Stderr, "stopping")
		cluster.Stop()
	}()
	w, err := chosen.build(ctx, cluster, scenario.Options{Log: os.Stderr})
	if err != nil {
		return err
	}
	defer w.Stop()
	fmt.Printf(instructions, fmt.Sprintf(chosen.story, w.Subject.Pod, w.Node), cluster.Kubeconfig, strings.Join(slices.Sorted(maps.Keys(worlds)), ", "))
	return serve(ctx, w)
}

// serve plays the admin each time somebody presses Enter, until ctx ends.
func serve(ctx context.Context, w *scenario.World) error {
	signal.Ignore(syscall.SIGTTIN) // in the background of a shell nobody presses anything, and that is no reason to stop
	pressed := make(chan struct{})
	go func() {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			pressed <- struct{}{}
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-pressed:
			if err := w.Heal(ctx); err != nil {
				return err
			}
			fmt.Println("The driver and its node plugin work from now on; it takes up to 2 minutes until the pod follows.")
		}
	}
}

const instructions = `
The sandbox is up, Kubernetes ` + controlplane.KubernetesVersion + `.

%s

In another terminal, from the root of the repository:

    export KUBECONFIG=%s
    go run . diagnose
    go run . diagnose --apply

or, once installed, kubectl volume-doctor diagnose. What is broken is named
when it is one to three minutes old: before, it could still be under way. Where the
report asks an admin to fix the driver or the storage, press Enter here: then it is
fixed. Ctrl-C here removes everything. Other worlds: make sandbox SCENARIO=NAME, where NAME is one of
%s.
`
