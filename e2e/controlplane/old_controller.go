package controlplane

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/rogpeppe/go-internal/lockedfile"
)

// OldRelease is the last release whose attach/detach controller loses the entry of a
// volume for good (kubernetes issue 72181).
const OldRelease = "v1.22.3"

// StartOldController starts the attach/detach controller of [OldRelease] in the place of
// the one that [Cluster.StopController] has ended, which also ends this one. It
// builds it if need be, and returns when it is running.
func (c *Cluster) StartOldController(ctx context.Context) error {
	binary, err := c.buildOldController(ctx) // takes minutes where nothing of it is built
	if err != nil {
		return fmt.Errorf("build the controller of %s: %w", OldRelease, err)
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	kubeconfig, err := c.KubeconfigFor(UserController)
	if err != nil {
		return err
	}
	health := address(c.ports.controllerManager)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.processes[controllerManager] != nil {
		return fmt.Errorf("start the controller of %s: another one is running", OldRelease)
	}
	p, err := c.runAs(binary, binary, []string{
		"--kubeconfig=" + kubeconfig, "--health=" + health, "--reconcile-sync-period=" + c.options.ReconcileSyncPeriod.String(), "--v=4",
	})
	if err != nil {
		return err
	}
	c.processes[controllerManager] = p
	return p.await(ctx, func(ctx context.Context) error { return get(ctx, "http://"+health+"/", "ok") })
}

// buildOldController returns the name of the binary in the folder of the others.
func (c *Cluster) buildOldController(ctx context.Context) (string, error) {
	const binary = "oldcontroller-" + OldRelease
	unlock, err := lockedfile.MutexAt(filepath.Join(c.bin, "lock")).Lock()
	if err != nil {
		return "", err
	}
	defer unlock()
	c.logf("building the controller of %s", OldRelease)
	_, err = goCommand(ctx, filepath.Dir(c.bin), "build", "-modfile=oldcontroller/"+OldRelease+".mod", "-tags=upto_v1_22",
		"-o", filepath.Join(c.bin, binary), "./oldcontroller")
	return binary, err
}
