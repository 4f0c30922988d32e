package parts

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/world/driver"
)

// syncPod is what a pod worker does.
func (k *Kubelet) syncPod(ctx context.Context, p *corev1.Pod, node *corev1.Node, now time.Time) {
	k.mu.Lock()
	r := k.pods[p.UID]
	first := r == nil
	if first {
		r = &running{seen: now, waits: now, published: sets.New[corev1.UniqueVolumeName](), started: p.Status.Phase == corev1.PodRunning}
		if r.started && len(p.Spec.Volumes) > 0 { // the machine was off: they are mounted before the containers start again
			r.started, r.died = false, true
		}
		k.pods[p.UID] = r
	}
	kept := k.keep.Has(p.Namespace + "/" + p.Name)
	k.mu.Unlock()
	switch {
	case p.DeletionTimestamp != nil || isTerminal(p):
		k.end(ctx, p, r, now, kept)
	case r.started:
	case first && p.Status.StartTime == nil:
		k.admit(ctx, p)
	case r.died:
		r.died = k.sayDied(ctx, p) != nil
	default:
		k.start(ctx, p, r, node, now)
	}
}

// admit writes the first status of a pod.
func (k *Kubelet) admit(ctx context.Context, p *corev1.Pod) {
	_ = k.writeStatus(ctx, p, func(s *corev1.PodStatus, now metav1.Time) {
		s.StartTime = &now
		setConditions(s, now, false)
		for _, c := range p.Spec.Containers {
			s.ContainerStatuses = append(s.ContainerStatuses, corev1.ContainerStatus{Name: c.Name, Image: c.Image, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}})
		}
	})
}

// sayDied writes that no container of the pod runs, since the machine was off: before its volumes
// are waited for.
func (k *Kubelet) sayDied(ctx context.Context, p *corev1.Pod) error {
	return k.writeStatus(ctx, p, func(s *corev1.PodStatus, now metav1.Time) {
		setConditions(s, now, false)
		if p.Spec.RestartPolicy == corev1.RestartPolicyNever {
			s.Phase = corev1.PodFailed
		}
		for i := range s.ContainerStatuses {
			c := &s.ContainerStatuses[i]
			c.Ready, c.State = false, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 255, Reason: "Unknown", FinishedAt: now}}
		}
	})
}

// setConditions sets the conditions of a pod. Those that stay as they are keep their times:
// that at which the pod was scheduled is the scheduler's.
func setConditions(s *corev1.PodStatus, now metav1.Time, ready bool) {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	all := []corev1.PodCondition{{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}, {Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}
	for _, t := range []corev1.PodConditionType{corev1.PodReadyToStartContainers, corev1.PodReady, corev1.ContainersReady} {
		all = append(all, corev1.PodCondition{Type: t, Status: status})
	}
	for i := range all {
		all[i].LastTransitionTime = now
		for _, before := range s.Conditions {
			if before.Type == all[i].Type && before.Status == all[i].Status {
				all[i].LastTransitionTime = before.LastTransitionTime
			}
		}
	}
	s.Conditions = all
}

// writeStatus changes the status of the pod, if it is still the same one.
func (k *Kubelet) writeStatus(ctx context.Context, p *corev1.Pod, change func(*corev1.PodStatus, metav1.Time)) error {
	now, err := k.client.CoreV1().Pods(p.Namespace).Get(ctx, p.Name, metav1.GetOptions{})
	if err != nil || now.UID != p.UID {
		return err
	}
	change(&now.Status, metav1.Now())
	_, err = k.client.CoreV1().Pods(p.Namespace).UpdateStatus(ctx, now, metav1.UpdateOptions{})
	return err
}

// start mounts the volumes of a pod, and starts its containers when all are mounted.
func (k *Kubelet) start(ctx context.Context, p *corev1.Pod, r *running, node *corev1.Node, now time.Time) {
	if k.Plugin != nil {
		k.startMounted(ctx, p, r)
		return
	}
	volumes := k.volumesOf(p)
	var unmounted, unattached, unknown []string
	for _, name := range slices.Sorted(maps.Keys(volumes)) {
		pv := volumes[name]
		if pv == nil {
			unmounted, unknown = append(unmounted, name), append(unknown, name)
			continue
		}
		attached, published := k.mount(ctx, p, r, pv, node)
		if !published {
			unmounted = append(unmounted, name)
		}
		if !attached {
			unattached = append(unattached, name)
		}
	}
	if len(unmounted) == 0 {
		k.runContainers(ctx, p, r)
		return
	}
	if now.Sub(r.waits) >= mountTimeout {
		r.waits = now
		k.event(p, "FailedMount", "Unable to attach or mount volumes: unmounted volumes=%v, unattached volumes=%v, failed to process volumes=%v: context deadline exceeded", unmounted, unattached, unknown)
	}
}

// runContainers starts the containers of the pod.
func (k *Kubelet) runContainers(ctx context.Context, p *corev1.Pod, r *running) {
	r.started = nil == k.writeStatus(ctx, p, func(s *corev1.PodStatus, now metav1.Time) { // else at the next pass
		s.Phase = corev1.PodRunning
		setConditions(s, now, true)
		s.ContainerStatuses = nil
		for _, c := range p.Spec.Containers {
			s.ContainerStatuses = append(s.ContainerStatuses, corev1.ContainerStatus{Name: c.Name, Image: c.Image, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}})
		}
	})
}

// mount takes a volume one step further towards the pod.
func (k *Kubelet) mount(ctx context.Context, p *corev1.Pod, r *running, pv *corev1.PersistentVolume, node *corev1.Node) (attached, published bool) {
	name := UniqueName(pv)
	k.mu.Lock()
	defer k.mu.Unlock()
	d := k.devices[name]
	if d == nil { // the claim was bound in this very pass
		return false, false
	}
	switch {
	case r.published.Has(name):
		return true, true
	case !d.attached:
		if d.busy || time.Now().Before(d.retry) || !slices.Contains(node.Status.VolumesInUse, name) {
			return false, false
		}
		d.attached = slices.ContainsFunc(node.Status.VolumesAttached, func(a corev1.AttachedVolume) bool { return a.Name == name })
		if !d.attached {
			d.failed()
			return false, false
		}
		d.succeeded()
		return true, false
	case !d.staged:
		k.call(ctx, d, func(ctx context.Context) error {
			if err := k.awaitAttach(ctx, pv); err != nil {
				return err
			}
			return k.asks(driver.Stage, d)(ctx)
		}, func(err error) {
			d.staged = err == nil || d.staged
			operation := "MountVolume.MountDevice"
			if errors.As(err, new(notAttachedError)) {
				operation = "MountVolume.WaitForAttach"
			}
			k.sayFailed(p, err, operation, d)
		})
	default:
		k.call(ctx, d, k.asks(driver.Publish, d), func(err error) {
			if err == nil {
				r.published.Insert(name)
				d.users.Insert(p.UID)
			}
			k.sayFailed(p, err, "MountVolume.SetUp", d)
		})
	}
	return true, false
}

func (k *Kubelet) sayFailed(p *corev1.Pod, err error, operation string, d *device) {
	if err != nil {
		k.event(p, "FailedMount", "%s failed for volume %q : %v", operation, d.volume, err)
	}
}

// end stops the containers of a pod, takes its volumes from it, and lets its object go.
func (k *Kubelet) end(ctx context.Context, p *corev1.Pod, r *running, now time.Time, kept bool) {
	if r.stopped.IsZero() {
		r.stopped = now
		k.stopWait(r)
	}
	if !r.ended {
		if r.started && (kept || now.Sub(r.stopped) < stopping) {
			return
		}
		if r.started && !isTerminal(p) {
			_ = k.writeStatus(ctx, p, func(s *corev1.PodStatus, now metav1.Time) {
				setConditions(s, now, false)
				for i := range s.ContainerStatuses {
					c := &s.ContainerStatuses[i]
					c.Ready, c.State = false, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", FinishedAt: now}}
				}
			})
		}
		k.set(func() { r.ended = true })
	}
	k.mu.Lock()
	left := len(r.published)
	for name := range r.published {
		d := k.devices[name]
		k.call(ctx, d, k.asks(driver.Unpublish, d), func(err error) {
			if err == nil {
				r.published.Delete(name)
				d.users.Delete(p.UID)
			}
		})
	}
	k.mu.Unlock()
	if left > 0 || k.Plugin != nil && !k.unmounts(p, r) || p.DeletionTimestamp == nil {
		return
	}
	var at int64
	// a deletion that fails is tried again at the next pass
	_ = k.client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: &at, Preconditions: &metav1.Preconditions{UID: &p.UID}})
}
