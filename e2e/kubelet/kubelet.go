// Package kubelet stands in for the kubelet of a node. Towards the API server
// it does what the volume manager, the status manager and the plugin manager of
// a kubelet do: it registers its node and its CSI driver, announces volumes in
// status.volumesInUse before they are attached and keeps them there until they
// are unmounted, mounts only what status.volumesAttached lists, and carries
// pods from Pending to Running and out of the API. There are no containers and
// no mounts behind it.
//
// It knows volumes of CSI claims; every other volume is ready at once, like a
// config map. It fails to mount and to unmount on demand, and reports a failed
// mount as a kubelet does; a volume that it cannot take up at all it does not report. A stand-in that is started again does not reconstruct mounts, as
// a kubelet does from its disk: it mounts what its pods need once more.
package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/record"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/csidriver"
)

const (
	// reconcilePeriod is the period of a kubelet's volume manager.
	reconcilePeriod = 100 * time.Millisecond
	// leasePeriod is how often a kubelet renews its lease.
	leasePeriod = 10 * time.Second
	// reportPeriod is how often a kubelet writes a status that is unchanged.
	reportPeriod = 5 * time.Minute
	// defaultStatusPeriod is 10 s in a kubelet; tests need not wait that long.
	defaultStatusPeriod = 200 * time.Millisecond
)

// Options describe a stand-in.
type Options struct {
	// Node is the name of the node.
	Node string
	// Driver is the CSI driver registered on the node. Empty: csidriver.Name.
	Driver string
	// Machine is the driver's name for the machine. Empty: the node's name.
	Machine string
	// Unregistered reports whether the driver's node plugin does not run on the node.
	Unregistered bool
	// Backend, if set, is where the driver looks for a volume's device: a machine to which
	// the volume is not published has none, and cannot mount it.
	Backend *csidriver.Driver
	// Unmanaged reports whether the kubelet attaches volumes itself instead of leaving that
	// to the controller (enableControllerAttachDetach: false).
	Unmanaged bool
	// NotReady is why the kubelet reports that its node is not Ready. Empty: it is.
	NotReady string
	// StatusPeriod is how often status.volumesInUse is compared with its right value, and
	// written if it differs. Zero: 200 ms.
	StatusPeriod time.Duration
	// Log receives what a kubelet would log. Nil: nothing.
	Log io.Writer
}

// Kubelet is a running or crashed stand-in. All its methods except those about faults must be
// called from one goroutine.
type Kubelet struct {
	client  kubernetes.Interface
	options Options
	faults  *faults
	worker  *worker // nil: not running
	forget  func()  // ends its watches
	cut     func()  // ends its loops; nil: they do not run
}

// Start registers the node, as a kubelet does at its start, and begins to work on its pods.
// The context bounds the start; then the stand-in runs until Stop.
func Start(ctx context.Context, client kubernetes.Interface, options Options) (*Kubelet, error) {
	if options.Driver == "" {
		options.Driver = csidriver.Name
	}
	if options.StatusPeriod == 0 {
		options.StatusPeriod = defaultStatusPeriod
	}
	if options.Log == nil {
		options.Log = io.Discard
	}
	if options.Machine == "" {
		options.Machine = options.Node
	}
	k := &Kubelet{client: client, options: options, faults: &faults{mount: map[string]MountFault{}, unmount: map[string]bool{}, unstage: map[string]bool{}}}
	return k, k.Start(ctx)
}

// Node is the name of the node.
func (k *Kubelet) Node() string { return k.options.Node }

// Start starts a stopped stand-in again, with an empty memory.
func (k *Kubelet) Start(ctx context.Context) error {
	if k.worker != nil {
		return fmt.Errorf("start kubelet of %s: it is running", k.options.Node)
	}
	if err := k.register(ctx); err != nil {
		return fmt.Errorf("start kubelet of %s: %w", k.options.Node, err)
	}
	running, cancel := context.WithCancel(context.Background())
	w := newWorker(k.client, k.options, k.faults)
	if err := w.startWatching(ctx, running); err != nil {
		cancel()
		w.sink.Shutdown()
		return fmt.Errorf("start kubelet of %s: %w", k.options.Node, err)
	}
	k.worker, k.forget = w, cancel
	k.run()
	return nil
}

// run has the worker serve its node until it is cut off.
func (k *Kubelet) run() {
	running, cancel := context.WithCancel(context.Background())
	var loops sync.WaitGroup
	loops.Go(func() { k.worker.run(running) })
	loops.Go(func() { k.renewLease(running) })
	k.cut = func() {
		cancel()
		loops.Wait()
	}
}

// CutOff does what a broken network does: the stand-in writes nothing any more, and remembers
// its mounts.
func (k *Kubelet) CutOff() {
	if k.cut != nil {
		k.cut()
		k.cut = nil
	}
}

// Reconnect ends CutOff: the stand-in reports its node immediately, and continues with its
// pods as they are now.
func (k *Kubelet) Reconnect() {
	k.worker.reportedAt = time.Time{}
	k.run()
}

// Stop ends the stand-in as a crash of the kubelet does: the node and its pods stay in the
// API as they are.
func (k *Kubelet) Stop() {
	if k.worker == nil {
		return
	}
	k.CutOff()
	k.forget()
	k.worker.shutdown()
	k.worker = nil
}

// StopHeartbeat ends the stand-in and gives the node the conditions and taints
// that the node lifecycle controller gives to one whose kubelet is silent.
func (k *Kubelet) StopHeartbeat(ctx context.Context) error {
	k.Stop()
	return k.markUnreachable(ctx)
}

// worker is one life of a stand-in, with its watches and its memory.
type worker struct {
	client  kubernetes.Interface
	options Options
	faults  *faults
	events  record.EventRecorder
	sink    record.EventBroadcaster

	factories []informers.SharedInformerFactory
	nodes     corelisters.NodeLister
	pods      corelisters.PodLister
	claims    corelisters.PersistentVolumeClaimLister
	volumes   corelisters.PersistentVolumeLister
	drivers   storagelisters.CSIDriverLister

	// desired are the volumes that each pod wants mounted: a volume enters when its claim can
	// be resolved and leaves when it is unmounted or the pod object is gone.
	desired map[types.UID]map[string]volume
	// mounted are the volumes that are mounted for each pod.
	mounted map[types.UID]map[corev1.UniqueVolumeName]bool
	// attached are the volumes that were found attached and have been wanted ever since, with
	// their names in events.
	attached map[corev1.UniqueVolumeName]string
	// reported is the volumesInUse that the API server has last accepted.
	reported map[corev1.UniqueVolumeName]bool
	// reportedAt is when that was.
	reportedAt time.Time
	// attempts are the mounts that have failed.
	attempts map[podVolume]attempt
	// problem is the last logged error, because a round of 100 ms repeats it.
	problem string
}

func newWorker(client kubernetes.Interface, options Options, faults *faults) *worker {
	sink := record.NewBroadcaster()
	sink.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	return &worker{
		client:   client,
		options:  options,
		faults:   faults,
		sink:     sink,
		events:   sink.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "kubelet", Host: options.Node}),
		attempts: map[podVolume]attempt{},
		desired:  map[types.UID]map[string]volume{},
		mounted:  map[types.UID]map[corev1.UniqueVolumeName]bool{},
		attached: map[corev1.UniqueVolumeName]string{},
		reported: map[corev1.UniqueVolumeName]bool{},
	}
}

// startWatching fills the listers; ctx bounds the wait, running the watches.
func (w *worker) startWatching(ctx, running context.Context) error {
	all := informers.NewSharedInformerFactory(w.client, 0)
	own := informers.NewSharedInformerFactoryWithOptions(w.client, 0, informers.WithTweakListOptions(selecting("metadata.name", w.options.Node)))
	bound := informers.NewSharedInformerFactoryWithOptions(w.client, 0, informers.WithTweakListOptions(selecting("spec.nodeName", w.options.Node)))
	w.factories = []informers.SharedInformerFactory{all, own, bound}

	w.nodes = own.Core().V1().Nodes().Lister()
	w.pods = bound.Core().V1().Pods().Lister()
	w.claims = all.Core().V1().PersistentVolumeClaims().Lister()
	w.volumes = all.Core().V1().PersistentVolumes().Lister()
	w.drivers = all.Storage().V1().CSIDrivers().Lister()
	for _, f := range w.factories {
		f.Start(running.Done())
	}
	for _, f := range w.factories {
		for kind, synced := range f.WaitForCacheSync(ctx.Done()) {
			if !synced {
				return fmt.Errorf("watch %v: %w", kind, context.Cause(ctx))
			}
		}
	}
	return nil
}

// shutdown waits for the watches, whose context has ended, to be over.
func (w *worker) shutdown() {
	w.sink.Shutdown()
	for _, f := range w.factories {
		f.Shutdown()
	}
}

// run handles the pods and the node in turns, each with its own period.
func (w *worker) run(ctx context.Context) {
	reconcile := time.NewTicker(reconcilePeriod)
	defer reconcile.Stop()
	status := time.NewTicker(w.options.StatusPeriod)
	defer status.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-reconcile.C:
			err = w.syncPods(ctx)
		case <-status.C:
			err = w.syncNodeStatus(ctx)
		}
		// Whatever failed is tried again in the next round.
		if err != nil && !errors.Is(err, context.Canceled) && err.Error() != w.problem {
			w.problem = err.Error()
			w.logf("%v", err)
		}
	}
}

func (w *worker) logf(format string, args ...any) {
	_, _ = fmt.Fprintf(w.options.Log, "kubelet "+w.options.Node+": "+format+"\n", args...)
}

// selecting narrows a watch to the objects with one value in one field.
func selecting(field, value string) func(*metav1.ListOptions) {
	selector := fields.OneTermEqualSelector(field, value).String()
	return func(o *metav1.ListOptions) { o.FieldSelector = selector }
}
