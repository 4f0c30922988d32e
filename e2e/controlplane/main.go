package controlplane

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

// Main runs the tests of a package on one control plane, for its TestMain:
//
//	var cluster *controlplane.Cluster
//
//	func TestMain(m *testing.M) {
//		os.Exit(controlplane.Main(m, controlplane.Options{}, func(c *controlplane.Cluster) { cluster = c }))
//	}
//
// It hands the control plane to use before the first test and returns the exit
// code. On SIGINT and SIGTERM it stops the control plane and exits. If a test
// fails, the logs of the components are kept and their place is printed.
func Main(m interface{ Run() int }, options Options, use func(*Cluster)) int {
	if options.Log == nil {
		options.Log = os.Stderr
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	c, err := Start(ctx, options)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	finished := make(chan struct{})
	defer close(finished)
	go func() {
		select {
		case <-ctx.Done():
			c.Stop()
			os.Exit(1)
		case <-finished:
		}
	}()
	use(c)
	code := m.Run()
	if code != 0 {
		c.keepLogs()
	}
	c.Stop()
	return code
}

// keepLogs stops the components and leaves their logs behind.
func (c *Cluster) keepLogs() {
	c.stopProcesses()
	c.ownDir = false
	_ = os.RemoveAll(filepath.Join(c.dir, "etcd")) // by far the largest part
	fmt.Fprintf(os.Stderr, "logs of the control plane: %s\n", c.dir)
}
