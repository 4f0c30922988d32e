package kubelet

import (
	"cmp"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// firstRetry and lastRetry bound the pause between two attempts to mount a
	// volume, which doubles (pkg/util/goroutinemap/exponentialbackoff).
	firstRetry = 500 * time.Millisecond
	lastRetry  = 2*time.Minute + 2*time.Second
)

// MountFault is a mount that does not succeed.
type MountFault struct {
	// Message is the kubelet's text for each attempt, in an event of the pod. Empty: the
	// attempt neither ends nor fails.
	Message string
	// Reason is the reason of the event. Empty: FailedMount.
	Reason string
	// Takes is how long an attempt takes.
	Takes time.Duration
	// Once reports whether the kubelet writes the event only once.
	Once bool
}

// MountFailed is the fault of a step that fails for the volume, in the kubelet's words.
func MountFailed(step, volume, reason string) MountFault {
	return MountFault{Message: fmt.Sprintf("%s for volume %q : %s", step, volume, reason)}
}

// WaitFailed is the fault of a volume that the kubelet does not even try to mount. volume is
// the pod's own name of it.
func WaitFailed(volume, reason string) MountFault {
	return MountFault{Message: fmt.Sprintf("Unable to attach or mount volumes: unmounted volumes=[%s], unattached volumes=[], failed to process volumes=[]: %s", volume, reason)}
}

// faults are the faults that the stand-in must show. They outlive a restart. Volumes have the
// name that the kubelet uses in events: the PersistentVolume's, or the pod's own for one
// without.
type faults struct {
	mu      sync.Mutex
	mount   map[string]MountFault
	unmount map[string]bool
	unstage map[string]bool
}

// FailMount makes each further mount of the volume fail.
func (k *Kubelet) FailMount(volume string, fault MountFault) {
	k.faults.mu.Lock()
	defer k.faults.mu.Unlock()
	k.faults.mount[volume] = fault
}

// FailUnmount makes each further unmount of the volume from a pod fail, which a kubelet
// writes only into its log.
func (k *Kubelet) FailUnmount(volume string) {
	k.faults.mu.Lock()
	defer k.faults.mu.Unlock()
	k.faults.unmount[volume] = true
}

// FailUnstage lets the volume be unmounted from its pods, but not from the node.
func (k *Kubelet) FailUnstage(volume string) {
	k.faults.mu.Lock()
	defer k.faults.mu.Unlock()
	k.faults.unstage[volume] = true
}

func (f *faults) ofMount(volume string) (MountFault, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fault, ok := f.mount[volume]
	return fault, ok
}

func (f *faults) failsUnmount(volume string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.unmount[volume]
}

func (f *faults) failsUnstage(volume string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.unstage[volume]
}

// attempt is an attempt to mount a volume, with the pause that came before it.
type attempt struct {
	ends  time.Time
	pause time.Duration
}

// tryMount fails a mount that has a fault, and writes the event.
func (w *worker) tryMount(pod *corev1.Pod, v volume) error {
	fault, faulty := w.faults.ofMount(v.spec)
	if !faulty {
		return nil
	}
	key := podVolume{pod.UID, v.name}
	a, tried := w.attempts[key]
	now := time.Now()
	if !tried {
		a.ends = now.Add(fault.Takes)
	}
	silent := fault.Message == "" || fault.Once && a.pause > 0 // the event was written before
	if !silent && !now.Before(a.ends) {
		w.events.Event(pod, corev1.EventTypeWarning, cmp.Or(fault.Reason, "FailedMount"), fault.Message)
		a.pause = min(max(2*a.pause, firstRetry), lastRetry)
		a.ends = now.Add(a.pause + fault.Takes)
	}
	w.attempts[key] = a
	return fmt.Errorf("volume %s is not mounted: %s", v.spec, fault.Message)
}

// podVolume is a volume of one pod.
type podVolume struct {
	pod    types.UID
	volume corev1.UniqueVolumeName
}
