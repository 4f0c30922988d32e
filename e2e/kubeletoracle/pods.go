//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	volumetypes "k8s.io/kubernetes/pkg/volume/util/types"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/kubeletoracle/containers"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/kubeletoracle/wire"
)

const (
	// syncBackOff is the pause after a sync of a pod that failed: 10 s in a kubelet.
	syncBackOff = 2 * time.Second
	// networkPause is the pause while the network is not ready
	// (backOffOnTransientErrorPeriod, pkg/kubelet/pod_workers.go).
	networkPause = time.Second
	// unmountPoll is how often a pod that ends is looked at.
	unmountPoll = 100 * time.Millisecond
)

func uniquePodName(uid types.UID) volumetypes.UniquePodName { return volumetypes.UniquePodName(uid) }

// pods are the pod manager and the pod workers of a kubelet, as far as the volume
// manager asks them.
type pods struct {
	kubelet *kubelet

	mu sync.Mutex
	// known are those that the API server has.
	known map[types.UID]*corev1.Pod
	// workers are theirs, and of those that are gone and not yet unmounted.
	workers map[types.UID]*worker
	listed  bool // the first list has been delivered
}

func newPods(k *kubelet) *pods {
	return &pods{kubelet: k, known: map[types.UID]*corev1.Pod{}, workers: map[types.UID]*worker{}}
}

// watch follows the pods of the node, and returns once it has those that are there.
func (p *pods) watch(ctx context.Context) error {
	factory := informers.NewSharedInformerFactoryWithOptions(p.kubelet.client, 0, informers.WithTweakListOptions(selecting("spec.nodeName", p.kubelet.options.Node)))
	registration, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { p.update(ctx, o.(*corev1.Pod)) },
		UpdateFunc: func(_, o any) { p.update(ctx, o.(*corev1.Pod)) },
		DeleteFunc: func(o any) {
			if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			p.remove(o.(*corev1.Pod))
		},
	})
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		return errors.New("the pods were not read")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listed = true
	return nil
}

func (p *pods) synced() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.listed
}

func (p *pods) update(ctx context.Context, pod *corev1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	object := pod.UID
	pod = staticOf(pod)
	p.known[pod.UID] = pod
	w := p.workers[pod.UID]
	if w == nil {
		w = newWorker(p, pod, object)
		p.workers[pod.UID] = w
		go w.run(ctx)
	}
	if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		w.end()
	}
}

func (p *pods) remove(pod *corev1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pod = staticOf(pod)
	delete(p.known, pod.UID)
	if w := p.workers[pod.UID]; w != nil {
		w.end()
	}
}

// staticOf is the static pod whose mirror this is, which the kubelet knows by the hash of its
// file; another pod is itself.
func staticOf(pod *corev1.Pod) *corev1.Pod {
	hash := pod.Annotations[corev1.MirrorPodAnnotationKey]
	if hash == "" {
		return pod
	}
	static := pod.DeepCopy()
	static.UID = types.UID(hash)
	return static
}

// finished forgets the worker of a pod that is gone.
func (p *pods) finished(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known[uid] == nil {
		delete(p.workers, uid)
	}
}

func (p *pods) exists(uid types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known[uid] != nil
}

func (p *pods) all() map[types.UID]*worker {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.workers)
}

// GetPodByUID and GetPods are the pod manager's.
func (p *pods) GetPodByUID(uid types.UID) (*corev1.Pod, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pod, ok := p.known[uid]
	return pod, ok
}

// GetPods are the pods that the API server has on this node.
func (p *pods) GetPods() []*corev1.Pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Values(p.known))
}

// ShouldPodContainersBeTerminating is the pod workers': so is a pod that is not known
// once all are.
func (p *pods) ShouldPodContainersBeTerminating(uid types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w := p.workers[uid]; w != nil {
		return w.ending()
	}
	return p.listed
}

// ShouldPodRuntimeBeRemoved is the pod workers', too. Here a pod has no containers
// that could outlive the wish to end them.
func (p *pods) ShouldPodRuntimeBeRemoved(uid types.UID) bool {
	return p.ShouldPodContainersBeTerminating(uid)
}

// worker carries one pod from its start to its end (SyncPod, SyncTerminatedPod).
type worker struct {
	pods *pods
	pod  *corev1.Pod // as it was first seen: what is said of volumes does not change
	// object is the UID of the pod's object, another one than the pod's where that is static.
	object types.UID
	stop   chan struct{}

	mu   sync.Mutex
	said wire.Pod
}

func newWorker(p *pods, pod *corev1.Pod, object types.UID) *worker {
	return &worker{pods: p, pod: pod, object: object, stop: make(chan struct{})}
}

func (w *worker) state() wire.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.said
}

func (w *worker) note(change func(*wire.Pod)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.said)
}

func (w *worker) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.said.Terminating {
		w.said.Terminating = true
		close(w.stop)
	}
}

func (w *worker) ending() bool { return w.state().Terminating }

func (w *worker) run(ctx context.Context) {
	starting, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-w.stop:
		case <-starting.Done():
		}
		cancel()
	}()
	for starting.Err() == nil {
		pause := w.sync(starting)
		select {
		case <-starting.Done():
		case <-time.After(pause):
		}
	}
	cancel()
	w.terminate(ctx)
}

// resync is the pause between two syncs of a pod that runs.
const resync = time.Minute

// sync is SyncPod as far as volumes are concerned, and returns the pause after it.
func (w *worker) sync(ctx context.Context) time.Duration {
	k := w.pods.kubelet
	if !w.state().Ready {
		if err := w.writeStarting(ctx); err != nil {
			klog.ErrorS(err, "Failed to write the pod's status", "pod", klog.KObj(w.pod))
			return syncBackOff
		}
	}
	if k.noNetwork.Load() {
		k.recorder.Eventf(w.pod, corev1.EventTypeWarning, "NetworkNotReady", "network is not ready: container runtime network not ready: cni plugin not initialized")
		return networkPause
	}
	k.host.secrets.RegisterPod(w.pod)
	k.host.configMaps.RegisterPod(w.pod)
	err := k.volumes.WaitForAttachAndMount(ctx, w.pod)
	if ctx.Err() != nil {
		return 0
	}
	reason, full := limitExceeded(err)
	switch {
	case full != nil:
		k.recorder.Eventf(w.pod, corev1.EventTypeWarning, reason, "%s", full.Error())
		err = w.writeRejected(ctx, reason, "Pod was rejected: "+full.Error())
		if err == nil {
			w.end()
		}
		return syncBackOff
	case err != nil:
		w.note(func(p *wire.Pod) { p.Wait = err.Error() })
		if !wait.Interrupted(err) {
			k.recorder.Eventf(w.pod, corev1.EventTypeWarning, "FailedMount", "Unable to attach or mount volumes: %v", err)
		}
		return syncBackOff
	}
	if !w.state().Ready {
		if err := k.prepareSubPaths(w.pod); err != nil {
			klog.ErrorS(err, "Failed to prepare the subPaths", "pod", klog.KObj(w.pod))
			return syncBackOff
		}
		if err := k.startContainers(w.pod.UID); err != nil {
			klog.ErrorS(err, "Failed to start the containers", "pod", klog.KObj(w.pod))
			return syncBackOff
		}
		if err := w.writeRunning(ctx); err != nil {
			klog.ErrorS(err, "Failed to write the pod's status", "pod", klog.KObj(w.pod))
			return syncBackOff
		}
		w.note(func(p *wire.Pod) { p.Ready, p.Wait = true, "" })
	}
	return resync
}

// terminate ends the pod: its containers are no more, its volumes are waited for, and
// then its object is let go.
func (w *worker) terminate(ctx context.Context) {
	k := w.pods.kubelet
	if err := containers.Stop(k.options.Root, w.pod.UID); err != nil {
		klog.ErrorS(err, "Failed to stop the containers", "pod", klog.KObj(w.pod))
	}
	k.host.secrets.UnregisterPod(w.pod)
	k.host.configMaps.UnregisterPod(w.pod)
	if w.pods.exists(w.pod.UID) {
		if err := w.writeStopped(ctx); err != nil {
			klog.ErrorS(err, "Failed to write the pod's status", "pod", klog.KObj(w.pod))
		}
	}
	for {
		if err := k.volumes.WaitForUnmount(ctx, w.pod); err == nil && !possiblyMounted(k.volumes, uniquePodName(w.pod.UID)) {
			break
		}
		time.Sleep(unmountPoll)
	}
	for w.pods.exists(w.pod.UID) {
		if pod, ok := w.pods.GetPodByUID(w.pod.UID); ok && pod.DeletionTimestamp != nil {
			if err := w.remove(ctx); err != nil {
				klog.ErrorS(err, "Failed to delete the pod", "pod", klog.KObj(w.pod))
			}
		}
		time.Sleep(unmountPoll)
	}
	w.pods.finished(w.pod.UID)
}

func (w *worker) String() string { return fmt.Sprintf("%s/%s", w.pod.Namespace, w.pod.Name) }
