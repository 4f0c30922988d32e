// Package hollow has nodes with a real kubelet (package hollowkubelet) and real mounts.
// Their containers are a fake runtime's, which lives on when a kubelet is killed.
package hollow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"k8s.io/cri-client/pkg/fake"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/conformance"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/controlplane"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/kubeletoracle/wire"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/kubelettrace"
)

// Why says why no such node can run here; "" where one can.
func Why() string {
	if runtime.GOOS != "linux" {
		return "a kubelet with real mounts runs on Linux alone"
	}
	if os.Getuid() != 0 {
		return "mounts in a namespace of its own need root"
	}
	kmsg, err := os.Open("/dev/kmsg")
	if err != nil {
		return "a kubelet reads the kernel's log: " + err.Error()
	}
	_ = kmsg.Close()
	if _, err := outwardAddress(); err != nil {
		return err.Error()
	}
	return ""
}

// Kubelet is what the nodes run.
type Kubelet struct {
	machine kubelettrace.Kubelet
	program string
}

// Build compiles it. It must be called from inside the e2e module, as go test does.
func Build(ctx context.Context, log io.Writer) (Kubelet, error) {
	var k Kubelet
	var err error
	if k.machine, err = kubelettrace.Build(ctx, kubelettrace.Newest, log); err != nil {
		return k, err
	}
	k.program, err = conformance.BuildOwn(ctx, "hollowkubelet", "-ldflags=-X k8s.io/component-base/version.gitVersion="+kubelettrace.Newest)
	return k, err
}

// Node is a node that runs. Its machine takes the requests of package wire, and tells on
// Look of its drivers alone: for the rest the kubelet's own server is there.
type Node struct {
	*kubelettrace.Machine

	runtime *fake.RemoteRuntime
	dir     string
}

// Start starts a node whose drivers have not registered yet, and returns once its kubelet
// has started all its parts.
func Start(plane *controlplane.Cluster, k Kubelet, name string, drivers ...wire.Driver) (*Node, error) {
	n := &Node{runtime: fake.NewFakeRemoteRuntime()}
	if err := n.start(plane, k, name, drivers); err != nil {
		n.Stop()
		return nil, fmt.Errorf("start node %s: %w", name, err)
	}
	return n, nil
}

func (n *Node) start(plane *controlplane.Cluster, k Kubelet, name string, drivers []wire.Driver) error {
	var err error
	if n.dir, err = os.MkdirTemp("", "cri-"); err != nil { // short: a socket is made in it
		return err
	}
	n.runtime.ImageService.SetFakeImageSize(1) // an image without a size counts as broken
	endpoint := "unix://" + filepath.Join(n.dir, "cri.sock")
	if err := n.runtime.Start(endpoint); err != nil {
		return err
	}
	kubeconfig, err := plane.KubeconfigFor(controlplane.UserKubelet)
	if err != nil {
		return err
	}
	address, err := outwardAddress()
	if err != nil {
		return err
	}
	port, err := freePort(address)
	if err != nil {
		return err
	}
	n.Machine, err = kubelettrace.StartMachine(k.machine, wire.Machine{Node: name, Kubeconfig: kubeconfig, Drivers: drivers, Hollow: &wire.Hollow{
		Program: k.program, Runtime: endpoint, Address: address, Port: port, ClientCA: plane.ClientAuthority(),
	}})
	return err
}

// Stop switches the node off. A second call does nothing.
func (n *Node) Stop() {
	if n.Machine != nil {
		n.Machine.Stop()
	}
	n.runtime.Stop()
	_ = os.RemoveAll(n.dir) // a leftover in the temporary directory is no failure
}

// Containers are the names of those that have been made on the node and not removed, with
// the number of the attempt: one that the kubelet has left alone keeps its name.
func (n *Node) Containers(ctx context.Context) (names []string, err error) {
	list, err := n.runtime.RuntimeService.ListContainers(ctx, nil)
	for _, c := range list {
		names = append(names, c.Id+" "+c.State.String())
	}
	return names, err
}

// outwardAddress is an address of this machine that is not loopback, which the API
// server takes for no node's.
func outwardAddress() (string, error) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return "", err
	}
	for _, a := range addresses {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.IsGlobalUnicast() && ip.IP.To4() != nil {
			return ip.IP.String(), nil
		}
	}
	return "", errors.New("this machine has no address but loopback, which the API server takes for no node's")
}

// freePort finds one below those that systems take for outgoing connections, and below
// those of control planes.
func freePort(address string) (int32, error) {
	const lowest, highest, tries = 10300, 20000, 100
	for range tries {
		port := lowest + rand.Int32N(highest-lowest)
		listener, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(int(port))))
		if err == nil {
			return port, listener.Close()
		}
	}
	return 0, fmt.Errorf("no port of %s is free between %d and %d", address, lowest, highest)
}
