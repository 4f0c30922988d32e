package conformance

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/volume/attachdetach"
	adcache "k8s.io/kubernetes/pkg/controller/volume/attachdetach/cache"

	"github.com/go-logr/logr"
)

// Mode says how the oracle's pass is run.
type Mode struct {
	// Free leaves to chance what upstream leaves to chance: node events may
	// arrive before or after the start-up population, and operations that call
	// nobody may end within the pass.
	Free bool
	// TimedOut runs the pass as if the time to wait for an unmount were over.
	TimedOut bool
}

// oneAtATime guards what the CSI plugin keeps in package variables.
var oneAtATime sync.Mutex

// timeout is far more than one pass takes.
const timeout = time.Minute

// oracle is one run of the controller.
type oracle struct {
	cluster *Cluster
	mode    Mode
	client  *fake.Clientset
	factory informers.SharedInformerFactory
	nodes   *heldNodes
	gate    *gate
	log     *recorder
	adc     attachdetach.AttachDetachController

	mu     sync.Mutex
	events []*corev1.Event
	marked chan struct{}
}

// Ask runs one pass of the real controller on the cluster.
func Ask(c *Cluster, mode Mode) (*Answer, error) {
	o := &oracle{
		cluster: c, mode: mode, client: fake.NewClientset(c.All()...), gate: newGate(!mode.Free),
		log: newRecorder(), marked: make(chan struct{}),
	}
	o.factory = informers.NewSharedInformerFactory(o.client, 0)
	o.nodes = &heldNodes{NodeInformer: o.factory.Core().V1().Nodes(), released: mode.Free}
	o.standIn()

	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logr.New(sink{o.log})))
	defer cancel()
	if err := o.start(ctx); err != nil {
		return nil, err
	}
	select {
	case <-o.log.over:
	case <-time.After(timeout):
		return nil, errors.New("the pass did not end")
	}
	return o.answer()
}

// start builds the controller and runs it.
func (o *oracle) start(ctx context.Context) error {
	timers := attachdetach.TimerConfig{
		ReconcilerLoopPeriod:                              time.Hour,
		ReconcilerMaxWaitForUnmountDuration:               time.Hour,
		DesiredStateOfWorldPopulatorLoopSleepPeriod:       time.Hour,
		DesiredStateOfWorldPopulatorListPodsRetryDuration: time.Hour,
	}
	if o.mode.TimedOut {
		timers.ReconcilerMaxWaitForUnmountDuration = -1
	}
	core, storage := o.factory.Core().V1(), o.factory.Storage().V1()
	// Upstream starts all informers at once. A pod that it hears of before the
	// CSIDrivers gets its volumes attached even where the driver needs no attach,
	// until the populator looks again. Nobody can predict that.
	storage.CSIDrivers().Informer()
	o.factory.Start(ctx.Done())
	o.factory.WaitForCacheSync(ctx.Done())
	var err error
	oneAtATime.Lock()
	o.adc, err = attachdetach.NewAttachDetachController(ctx, o.client,
		core.Pods(), o.nodes, core.PersistentVolumeClaims(), core.PersistentVolumes(),
		storage.CSINodes(), storage.CSIDrivers(), storage.VolumeAttachments(),
		o.gate.plugins(), &flexProber{gate: o.gate},
		true, time.Minute, o.cluster.DisableForceDetachOnTimeout, timers)
	oneAtATime.Unlock()
	if err != nil {
		return err
	}
	o.factory.Start(ctx.Done())
	if !o.mode.Free {
		// The controller looks every 100 ms whether its caches are filled; there
		// is no need to wait for its second look.
		for kind, ok := range o.factory.WaitForCacheSync(ctx.Done()) {
			if !ok {
				return fmt.Errorf("informer of %v did not sync", kind)
			}
		}
	}
	go o.adc.Run(ctx)
	return nil
}

// standIn makes the fake clientset behave as the comparison needs it.
func (o *oracle) standIn() {
	// The informer sees a node's new status at once, and by no other way. Upstream
	// it lags behind, and the pass computes its next patch from a stale node
	// (issue 122413).
	o.client.PrependWatchReactor("nodes", func(clienttesting.Action) (bool, watch.Interface, error) {
		return true, watch.NewFake(), nil
	})
	o.client.PrependReactor("patch", "nodes", func(action clienttesting.Action) (bool, runtime.Object, error) {
		handled, object, err := clienttesting.ObjectReaction(o.client.Tracker())(action)
		if err == nil {
			err = o.nodes.Informer().GetIndexer().Update(object)
		}
		return handled, object, err
	})
	// VolumeAttachments are not changed: the operation ends at once, and its
	// name is known.
	refuse := func(name string) (bool, runtime.Object, error) {
		o.gate.touch(name)
		return true, nil, apierrors.NewForbidden(storagev1.Resource("volumeattachments"), name, errors.New("the pass is over"))
	}
	o.client.PrependReactor("create", "volumeattachments", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return refuse(action.(clienttesting.CreateAction).GetObject().(metav1.Object).GetName())
	})
	o.client.PrependReactor("delete", "volumeattachments", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return refuse(action.(clienttesting.DeleteAction).GetName())
	})
	o.client.PrependReactor("create", "events", func(action clienttesting.Action) (bool, runtime.Object, error) {
		event := action.(clienttesting.CreateAction).GetObject().(*corev1.Event)
		o.mu.Lock()
		defer o.mu.Unlock()
		if event.Reason == marker {
			close(o.marked)
		}
		o.events = append(o.events, event)
		return true, event, nil
	})
}

// marker is the reason of the event that is sent after all others.
const marker = "PassOver"

// warnings waits until the events of the pass have arrived and returns them.
func (o *oracle) warnings() ([]*corev1.Event, error) {
	broadcaster := field[record.EventBroadcaster](o.adc, "broadcaster")
	broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "conformance"}).
		Event(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "marker", Name: "marker"}}, corev1.EventTypeNormal, marker, marker)
	select {
	case <-o.marked:
	case <-time.After(timeout):
		return nil, errors.New("the events did not arrive")
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.events, nil
}

func (o *oracle) actual() adcache.ActualStateOfWorld {
	return field[adcache.ActualStateOfWorld](o.adc, "actualStateOfWorld")
}

// field reads an unexported field of the controller. The controller shows no
// more than its desired state of the world, and the actual one is half of what
// has to be compared.
func field[T any](adc attachdetach.AttachDetachController, name string) T {
	f := reflect.ValueOf(adc).Elem().FieldByName(name)
	return *(*T)(unsafe.Pointer(f.UnsafeAddr()))
}

// settle lets the node events through, as the next update of each node would,
// and returns once they have been handled.
func (o *oracle) settle() error {
	deadline := time.Now().Add(timeout)
	for !o.nodes.synced() {
		if time.Now().After(deadline) {
			return errors.New("the node events did not arrive")
		}
		time.Sleep(time.Millisecond)
	}
	o.nodes.release()
	return nil
}

// finish lets the operations go on to the API server and returns the
// VolumeAttachment that each of them created or deleted.
func (o *oracle) finish(operations int) map[Pair]string {
	// An attach looks for its VolumeAttachment before it creates it, and would
	// wait minutes for the one it found.
	attachments := o.factory.Storage().V1().VolumeAttachments().Informer()
	_ = attachments.GetIndexer().Replace(nil, "")
	return o.gate.release(operations)
}

var _ cache.SharedIndexInformer = heldInformer{}
