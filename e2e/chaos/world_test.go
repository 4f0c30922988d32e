package chaos_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/controlplane"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/csidriver"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/kubelet"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/load"
)

// worldAge is a little more than the time that the checks grant to operations in flight.
const worldAge = 65 * time.Second

// pod is the name of the pod that waits in every world.
const pod = "web-0"

// world is a namespace with a node, a pod and a broken volume of its own.
type world struct {
	story   story
	name    string // of the namespace and the node
	machine string
	volume  fixture.Volume
	madeAt  time.Time

	cluster *controlplane.Cluster
	client  kubernetes.Interface
	mounts  *mounts
	// attached are the attaches that were made without the cluster's knowledge, as if the
	// driver had been asked.
	attached []csidriver.Call

	// storage has the data of the volume. If it is nil, the kubelets have no machines.
	storage *storage

	mu      sync.Mutex // serialises races
	kubelet nodeKubelet
	// second is the kubelet of the other node, where a pod waits there.
	second nodeKubelet
	// deadline is when the last attack must have begun; zero where that does not matter.
	deadline time.Time
}

// nodeKubelet is the kubelet of a node: the stand-in, or one of a machine with data.
type nodeKubelet interface {
	Start(context.Context) error
	// Stop ends it; its mounts stay.
	Stop()
	// StopHeartbeat does the same as Stop, and marks the node as lost.
	StopHeartbeat(context.Context) error
}

// build breaks a new world without its kubelet: the test writes what the kubelet would have
// written, and the kubelet starts with the round.
func build(ctx context.Context, cluster *controlplane.Cluster, s story, name string, data *storage) (*world, error) {
	w := &world{story: s, name: name, machine: name, cluster: cluster, client: cluster.Client(), mounts: &mounts{}, storage: data}
	err := w.build(ctx)
	if err != nil {
		err = fmt.Errorf("build world %s (%s): %w", name, s, err)
	}
	return w, err
}

func (w *world) build(ctx context.Context) error {
	if err := fixture.Namespace(ctx, w.client, w.name); err != nil {
		return err
	}
	var err error
	if w.volume, err = fixture.BoundVolume(ctx, w.client, w.name, "data", corev1.ReadWriteOnce); err != nil {
		return err
	}
	if w.storage != nil {
		if err := w.storage.makeDisk(w.volume.Handle); err != nil {
			return err
		}
	}
	if further := w.story.builder(); further != nil {
		err = further(w, ctx)
		w.madeAt = time.Now()
		return err
	}
	if err := w.makeNode(ctx, w.name, w.volume.UniqueName()); err != nil {
		return err
	}
	if err := w.createPod(ctx, pod, w.volume); err != nil {
		return err
	}
	if err := fixture.AwaitFor(ctx, patience, fixture.Attached(w.client, w.name, w.volume)); err != nil {
		return err
	}
	// The VolumeAttachment must be older than the next pod, whose age counts in
	// seconds.
	time.Sleep(1100 * time.Millisecond)
	if w.story == refusedDetach {
		err = w.refuseDetach(ctx)
	} else {
		err = w.loseEntry(ctx)
	}
	if err != nil {
		return err
	}
	if err := w.createPod(ctx, pod, w.volume); err != nil {
		return err
	}
	switch w.story {
	case usedElsewhere:
		w.cluster.Driver.AttachByHand(w.volume.Handle, w.other())
		w.mounts.add(w.volume.Handle, w.other())
		err = w.makeNode(ctx, w.other(), w.volume.UniqueName())
	case otherMachine:
		err = w.changeMachine(ctx)
	}
	w.madeAt = time.Now()
	return err
}

// other is the second node of a world that has two.
func (w *world) other() string { return w.name + "-other" }

func (w *world) makeNode(ctx context.Context, name string, inUse ...corev1.UniqueVolumeName) error {
	nodes := w.client.CoreV1().Nodes()
	node, err := nodes.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name:        name,
		Labels:      map[string]string{corev1.LabelHostname: name},
		Annotations: map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
	}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	node.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now(),
	}}
	node.Status.VolumesInUse = inUse
	if _, err := nodes.UpdateStatus(ctx, node, metav1.UpdateOptions{FieldManager: "kubelet"}); err != nil {
		return err
	}
	return w.registerDriver(ctx, node, name)
}

func (w *world) registerDriver(ctx context.Context, node *corev1.Node, machine string) error {
	_, err := w.client.StorageV1().CSINodes().Create(ctx, &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: node.Name, OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}}},
		Spec:       storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: csidriver.Name, NodeID: machine}}},
	}, metav1.CreateOptions{})
	return err
}

// createPod creates a pod that a scheduler has just bound to the node.
func (w *world) createPod(ctx context.Context, name string, v fixture.Volume) error {
	return w.createPodOn(ctx, w.name, name, v)
}

func (w *world) createPodOn(ctx context.Context, node, name string, v fixture.Volume) error {
	return w.schedule(ctx, fixture.Pod(w.name, name, node, v.Claim))
}

func (w *world) schedule(ctx context.Context, pod *corev1.Pod) error {
	grace := int64(1)
	pod.Spec.TerminationGracePeriodSeconds = &grace
	pod, err := fixture.CreatePod(ctx, w.client, pod)
	if err != nil {
		return err
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
	_, err = w.client.CoreV1().Pods(w.name).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) {
		return nil // a running kubelet has written it already
	}
	return err
}

// loseEntry removes the entry while no pod is there; volumesInUse keeps the controller from
// detaching.
func (w *world) loseEntry(ctx context.Context) error {
	if err := fixture.ForceDeletePod(ctx, w.client, w.name, pod); err != nil {
		return err
	}
	return fixture.DropVolumesAttached(ctx, w.client, w.name, w.volume.UniqueName())
}

// refuseDetach removes the pod, and makes the driver keep the volume.
func (w *world) refuseDetach(ctx context.Context) error {
	w.cluster.Driver.FailUnpublish(status.Error(codes.Internal, "device is busy"), w.volume.Handle)
	if err := fixture.ForceDeletePod(ctx, w.client, w.name, pod); err != nil {
		return err
	}
	if err := w.setInUse(ctx); err != nil {
		return err
	}
	return fixture.AwaitFor(ctx, patience, w.attachment("failing to detach", func(s fixture.AttachmentState) bool {
		return s.Deleting() && s.Attachment.Status.DetachError != nil
	}))
}

func (w *world) setInUse(ctx context.Context, names ...corev1.UniqueVolumeName) error {
	return w.changeNodeStatus(ctx, func(s *corev1.NodeStatus) { s.VolumesInUse = names })
}

// changeNodeStatus writes the node's status as its kubelet does.
func (w *world) changeNodeStatus(ctx context.Context, change func(*corev1.NodeStatus)) error {
	var err error
	for range 10 { // others write it, too
		var node *corev1.Node
		if node, err = w.client.CoreV1().Nodes().Get(ctx, w.name, metav1.GetOptions{}); err != nil {
			return err
		}
		change(&node.Status)
		if _, err = w.client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{FieldManager: "kubelet"}); err == nil {
			return nil
		}
	}
	return err
}

// changeMachine gives the node another name at the driver.
func (w *world) changeMachine(ctx context.Context) error {
	w.machine = w.name + "-new"
	node, err := w.client.CoreV1().Nodes().Get(ctx, w.name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if err := w.client.StorageV1().CSINodes().Delete(ctx, w.name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	return w.registerDriver(ctx, node, w.machine)
}

func (w *world) attachment(what string, holds func(fixture.AttachmentState) bool) fixture.Condition {
	return fixture.Attachment(w.client, w.name, w.volume, what, holds)
}

// start starts the kubelet, waits until it shows the pod as waiting, and makes the world as
// old as its story requires.
func (w *world) start(ctx context.Context) error {
	if err := w.startKubelets(ctx); err != nil {
		return err
	}
	if w.story.age() == 0 {
		return nil
	}
	_, err := load.Age(ctx, w.cluster.EtcdURL(), w.story.age(), w.owns)
	return err
}

// owns reports whether the object belongs to the world.
func (w *world) owns(o load.Object) bool {
	switch o := o.(type) {
	case *storagev1.VolumeAttachment:
		return ptr.Deref(o.Spec.Source.PersistentVolumeName, "") == w.volume.PersistentVolume
	case *corev1.PersistentVolume:
		return o.Name == w.volume.PersistentVolume
	case *corev1.Node, *storagev1.CSINode:
		return o.GetName() == w.name || o.GetName() == w.other()
	default:
		return o.GetNamespace() == w.name
	}
}

func (w *world) startKubelets(ctx context.Context) error {
	if w.story.builder() != nil {
		return w.startFurther(ctx)
	}
	var err error
	if w.kubelet, err = w.startKubelet(ctx, w.name, w.machine); err != nil {
		return err
	}
	return fixture.AwaitFor(ctx, patience, fixture.All(
		fixture.PodWaiting(w.client, w.name, pod),
		w.attachment("in use", func(s fixture.AttachmentState) bool { return s.InUse }),
	))
}

func (w *world) startKubelet(ctx context.Context, node, machine string) (nodeKubelet, error) {
	if w.storage != nil {
		return w.bootMachine(ctx, node)
	}
	client, err := w.cluster.ClientFor(controlplane.UserKubelet)
	if err != nil {
		return nil, err
	}
	return kubelet.Start(ctx, client, kubelet.Options{Node: node, Machine: machine, Log: w.mounts})
}

func (w *world) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, k := range []nodeKubelet{w.kubelet, w.second} {
		switch k := k.(type) {
		case nil:
		case *machine:
			k.off()
		default:
			k.Stop()
		}
	}
	if w.story == nodeLost { // the machine is switched off, too
		w.mounts.end(w.volume.Handle, w.name)
	}
}

// powerOff switches the machine of the world's first node off.
func (w *world) powerOff() {
	w.mounts.end(w.volume.Handle, w.name)
	if m, ok := w.kubelet.(*machine); ok {
		m.off()
	}
}

// listed reports whether volumesAttached lists the volume.
func (w *world) listed(ctx context.Context) (bool, error) {
	node, err := w.client.CoreV1().Nodes().Get(ctx, w.name, metav1.GetOptions{})
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(node.Status.VolumesAttached, func(a corev1.AttachedVolume) bool { return a.Name == w.volume.UniqueName() }), nil
}

// patience is how long one of many concurrent rounds waits for a condition. The controller
// takes up a pod that it sees before its node, its claim or its volume only after three
// minutes, and an attacher that has been refused often asks again only after five.
const patience = 10 * time.Minute

// podRuns is the condition that the pod which wants the volume runs. A pod that is stuck on a
// node that is off stays there. After many refusals the controller looks only every two
// minutes whether the attacher has attached the volume: then it is enough that the volume is
// attached.
func (w *world) podRuns() fixture.Condition {
	return fixture.Condition{What: "the pod runs or is gone", Check: func(ctx context.Context) (bool, []runtime.Object, error) {
		if ok, _, err := fixture.PodGone(w.client, w.name, pod).Check(ctx); w.story == stuckPod || ok && err == nil {
			return true, nil, nil
		}
		if w.story == orphan {
			if ok, _, err := w.attachment("attached", fixture.AttachmentState.Attached).Check(ctx); ok && err == nil {
				return true, nil, nil
			}
		}
		return fixture.PodRunning(w.client, w.name, pod).Check(ctx)
	}}
}
