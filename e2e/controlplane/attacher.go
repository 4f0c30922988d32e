package controlplane

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/csidriver"
)

// Attacher is a further csi-attacher with a driver of its own. Unlike the first
// one it elects a leader, so that a lease tells whether it lives.
type Attacher struct {
	// Driver is the CSI driver that it talks to.
	Driver *csidriver.Driver
	// Namespace is where its lease is.
	Namespace string
	// Holder is how its lease names it.
	Holder string

	process *process
	socket  string // its directory
}

// AddDriver starts a driver and the attacher for it, and returns when that leads.
// The namespace, where its lease is to be, must exist. Further flags of the
// attacher replace those it has by default.
func (c *Cluster) AddDriver(ctx context.Context, name, namespace string, flags ...string) (*Attacher, error) {
	return c.AddDriverAs(ctx, UserAttacher, name, namespace, flags...)
}

// AddDriverAs is AddDriver for an attacher that is another user.
func (c *Cluster) AddDriverAs(ctx context.Context, user, name, namespace string, flags ...string) (*Attacher, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	a, err := c.startDriver(user, name, namespace, flags)
	if err != nil {
		return nil, fmt.Errorf("add driver %s: %w", name, err)
	}
	lease := "external-attacher-leader-" + strings.ReplaceAll(name, ".", "-")
	err = a.process.await(ctx, func(ctx context.Context) error {
		l, err := c.client.CoordinationV1().Leases(namespace).Get(ctx, lease, metav1.GetOptions{})
		if err != nil {
			return err
		}
		a.Holder = holder(l)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("add driver %s: %w", name, err)
	}
	return a, nil
}

func (c *Cluster) startDriver(user, name, namespace string, further []string) (*Attacher, error) {
	kubeconfig, err := c.KubeconfigFor(user)
	if err != nil {
		return nil, err
	}
	// Not in the cluster's directory: a driver's name may be too long for a socket.
	dir, err := os.MkdirTemp("", "csi-")
	if err != nil {
		return nil, err
	}
	a := &Attacher{Namespace: namespace, socket: dir}
	if a.Driver, err = csidriver.StartAs(name, filepath.Join(dir, "csi.sock")); err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	flags := []string{
		"--csi-address=" + a.Driver.Socket(),
		"--kubeconfig=" + kubeconfig,
		"--leader-election", "--leader-election-namespace=" + namespace,
		"--timeout=5s", "--retry-interval-start=500ms", "--retry-interval-max=5s",
		"--v=4",
	}
	if a.process, err = c.runAs(attacher+"-"+name, attacher, append(flags, further...)); err != nil {
		a.stop()
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.attachers = append(c.attachers, a)
	return a, nil
}

// Kill kills the attacher, as a crash does. Its driver goes on listening.
func (a *Attacher) Kill() { a.process.kill() }

// Hang stops the attacher without ending it, as a process does that waits for
// ever. It cannot be woken.
func (a *Attacher) Hang() error { return a.process.suspend() }

func (a *Attacher) stop() {
	a.process.kill()
	a.Driver.Stop()
	_ = os.RemoveAll(a.socket) // a leftover in the temporary directory is no failure
}

// further are the attachers that were added.
func (c *Cluster) further() []*Attacher {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.attachers)
}

func holder(l *coordinationv1.Lease) string {
	if l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}
