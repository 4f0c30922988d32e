//go:build !upto_v1_36

package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/volume/selinuxwarning"
	volumecache "k8s.io/kubernetes/pkg/controller/volume/selinuxwarning/cache"
	"k8s.io/kubernetes/pkg/volume"
	"k8s.io/kubernetes/pkg/volume/csi"
	"k8s.io/kubernetes/pkg/volume/fc"
	"k8s.io/kubernetes/pkg/volume/iscsi"
	"k8s.io/kubernetes/pkg/volume/nfs"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/oracle/wire"
)

// seLinux answers a request for SELinux conflicts: what the controller that warns of
// them has found once it has nothing left to do.
func seLinux(t *testing.T, request *wire.Request) (*wire.Answer, error) {
	answer := &wire.Answer{}
	// One of them holds whoever has an error back until the real clock says so.
	utilruntime.ErrorHandlers = nil
	err := inBubble(t, func() error {
		ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logr.Discard()))
		client := fake.NewSimpleClientset(objects(request)...)
		var mu sync.Mutex
		var events []*corev1.Event
		// Their names are of the clock, which stands still: kept by name, most were lost.
		client.PrependReactor("create", "events", func(action clienttesting.Action) (bool, runtime.Object, error) {
			mu.Lock()
			defer mu.Unlock()
			e := action.(clienttesting.CreateAction).GetObject().(*corev1.Event)
			events = append(events, e)
			return true, e, nil
		})
		factory := informers.NewSharedInformerFactory(client, 0)
		core := factory.Core().V1()
		plugins := slices.Concat(nfs.ProbeVolumePlugins(volume.VolumeConfig{}), fc.ProbeVolumePlugins(), iscsi.ProbeVolumePlugins(), csi.ProbeVolumePlugins())
		c, err := selinuxwarning.NewController(ctx, client, core.Pods(), core.PersistentVolumeClaims(), core.PersistentVolumes(),
			factory.Storage().V1().CSIDrivers(), plugins, nil)
		if err != nil {
			cancel()
			return err
		}
		// A pod that is looked at before its driver is looked at again only when the
		// driver changes: the drivers come first.
		go factory.Storage().V1().CSIDrivers().Informer().Run(ctx.Done())
		synctest.Wait()
		factory.Start(ctx.Done())
		synctest.Wait()
		ran := make(chan struct{})
		go func() {
			c.Run(ctx, 1)
			close(ran)
		}()
		time.Sleep(time.Second) // it looks at its caches ten times a second
		synctest.Wait()
		answer.SELinux = seLinuxConflicts(c)
		mu.Lock()
		answer.SELinuxMultiple = manyLabelled(events)
		mu.Unlock()
		cancel()
		<-ran
		factory.Shutdown()
		return nil
	})
	return answer, err
}

func seLinuxConflicts(c *selinuxwarning.Controller) []string {
	found := map[string]bool{}
	labels := field[volumecache.VolumeCache](c, "labelCache")
	for _, conflict := range labels.GetConflicts(klog.Background()) {
		found[fmt.Sprintf("%s %s=%q %s=%q", conflict.PropertyName, conflict.Pod, conflict.PropertyValue, conflict.OtherPod, conflict.OtherPropertyValue)] = true
	}
	return slices.Sorted(maps.Keys(found))
}

// manyLabelled are the pods whose volume has several labels, and the volume.
func manyLabelled(events []*corev1.Event) []string {
	found := map[string]bool{}
	for _, e := range events {
		if e.Reason == "MultipleSELinuxLabels" {
			found[e.InvolvedObject.Namespace+"/"+e.InvolvedObject.Name+": "+e.Message] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}
