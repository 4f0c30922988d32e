// Package timing holds what package reconcile says of the time after the first
// pass against the attach/detach controller of Kubernetes itself.
//
// The controller runs on a fake clientset with its timers shortened. Each test
// asks the model what ends a decision, sees that the controller does not do
// before that what the model says follows, makes it happen, and sees that the
// controller does it then. Nothing is measured that a busy machine could spoil:
// "not before" is read off the log's own times or counted in passes, and "then"
// is waited for.
package timing

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/volume/attachdetach"
	"k8s.io/kubernetes/pkg/volume"
	"k8s.io/kubernetes/pkg/volume/csi"
	"k8s.io/kubernetes/pkg/volume/fc"
	"k8s.io/kubernetes/pkg/volume/iscsi"
)

// Settings shorten what is compiled into kube-controller-manager or is one of
// its flags.
type Settings struct {
	MaxWaitForUnmount time.Duration
	DisableForce      bool
	// VerifyEvery is the period of the verify sync, at least one second; zero
	// turns it off.
	VerifyEvery time.Duration
	Detaching   Detaching
}

// loop is the pause between two passes.
const loop = 10 * time.Millisecond

// Detaching says what becomes of a VolumeAttachment that the controller deletes.
type Detaching int

// An attacher that is well, one that refuses, and one that takes its time.
const (
	Works Detaching = iota
	Refuses
	Hangs
)

// Controller is one controller at work. The stand-in for the external-attacher
// attaches whatever is created.
type Controller struct {
	*History
	Client *fake.Clientset
}

// construction guards what the CSI plugin keeps in package variables.
var construction sync.Mutex

// Start runs a controller on the objects until ctx ends.
func Start(ctx context.Context, settings Settings, objects []runtime.Object) (*Controller, error) {
	c := &Controller{History: &History{}, Client: fake.NewClientset(objects...)}
	c.standIn(settings.Detaching)
	ctx = klog.NewContext(ctx, logr.New(sink{c.History}))
	factory := informers.NewSharedInformerFactory(c.Client, 0)
	core, storage := factory.Core().V1(), factory.Storage().V1()
	nodes := &nodeInformer{NodeInformer: core.Nodes()}
	storage.CSIDrivers().Informer() // known before the first pod is looked at
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())

	var plugins []volume.VolumePlugin
	plugins = append(plugins, csi.ProbeVolumePlugins()...)
	plugins = append(plugins, fc.ProbeVolumePlugins()...)
	plugins = append(plugins, iscsi.ProbeVolumePlugins()...)
	construction.Lock()
	c.Started = time.Now()
	adc, err := attachdetach.NewAttachDetachController(ctx, c.Client,
		core.Pods(), nodes, core.PersistentVolumeClaims(), core.PersistentVolumes(),
		storage.CSINodes(), storage.CSIDrivers(), storage.VolumeAttachments(),
		plugins, nil, settings.VerifyEvery == 0, settings.VerifyEvery, settings.DisableForce,
		attachdetach.TimerConfig{
			ReconcilerLoopPeriod:                              loop,
			ReconcilerMaxWaitForUnmountDuration:               settings.MaxWaitForUnmount,
			DesiredStateOfWorldPopulatorLoopSleepPeriod:       time.Hour,
			DesiredStateOfWorldPopulatorListPodsRetryDuration: time.Hour,
		})
	construction.Unlock()
	if err != nil {
		return nil, err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	// The first event of each node comes before the worlds are populated, as
	// where the node informer is the faster: what is assumed mounted stays so.
	if !cache.WaitForCacheSync(ctx.Done(), nodes.registration.HasSynced) {
		return nil, errors.New("the first node events did not arrive")
	}
	go adc.Run(ctx)
	return c, nil
}

// standIn makes the fake clientset do what the API server and the
// external-attacher do to VolumeAttachments.
func (c *Controller) standIn(detaching Detaching) {
	c.Client.PrependReactor("create", "volumeattachments", func(action clienttesting.Action) (bool, runtime.Object, error) {
		va := action.(clienttesting.CreateAction).GetObject().(*storagev1.VolumeAttachment)
		va.Status.Attached = true
		return false, nil, nil
	})
	c.Client.PrependReactor("delete", "volumeattachments", func(action clienttesting.Action) (bool, runtime.Object, error) {
		name := action.(clienttesting.DeleteAction).GetName()
		switch detaching {
		case Refuses:
			return true, nil, apierrors.NewForbidden(storagev1.Resource("volumeattachments"), name, errors.New("detaching fails"))
		case Hangs:
			gvr := storagev1.SchemeGroupVersion.WithResource("volumeattachments")
			object, err := c.Client.Tracker().Get(gvr, "", name)
			if err != nil {
				return true, nil, err
			}
			va := object.(*storagev1.VolumeAttachment).DeepCopy()
			now := metav1.Now()
			va.DeletionTimestamp = &now
			return true, va, c.Client.Tracker().Update(gvr, va, "")
		default:
			return false, nil, nil
		}
	})
}

// FinishDetach ends a detach that hangs.
func (c *Controller) FinishDetach(name string) error {
	if err := c.Client.Tracker().Delete(storagev1.SchemeGroupVersion.WithResource("volumeattachments"), "", name); err != nil {
		return fmt.Errorf("finish the detach of %s: %w", name, err)
	}
	return nil
}

// nodeInformer keeps the controller's registration for node events.
type nodeInformer struct {
	coreinformers.NodeInformer
	registration cache.ResourceEventHandlerRegistration
}

func (n *nodeInformer) Informer() cache.SharedIndexInformer {
	return registeringInformer{n.NodeInformer.Informer(), n}
}

type registeringInformer struct {
	cache.SharedIndexInformer
	nodes *nodeInformer
}

func (i registeringInformer) AddEventHandlerWithOptions(h cache.ResourceEventHandler, options cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	registration, err := i.SharedIndexInformer.AddEventHandlerWithOptions(h, options)
	i.nodes.registration = registration
	return registration, err
}
