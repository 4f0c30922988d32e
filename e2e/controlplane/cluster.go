// Package controlplane runs the real thing for tests and for the sandbox: etcd,
// kube-apiserver, the attach/detach controller of kube-controller-manager and
// csi-attacher, compiled from their Go modules and run as processes on
// loopback, with all their files in one directory.
//
// There is no scheduler and, unless [Options] ask for them, no volume binder, no
// node lifecycle controller, no namespace or garbage collector. Package kubelet
// stands in for kubelets, package fixture for the rest.
package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/csidriver"
)

// startTimeout bounds the start of one component. A warm start takes a few
// seconds; the rest is for machines that do something else at the same time.
const startTimeout = 2 * time.Minute

// Options say how to start a control plane. The zero value is good.
type Options struct {
	// Dir holds everything the control plane writes; it is created if needed.
	// Empty: a temporary directory that Stop removes.
	Dir string
	// FirstPort is the first of the five ports on loopback that it takes. Zero: free ones.
	FirstPort int
	// Log receives one line for each step of the start. Nil: nothing.
	Log io.Writer
	// ReconcileSyncPeriod is how often the controller compares what it believes
	// attached with the VolumeAttachments. Zero: one minute, as upstream.
	ReconcileSyncPeriod time.Duration
	// Controllers are further controllers of kube-controller-manager to run, by
	// their names. With those that protect volumes and claims their objects get
	// the finalizers for it, as they do in a cluster.
	Controllers []string
	// AuditBodies has the audit log keep what the admin writes, and what is made
	// of pods, claims and volumes, with its bodies.
	AuditBodies bool
}

// Cluster is a running control plane.
type Cluster struct {
	// Kubeconfig is the path of the kubeconfig of [UserAdmin].
	Kubeconfig string
	// AuditLog is the path of the API server's audit log; see [Cluster.Writes].
	AuditLog string
	// Driver is the CSI driver that csi-attacher talks to.
	Driver *csidriver.Driver

	options   Options
	dir       string
	ownDir    bool
	bin       string
	ports     ports
	client    kubernetes.Interface
	config    *rest.Config
	mu        sync.Mutex
	clients   *authority
	processes map[string]*process
	attachers []*Attacher
	// stopBeat ends beat; nil before it begins.
	stopBeat context.CancelFunc
}

// Start builds what is not built yet and starts a control plane. It returns
// when the API server is ready, the controller is running and the attacher is
// connected to the driver. The context bounds the start only: the control
// plane lives until Stop.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	if options.Log == nil {
		options.Log = io.Discard
	}
	if options.ReconcileSyncPeriod == 0 {
		options.ReconcileSyncPeriod = time.Minute
	}
	c := &Cluster{options: options, processes: map[string]*process{}}
	if err := c.start(ctx); err != nil {
		c.Stop()
		return nil, fmt.Errorf("start control plane: %w", err)
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context) error {
	var err error
	if c.bin, err = Build(ctx, c.options.Log); err != nil {
		return err
	}
	if err := c.makeDir(); err != nil {
		return err
	}
	c.AuditLog = filepath.Join(c.dir, "audit.log")
	if c.ports, err = choosePorts(c.options.FirstPort); err != nil {
		return err
	}
	if err := c.writeInputs(); err != nil {
		return err
	}
	socket, err := socketPath(c.dir)
	if err != nil {
		return err
	}
	if c.Driver, err = csidriver.Start(socket); err != nil {
		return err
	}

	c.logf("starting etcd and kube-apiserver on %s", c.apiURL())
	if _, err := c.run(etcd, c.etcdFlags()); err != nil {
		return err
	}
	if err := c.startAPIServer(ctx); err != nil {
		return err
	}
	beating, stop := context.WithCancel(context.WithoutCancel(ctx))
	c.stopBeat = stop
	go c.beat(beating)
	c.logf("starting the attach/detach controller and csi-attacher")
	errs := make(chan error, 2)
	go func() { errs <- c.StartController(ctx) }()
	go func() { errs <- c.StartAttacher(ctx) }()
	return errors.Join(<-errs, <-errs)
}

// makeDir creates the directory of this control plane, always as an absolute
// path: csi-attacher takes no other for its socket.
func (c *Cluster) makeDir() (err error) {
	if c.options.Dir == "" {
		c.ownDir = true
		c.dir, err = os.MkdirTemp("", "volume-doctor-")
		return err
	}
	if c.dir, err = filepath.Abs(c.options.Dir); err != nil {
		return err
	}
	return os.MkdirAll(c.dir, 0o755)
}

// Stop kills every component and removes the temporary directory. It may be
// called more than once.
func (c *Cluster) Stop() {
	if c.stopBeat != nil {
		c.stopBeat()
	}
	c.stopProcesses()
	_ = c.ports.lock.Close() // nil, or closed already, where Stop was called before
	if c.ownDir && c.dir != "" {
		_ = os.RemoveAll(c.dir) // a leftover in the temporary directory is no failure
	}
}

func (c *Cluster) stopProcesses() {
	for _, a := range c.further() {
		a.stop()
	}
	// The attacher first, as it ends when its driver does; etcd last, so that
	// nobody writes about having lost it.
	for _, name := range []string{attacher, controllerManager, apiServer, etcd} {
		c.kill(name)
	}
	if c.Driver != nil {
		c.Driver.Stop()
	}
}

// Client is a client of [UserHarness], not limited in its rate.
func (c *Cluster) Client() kubernetes.Interface { return c.client }

// RESTConfig is the configuration behind [Cluster.Client]; a copy.
func (c *Cluster) RESTConfig() *rest.Config { return rest.CopyConfig(c.config) }

// ClientFor is a client of one of the users, not limited in its rate.
func (c *Cluster) ClientFor(user string) (kubernetes.Interface, error) {
	config, err := c.configFor(user)
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

func (c *Cluster) configFor(user string) (*rest.Config, error) {
	path, err := c.KubeconfigFor(user)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	config.QPS = -1
	return config, nil
}

// run starts a component; kill ends it. Both know it by its name.
func (c *Cluster) run(name string, flags []string) (*process, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.processes[name] != nil {
		return nil, fmt.Errorf("start %s: it is running", name)
	}
	p, err := c.runAs(name, name, flags)
	if err != nil {
		return nil, err
	}
	c.processes[name] = p
	return p, nil
}

// runAs starts a component under a name of its own.
func (c *Cluster) runAs(name, binary string, flags []string) (*process, error) {
	return startProcess(name, filepath.Join(c.bin, binary), filepath.Join(c.dir, name+".log"), flags...)
}

func (c *Cluster) kill(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.processes[name].kill()
	delete(c.processes, name)
}

func (c *Cluster) logf(format string, args ...any) {
	_, _ = fmt.Fprintf(c.options.Log, format+"\n", args...)
}
