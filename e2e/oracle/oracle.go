package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	goruntime "runtime"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/go-logr/logr"
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
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/volume/attachdetach"
	adcache "k8s.io/kubernetes/pkg/controller/volume/attachdetach/cache"
	"k8s.io/kubernetes/pkg/volume"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/oracle/wire"
)

// timeout is far more than one pass takes.
const timeout = time.Minute

// oracle is one run of the controller.
type oracle struct {
	request *wire.Request
	client  *fake.Clientset
	factory informers.SharedInformerFactory
	nodes   *watchedNodes
	gate    *gate
	log     *recorder
	adc     attachdetach.AttachDetachController

	mu     sync.Mutex
	events []*corev1.Event
	marked chan struct{}
}

// ask runs one pass of the real controller on the cluster.
func ask(request *wire.Request) (*wire.Answer, error) {
	o := &oracle{
		// The clientset that all releases have. The one that replaces it from 1.31 on
		// also keeps field ownership, which no pass looks at.
		request: request, client: fake.NewSimpleClientset(objects(request)...), gate: newGate(!request.Free),
		log: newRecorder(), marked: make(chan struct{}),
	}
	o.factory = informers.NewSharedInformerFactory(o.client, 0)
	o.nodes = &watchedNodes{NodeInformer: o.factory.Core().V1().Nodes()}
	o.standIn()
	current.Store(o.log)

	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logr.New(sink{func() *recorder { return o.log }, true})))
	answer, err := o.run(ctx)
	cancel()
	o.factory.Shutdown()
	return answer, errors.Join(err, ended("/controller/volume/attachdetach"))
}

func (o *oracle) run(ctx context.Context) (*wire.Answer, error) {
	if err := o.start(ctx); err != nil {
		return nil, err
	}
	if err := o.passOver(); err != nil {
		return nil, err
	}
	return o.answer(ctx)
}

func (o *oracle) passOver() error {
	select {
	case <-o.log.over:
		return nil
	case <-time.After(timeout):
		return errors.New("the pass did not end")
	}
}

// operations is the package in which each operation runs.
const operations = "/volume/util/nestedpendingoperations"

// ended waits until nothing of the package runs any more: where the controller
// logs through package functions, what is left of one would write into the next
// one's log. Upstream offers nothing to wait for.
func ended(pkg string) error {
	stacks := make([]byte, 1<<20)
	for deadline := time.Now().Add(timeout); ; time.Sleep(time.Millisecond) {
		n := goruntime.Stack(stacks, true)
		if n < len(stacks) && !bytes.Contains(stacks[:n], []byte(pkg)) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s did not end:\n%s", pkg, stacks[:n])
		}
	}
}

func objects(r *wire.Request) []runtime.Object {
	var all []runtime.Object
	for _, list := range []any{r.VolumeAttachments, r.Nodes, r.CSINodes, r.CSIDrivers, r.Volumes, r.Claims, r.Pods} {
		for v, i := reflect.ValueOf(list), 0; i < v.Len(); i++ {
			all = append(all, v.Index(i).Interface().(runtime.Object))
		}
	}
	return all
}

// start builds the controller and runs it.
func (o *oracle) start(ctx context.Context) error {
	timers := attachdetach.TimerConfig{
		ReconcilerLoopPeriod:                              time.Hour,
		ReconcilerMaxWaitForUnmountDuration:               time.Hour,
		DesiredStateOfWorldPopulatorLoopSleepPeriod:       time.Hour,
		DesiredStateOfWorldPopulatorListPodsRetryDuration: time.Hour,
	}
	if o.request.TimedOut {
		timers.ReconcilerMaxWaitForUnmountDuration = -1
	}
	// Upstream starts all informers at once. A pod that it hears of before the
	// CSIDrivers gets its volumes attached even where the driver needs no attach,
	// until the populator looks again. Nobody can predict that.
	core, storage := o.factory.Core().V1(), o.factory.Storage().V1()
	storage.CSIDrivers().Informer()
	if o.nodesFirst() {
		core.Nodes().Informer()
		core.PersistentVolumes().Informer()
		core.PersistentVolumeClaims().Informer()
		storage.CSINodes().Informer()
		storage.VolumeAttachments().Informer()
	}
	if err := o.startInformers(ctx); err != nil {
		return err
	}
	var err error
	if o.adc, err = o.newController(ctx, timers); err != nil {
		return err
	}
	o.probeFlex()
	if o.nodesFirst() {
		if err := o.nodesSeen(); err != nil {
			return err
		}
	}
	o.factory.Start(ctx.Done())
	if !o.request.Free {
		// The controller looks every 100 ms whether its caches are filled; there
		// is no need to wait for its second look.
		if err := o.startInformers(ctx); err != nil {
			return err
		}
	}
	go run(ctx, o.adc)
	return nil
}

// nodesFirst reports whether the controller hears of all nodes, and knows whatever
// else there is, before it hears of a pod and populates its worlds. Up to 1.29
// it has to: it then learns only from its node events that it cares for a node
// with nothing attached, and looks three minutes later again at the pods that it
// turned away.
func (o *oracle) nodesFirst() bool { return !o.request.Free || nodesByEvent }

func (o *oracle) startInformers(ctx context.Context) error {
	o.factory.Start(ctx.Done())
	for kind, ok := range o.factory.WaitForCacheSync(ctx.Done()) {
		if !ok {
			return fmt.Errorf("informer of %v did not sync", kind)
		}
	}
	return nil
}

// probeFlex makes the controller look for its flexvolume drivers before anything
// asks for one. Up to 1.30, whoever asks while another does the first look is told
// that there are none, and the pod's volume is dropped for three minutes.
func (o *oracle) probeFlex() {
	plugins := reflect.ValueOf(o.adc).Elem().FieldByName("volumePluginMgr")
	_, _ = (*volume.VolumePluginMgr)(unsafe.Pointer(plugins.UnsafeAddr())).FindPluginByName("")
}

// nodesSeen waits until the controller has handled the first event of each node.
func (o *oracle) nodesSeen() error {
	for deadline := time.Now().Add(timeout); int(o.nodes.added.Load()) < len(o.request.Nodes); time.Sleep(100 * time.Microsecond) {
		if time.Now().After(deadline) {
			return errors.New("the node events did not arrive")
		}
	}
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
	o.client.PrependReactor("get", "nodes", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if len(o.request.Live) == 0 {
			return false, nil, nil
		}
		name := action.(clienttesting.GetAction).GetName()
		if i := slices.IndexFunc(o.request.Live, func(n *corev1.Node) bool { return n.Name == name }); i >= 0 {
			return true, o.request.Live[i].DeepCopy(), nil
		}
		return true, nil, apierrors.NewNotFound(corev1.Resource("nodes"), name)
	})
	// VolumeAttachments are not changed: the operation ends at once, and its
	// name is known.
	refuse := func(name string) error {
		o.gate.touch(name)
		return apierrors.NewForbidden(storagev1.Resource("volumeattachments"), name, errors.New("the pass is over"))
	}
	o.client.PrependReactor("create", "volumeattachments", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, refuse(action.(clienttesting.CreateAction).GetObject().(metav1.Object).GetName())
	})
	o.client.PrependReactor("delete", "volumeattachments", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, refuse(action.(clienttesting.DeleteAction).GetName())
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

// field reads an unexported field of a controller. This one shows no more than its
// desired state of the world, and the actual one is half of what has to be compared.
func field[T any](controller any, name string) T {
	f := reflect.ValueOf(controller).Elem().FieldByName(name)
	return *(*T)(unsafe.Pointer(f.UnsafeAddr()))
}

// finish lets the operations go on to the API server, which refuses them, and
// waits until they have ended.
func (o *oracle) finish() error {
	// An attach looks for its VolumeAttachment before it creates it, and would
	// wait minutes for the one it found.
	attachments := o.factory.Storage().V1().VolumeAttachments().Informer()
	_ = attachments.GetIndexer().Replace(nil, "")
	o.gate.release()
	return ended(operations)
}
