package parts

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/retry"
	volumeutil "k8s.io/kubernetes/pkg/volume/util"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/world/driver"
)

// A kubelet's defaults.
const (
	leaseDuration  = 40 * time.Second
	leaseRenewal   = 10 * time.Second
	statusUpdate   = 10 * time.Second // nodeStatusUpdateFrequency: what has changed is reported
	statusReport   = 5 * time.Minute  // nodeStatusReportFrequency: and what has not
	mountTimeout   = 2*time.Minute + 3*time.Second
	driverTimeout  = 2 * time.Minute
	firstBackoff   = 500 * time.Millisecond // of an operation on a volume that fails
	longestBackoff = 2*time.Minute + 2*time.Second
	kubeletLoop    = time.Second
	// stopping is how long the containers take to end.
	stopping = 2 * time.Second
)

// LeaseNamespace has the leases of the nodes.
const LeaseNamespace = "kube-node-lease"

// Kubelet is a stand-in for the kubelet of one node. It keeps to what the others see of
// one: leases, conditions, volumesInUse, the order of attach, stage, run, unstage and
// detach, the back-off of what fails, and its events. Below it there is only the driver, or, with
// a NodePlugin, upstream's volume manager.
type Kubelet struct {
	Node string
	// Plugin is set before Run.
	Plugin *NodePlugin

	client   kubernetes.Interface
	objects  *Objects
	driver   *driver.Driver
	recorder record.EventRecorder

	mu    sync.Mutex
	alive bool
	// registered reports whether the Node has what the kubelet puts on it as it starts.
	registered bool
	// volumes is the volume manager while the kubelet runs; nil without a NodePlugin.
	volumes *volumes
	// again reports whether the kubelet has started again, and off whether its machine was off.
	again, off bool
	pods       map[types.UID]*running
	devices    map[corev1.UniqueVolumeName]*device
	// keep are the pods whose containers do not end.
	keep sets.Set[string]
	// renewed, reported and updated are the times of the last heartbeat, of the last report of the
	// status, and of the last look whether it has changed. lease is the last heartbeat as it was
	// written; nil is one that has to be read.
	renewed, reported, updated time.Time
	lease                      *coordinationv1.Lease
}

// running is what the kubelet knows of a pod.
type running struct {
	seen, waits time.Time
	started     bool
	died        bool      // its containers ended with the machine, and its status does not say so yet
	stopped     time.Time // when its containers were told to end; zero before
	ended       bool      // its containers have
	published   sets.Set[corev1.UniqueVolumeName]
	// mounted reports whether the volume manager has mounted all of its volumes, and unmounted whether
	// it has unmounted them since. stopWait ends the wait that is under way.
	mounted, unmounted bool
	stopWait           context.CancelFunc
}

// device is a volume that the kubelet has to do with.
type device struct {
	handle, volume string
	// attached reports whether the node's status has listed it once.
	attached, staged bool
	users            sets.Set[types.UID]
	busy             bool // a call to the driver is under way
	failures         int
	retry            time.Time
}

// failed makes the device wait for its next try, twice as long as before.
func (d *device) failed() {
	wait := firstBackoff << min(d.failures, 16)
	d.failures++
	d.retry = time.Now().Add(min(wait, longestBackoff))
}

func (d *device) succeeded() { d.failures, d.retry = 0, time.Time{} }

// NewKubelet makes the kubelet of a node. It is alive until Stop.
func NewKubelet(node string, client kubernetes.Interface, objects *Objects, d *driver.Driver) *Kubelet {
	return &Kubelet{Node: node, client: client, objects: objects, driver: d, alive: true,
		pods: map[types.UID]*running{}, devices: map[corev1.UniqueVolumeName]*device{}, keep: sets.New[string]()}
}

// Stop stops the kubelet: from then on the node says nothing. Its containers go on.
func (k *Kubelet) Stop() { k.set(func() { k.alive = false }) }

// Start starts it again. It finds its containers and mounts as they are.
func (k *Kubelet) Start() {
	k.set(func() {
		k.alive, k.again, k.registered, k.renewed, k.reported = true, true, false, time.Time{}, time.Time{}
	})
}

// Reboot is a Start of a machine that has been off: nothing runs and nothing is mounted.
func (k *Kubelet) Reboot() {
	k.set(func() {
		k.alive, k.again, k.off, k.registered, k.renewed, k.reported = true, true, true, false, time.Time{}, time.Time{}
		k.pods, k.devices = map[types.UID]*running{}, map[corev1.UniqueVolumeName]*device{}
	})
}

// Alive reports whether the kubelet runs.
func (k *Kubelet) Alive() (alive bool) {
	k.set(func() { alive = k.alive })
	return alive
}

// KeepContainers keeps the containers of the pod, namespace/name, from ending, or no longer.
func (k *Kubelet) KeepContainers(pod string, keep bool) {
	k.set(func() {
		if k.keep.Delete(pod); keep {
			k.keep.Insert(pod)
		}
	})
}

// Mounted reports whether the kubelet has the volume on the node, or may have.
func (k *Kubelet) Mounted(volume corev1.UniqueVolumeName) (mounted bool) {
	if k.Plugin != nil {
		return k.Plugin.has(k.Node, volume)
	}
	k.set(func() {
		d := k.devices[volume]
		mounted = d != nil && (d.staged || d.busy)
	})
	return mounted
}

func (k *Kubelet) set(f func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f()
}

// Run is the kubelet's life, until the context ends.
func (k *Kubelet) Run(ctx context.Context) {
	events := record.NewBroadcaster(record.WithContext(ctx))
	events.StartRecordingToSink(&corev1client.EventSinkImpl{Interface: k.client.CoreV1().Events("")})
	k.recorder = events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "kubelet", Host: k.Node})
	defer events.Shutdown()
	for tick(ctx, kubeletLoop) {
		alive := k.Alive()
		if k.Plugin != nil {
			k.runVolumes(ctx, alive)
		}
		if alive {
			k.sync(ctx)
		}
	}
}

// sync is one pass over everything.
func (k *Kubelet) sync(ctx context.Context) {
	now := time.Now()
	if now.Sub(k.renewed) >= leaseRenewal {
		k.renewed = now
		_ = k.renew(ctx, now) // else at the next
	}
	node, err := k.objects.Nodes.Get(k.Node)
	if err != nil {
		return
	}
	if !k.registered {
		k.registered = k.register(ctx, node) == nil
	}
	pods := k.objects.podsOn(k.Node)
	wanted := sets.New[corev1.UniqueVolumeName]()
	if k.Plugin == nil {
		wanted = k.desired(pods)
	}
	for _, p := range pods {
		k.syncPod(ctx, p, node, now)
	}
	k.forget(pods)
	k.cleanUp(ctx, wanted)
	if now.Sub(k.updated) >= statusUpdate || !IsReady(node) && now.Sub(k.updated) >= time.Second {
		k.updated = now
		_ = k.report(ctx, node, wanted, now) // else at the next
	}
}

// register puts the annotation back on the Node, as a kubelet does that starts with
// enableControllerAttachDetach (reconcileCMADAnnotationWithExistingNode, pkg/kubelet/kubelet_node_status.go).
func (k *Kubelet) register(ctx context.Context, node *corev1.Node) error {
	if node.Annotations[volumeutil.ControllerManagedAttachAnnotation] == "true" {
		return nil
	}
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		n, err := k.client.CoreV1().Nodes().Get(ctx, k.Node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		metav1.SetMetaDataAnnotation(&n.ObjectMeta, volumeutil.ControllerManagedAttachAnnotation, "true")
		_, err = k.client.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{})
		return err
	})
}

// renew renews the node's lease: the one that it wrote last, unless somebody else has
// written since.
func (k *Kubelet) renew(ctx context.Context, now time.Time) (err error) {
	leases := k.client.CoordinationV1().Leases(LeaseNamespace)
	renewed, seconds := metav1.NewMicroTime(now), int32(leaseDuration/time.Second)
	if k.lease == nil {
		k.lease, err = leases.Get(ctx, k.Node, metav1.GetOptions{})
	}
	if err != nil {
		k.lease = nil
		_, err = leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: k.Node, Namespace: LeaseNamespace},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: &k.Node, LeaseDurationSeconds: &seconds, RenewTime: &renewed}}, metav1.CreateOptions{})
		return err
	}
	k.lease.Spec.RenewTime = &renewed
	if k.lease, err = leases.Update(ctx, k.lease, metav1.UpdateOptions{}); err != nil {
		k.lease = nil
	}
	return err
}

// report writes the node's status where it has changed, or has not for five minutes.
func (k *Kubelet) report(ctx context.Context, node *corev1.Node, wanted sets.Set[corev1.UniqueVolumeName], now time.Time) (err error) {
	inUse := wanted.Clone()
	if v := k.volumes; k.Plugin != nil {
		if v == nil {
			return nil
		}
		if inUse.Insert(v.GetVolumesInUse()...); !v.ReconcilerStatesHasBeenSynced() { // it does not know its mounts yet
			inUse = sets.New(node.Status.VolumesInUse...)
		}
		defer func() {
			if err == nil {
				v.MarkVolumesAsReportedInUse(sets.List(inUse))
			}
		}()
	}
	k.set(func() {
		for name, d := range k.devices {
			if d.staged || d.busy {
				inUse.Insert(name)
			}
		}
	})
	if IsReady(node) && inUse.Equal(sets.New(node.Status.VolumesInUse...)) && now.Sub(k.reported) < statusReport {
		return nil
	}
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		n, err := k.client.CoreV1().Nodes().Get(ctx, k.Node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		n.Status.VolumesInUse = sets.List(inUse)
		SetReady(n)
		_, err = k.client.CoreV1().Nodes().UpdateStatus(ctx, n, metav1.UpdateOptions{})
		return err
	})
	if err == nil {
		k.reported = now
	}
	return err
}

// SetReady sets the node's Ready condition as its kubelet does.
func SetReady(n *corev1.Node) {
	now := metav1.Now()
	ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "kubelet is posting ready status", LastHeartbeatTime: now, LastTransitionTime: now}
	i := slices.IndexFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
	if i < 0 {
		n.Status.Conditions = append(n.Status.Conditions, ready)
		return
	}
	if n.Status.Conditions[i].Status == corev1.ConditionTrue {
		ready.LastTransitionTime = n.Status.Conditions[i].LastTransitionTime
	}
	n.Status.Conditions[i] = ready
}

// desired are the volumes of the pods whose containers have not ended.
func (k *Kubelet) desired(pods []*corev1.Pod) sets.Set[corev1.UniqueVolumeName] {
	wanted := sets.New[corev1.UniqueVolumeName]()
	for _, p := range pods {
		if k.hasEnded(p) {
			continue
		}
		for _, pv := range k.volumesOf(p) {
			if pv == nil {
				continue
			}
			name := UniqueName(pv)
			wanted.Insert(name)
			k.set(func() {
				if k.devices[name] == nil {
					k.devices[name] = &device{handle: pv.Spec.CSI.VolumeHandle, volume: pv.Name, users: sets.New[types.UID]()}
				}
			})
		}
	}
	return wanted
}

func (k *Kubelet) hasEnded(p *corev1.Pod) (ended bool) {
	k.set(func() {
		r := k.pods[p.UID]
		ended = isTerminal(p) || r != nil && r.ended
	})
	return ended
}

func isTerminal(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// volumesOf are the volumes of the pod, by its own names; nil for one that the kubelet
// cannot look up.
func (k *Kubelet) volumesOf(p *corev1.Pod) map[string]*corev1.PersistentVolume {
	volumes := map[string]*corev1.PersistentVolume{}
	for _, v := range p.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			volumes[v.Name] = k.objects.volumeOf(p.Namespace, v.PersistentVolumeClaim.ClaimName)
		}
	}
	return volumes
}

// forget drops the pods that are gone: their containers are killed, and what was published
// to them is not, also where the call has ended since.
func (k *Kubelet) forget(pods []*corev1.Pod) {
	there := sets.New[types.UID]()
	for _, p := range pods {
		there.Insert(p.UID)
	}
	k.set(func() {
		maps.DeleteFunc(k.pods, func(uid types.UID, _ *running) bool { return !there.Has(uid) })
		for _, d := range k.devices {
			d.users = d.users.Intersection(there)
		}
	})
}

// cleanUp unstages what no pod needs, and forgets what is not staged.
func (k *Kubelet) cleanUp(ctx context.Context, wanted sets.Set[corev1.UniqueVolumeName]) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for name, d := range k.devices {
		if wanted.Has(name) || len(d.users) > 0 || d.busy {
			continue
		}
		if !d.staged {
			delete(k.devices, name)
			continue
		}
		k.call(ctx, d, k.asks(driver.Unstage, d), func(err error) {
			if err == nil {
				d.staged = false
			}
		})
	}
}

// asks is the call to the driver about the device.
func (k *Kubelet) asks(call driver.Call, d *device) func(context.Context) error {
	return func(ctx context.Context) error { return k.driver.Do(ctx, call, d.handle, k.Node) }
}

// call does something about the device, unless something is under way or has failed just now. then
// is called with its outcome. The lock is held, and it is while then runs.
func (k *Kubelet) call(ctx context.Context, d *device, do func(context.Context) error, then func(error)) {
	if d.busy || time.Now().Before(d.retry) {
		return
	}
	d.busy = true
	go func() {
		ctx, cancel := context.WithTimeout(ctx, driverTimeout)
		defer cancel()
		err := do(ctx)
		k.set(func() {
			d.busy = false
			if err != nil {
				d.failed()
			} else {
				d.succeeded()
			}
			then(err)
		})
	}()
}

// notAttachedError is the error of a kubelet that does not call the driver.
type notAttachedError struct{ error }

// awaitAttach fails where the VolumeAttachment does not show that the volume is attached
// (csiAttacher.WaitForAttach, pkg/volume/csi/csi_attacher.go).
func (k *Kubelet) awaitAttach(ctx context.Context, pv *corev1.PersistentVolume) error {
	handle := pv.Spec.CSI.VolumeHandle
	name := fmt.Sprintf("csi-%x", sha256.Sum256([]byte(handle+pv.Spec.CSI.Driver+k.Node)))
	va, err := k.client.StorageV1().VolumeAttachments().Get(ctx, name, metav1.GetOptions{})
	switch {
	case err != nil:
		return notAttachedError{fmt.Errorf("volume %v has GET error for volume attachment %v: %w", handle, name, err)}
	case va.DeletionTimestamp != nil:
		return notAttachedError{errors.New("volume attachment is being deleted")}
	case va.Status.Attached:
		return nil
	case va.Status.AttachError != nil:
		return notAttachedError{errors.New(va.Status.AttachError.Message)}
	default:
		return notAttachedError{fmt.Errorf("volume %v is not attached for volume attachment %v", handle, name)}
	}
}

// event is written about a pod.
func (k *Kubelet) event(p *corev1.Pod, reason, format string, args ...any) {
	k.recorder.Eventf(p, corev1.EventTypeWarning, reason, "%s", fmt.Sprintf(format, args...))
}
