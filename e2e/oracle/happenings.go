package main

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/oracle/wire"
)

// cluster is what the controller of a life works on: an API server's stand-in,
// the kubelets, the external-attacher, and people.
type cluster struct {
	client *fake.Clientset
	life   *life
	made   int // objects so far, for their uids

	attaching, detaching wire.DriverMode
	// reports are when the kubelets next have something to say.
	reports map[string]time.Duration

	mu      sync.Mutex
	watches []*relay
	events  atomic.Int64 // of all watches
}

var (
	nodeResource       = corev1.SchemeGroupVersion.WithResource("nodes")
	podResource        = corev1.SchemeGroupVersion.WithResource("pods")
	attachmentResource = storagev1.SchemeGroupVersion.WithResource("volumeattachments")
)

func newCluster(client *fake.Clientset, l *life) *cluster {
	c := &cluster{client: client, life: l, attaching: wire.Works, detaching: wire.Works, reports: map[string]time.Duration{}}
	client.PrependWatchReactor("*", c.watch)
	client.PrependReactor("patch", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		if l.lose == 0 {
			return false, nil, nil
		}
		l.lose--
		return true, nil, errLost
	})
	client.PrependReactor("create", "volumeattachments", func(action clienttesting.Action) (bool, runtime.Object, error) {
		va := action.(clienttesting.CreateAction).GetObject().(*storagev1.VolumeAttachment)
		if c.attaching == wire.Forbids {
			return true, nil, forbidden(va.Name)
		}
		va.Finalizers = []string{"external-attacher/" + va.Spec.Attacher}
		va.CreationTimestamp, va.UID = metav1.Now(), c.uid()
		return false, nil, nil
	})
	client.PrependReactor("delete", "volumeattachments", func(action clienttesting.Action) (bool, runtime.Object, error) {
		name := action.(clienttesting.DeleteAction).GetName()
		if c.detaching == wire.Forbids {
			return true, nil, forbidden(name)
		}
		return true, nil, c.deleteAttachment(name)
	})
	client.PrependReactor("create", "events", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return true, action.(clienttesting.CreateAction).GetObject(), nil
	})
	return c
}

func forbidden(name string) error {
	return apierrors.NewForbidden(storagev1.Resource("volumeattachments"), name, errors.New("a webhook says no"))
}

func (c *cluster) uid() types.UID {
	c.made++
	return types.UID(fmt.Sprintf("made-%d", c.made))
}

// deleteAttachment does what the API server does to an object with a finalizer.
func (c *cluster) deleteAttachment(name string) error {
	va, err := get[*storagev1.VolumeAttachment](c, attachmentResource, "", name)
	if err != nil || va.DeletionTimestamp != nil {
		return err
	}
	if len(va.Finalizers) == 0 {
		return c.client.Tracker().Delete(attachmentResource, "", name)
	}
	now := metav1.Now()
	va.DeletionTimestamp = &now
	return c.client.Tracker().Update(attachmentResource, va, "")
}

// get returns a copy of an object.
func get[T runtime.Object](c *cluster, of schema.GroupVersionResource, namespace, name string) (T, error) {
	var none T
	object, err := c.client.Tracker().Get(of, namespace, name)
	if err != nil {
		return none, err
	}
	return object.DeepCopyObject().(T), nil
}

func (c *cluster) nodes() []*corev1.Node {
	return listed[corev1.Node](c, nodeResource, "Node", func(l runtime.Object) []corev1.Node { return l.(*corev1.NodeList).Items })
}

func (c *cluster) pods() []*corev1.Pod {
	return listed[corev1.Pod](c, podResource, "Pod", func(l runtime.Object) []corev1.Pod { return l.(*corev1.PodList).Items })
}

func (c *cluster) attachments() []*storagev1.VolumeAttachment {
	return listed[storagev1.VolumeAttachment](c, attachmentResource, "VolumeAttachment",
		func(l runtime.Object) []storagev1.VolumeAttachment { return l.(*storagev1.VolumeAttachmentList).Items })
}

func listed[T any](c *cluster, of schema.GroupVersionResource, kind string, items func(runtime.Object) []T) []*T {
	list, err := c.client.Tracker().List(of, of.GroupVersion().WithKind(kind), "")
	if err != nil {
		panic(err) // the tracker knows all kinds
	}
	var all []*T
	for _, item := range items(list) {
		all = append(all, &item)
	}
	return all
}

// work is what the driver and the kubelets do by themselves.
func (c *cluster) work(now time.Duration) {
	for _, va := range c.attachments() {
		was := va.DeepCopy()
		switch {
		case va.DeletionTimestamp != nil:
			if c.detached(va) {
				continue
			}
		case !va.Status.Attached:
			c.attach(va)
		}
		if !apiequal(was, va) {
			c.must(c.client.Tracker().Update(attachmentResource, va, ""))
		}
	}
	for _, node := range c.nodes() {
		due, known := c.reports[node.Name]
		if known && due > now || !ready(node) {
			continue
		}
		if known {
			node.Status.Conditions[0].LastHeartbeatTime = metav1.Now()
			c.must(c.client.Tracker().Update(nodeResource, node, ""))
		}
		c.reports[node.Name] = now + 5*time.Minute + time.Duration(c.life.random.Int64N(int64(150*time.Second)))
	}
}

// detached reports whether the VolumeAttachment is gone.
func (c *cluster) detached(va *storagev1.VolumeAttachment) bool {
	switch c.detaching {
	case wire.Works, wire.Forbids:
		c.must(c.client.Tracker().Delete(attachmentResource, "", va.Name))
		return true
	case wire.Refuses:
		if va.Status.DetachError == nil {
			va.Status.DetachError = &storagev1.VolumeError{Time: metav1.Now(), Message: "the disk is busy"}
		}
	default: // it hangs
	}
	return false
}

func (c *cluster) attach(va *storagev1.VolumeAttachment) {
	switch c.attaching {
	case wire.Works, wire.Forbids:
		va.Status = storagev1.VolumeAttachmentStatus{Attached: true}
	case wire.Refuses:
		if va.Status.AttachError == nil {
			va.Status.AttachError = &storagev1.VolumeError{Time: metav1.Now(), Message: "the machine is full"}
		}
	default: // it hangs
	}
}

func apiequal(a, b *storagev1.VolumeAttachment) bool {
	return a.Status.Attached == b.Status.Attached && (a.Status.AttachError == nil) == (b.Status.AttachError == nil) &&
		(a.Status.DetachError == nil) == (b.Status.DetachError == nil)
}

// must is for what cannot fail as long as the stand-ins are right.
func (c *cluster) must(err error) {
	if err != nil {
		panic(err)
	}
}

func ready(n *corev1.Node) bool {
	return len(n.Status.Conditions) > 0 && n.Status.Conditions[0].Status == corev1.ConditionTrue
}

func without(list []corev1.UniqueVolumeName, name corev1.UniqueVolumeName) []corev1.UniqueVolumeName {
	return slices.DeleteFunc(list, func(n corev1.UniqueVolumeName) bool { return n == name })
}
