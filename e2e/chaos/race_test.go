package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/faultproxy"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
)

// race is something that happens while a request of the doctor is held back.
type race string

const (
	heartbeat    race = "the kubelet writes the node's status"
	attach       race = "the controller writes volumesAttached"
	podGoes      race = "the pod goes"
	podReturns   race = "the pod goes and returns"
	nodeReborn   race = "the node is deleted and registers anew"
	nodeReturns  race = "the node is lost and returns"
	secondDoctor race = "a second doctor repairs"
	healed       race = "the driver is healed"
	podComes     race = "a pod comes and runs"
	podBound     race = "a pod is bound to the node"
	attachedAnew race = "the volume is attached anew for a pod"
	podMoves     race = "the pod moves to the node and runs"
)

// races are the races for a world of the story.
func (s story) races() []race {
	switch s {
	case lostEntry:
		return []race{heartbeat, attach, podGoes, podReturns, nodeReborn, nodeReturns, secondDoctor}
	case refusedDetach:
		return []race{heartbeat, podGoes, nodeReturns, secondDoctor, healed}
	case forgotten:
		return []race{heartbeat, attach, podComes, podBound, attachedAnew, nodeReturns, secondDoctor}
	case nodeOff, nodeLost:
		return []race{podGoes, nodeReturns, secondDoctor}
	case orphan:
		return []race{podMoves, heartbeat, podGoes}
	case phantom:
		return []race{heartbeat, nodeReturns, secondDoctor}
	case stuckPod:
		return []race{secondDoctor}
	}
	return []race{heartbeat, nodeReturns, secondDoctor}
}

// during is the class of the request that is held back for the race, where only one is
// possible; "" where any is. No precondition of a deletion shows that a pod has mounted the
// volume since the last look: that race comes before the last look, or the pod is only bound
// by then.
func (r race) during() faultproxy.Class {
	switch r {
	case podComes:
		return faultproxy.Review
	case podBound, attachedAnew:
		return faultproxy.Write
	}
	return ""
}

// strike is the race during the request, with a fault or without.
func (r race) strike(class faultproxy.Class, fault faultproxy.Fault) strike {
	if r == podMoves { // between the two writes, before the look
		return strike{class: faultproxy.Read, resource: "version", after: 1, nth: 1, race: r}
	}
	return strike{class: class, nth: 1, race: r, fault: fault}
}

// run makes the race happen and returns when it has.
func (w *world) run(ctx context.Context, r race) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch r {
	case heartbeat:
		return w.changeNodeStatus(ctx, func(s *corev1.NodeStatus) {
			for i := range s.Conditions {
				s.Conditions[i].LastHeartbeatTime = metav1.Now()
			}
			// a heartbeat's time counts in seconds, so another field has to change
			s.Images = append(s.Images, corev1.ContainerImage{Names: []string{fmt.Sprintf("registry.test/%d:1", len(s.Images))}})
		})
	case attach:
		v, err := fixture.BoundVolume(ctx, w.client, w.name, "more", corev1.ReadWriteOnce)
		if err != nil {
			return err
		}
		if err := w.createPod(ctx, "db-0", v); err != nil {
			return err
		}
		return fixture.AwaitFor(ctx, patience, fixture.Attachment(w.client, w.name, v, "listed", func(s fixture.AttachmentState) bool { return s.Listed }))
	case podGoes, podReturns:
		if err := fixture.DeletePod(ctx, w.client, w.name, pod); err != nil {
			return err
		}
		if err := fixture.AwaitFor(ctx, patience, fixture.PodGone(w.client, w.name, pod)); err != nil {
			return err
		}
		if r == podReturns {
			return w.createPod(ctx, pod, w.volume)
		}
		return nil
	case nodeReborn:
		w.kubelet.Stop()
		for _, err := range []error{
			w.client.CoreV1().Nodes().Delete(ctx, w.name, metav1.DeleteOptions{}),
			w.client.StorageV1().CSINodes().Delete(ctx, w.name, metav1.DeleteOptions{}),
		} {
			if err != nil {
				return err
			}
		}
		time.Sleep(1100 * time.Millisecond) // its age counts in seconds
		return w.kubelet.Start(ctx)
	case podComes:
		return w.podComes(ctx)
	case podMoves:
		return w.moves(ctx)
	case podBound:
		w.kubelet.Stop() // it takes until the next run to notice the pod
		return w.createPod(ctx, pod, w.volume)
	case attachedAnew:
		return w.attachAnew(ctx)
	case nodeReturns:
		if w.story == nodeOff || w.story == nodeLost {
			return w.comesBack(ctx)
		}
		return errors.Join(w.kubelet.StopHeartbeat(ctx), w.kubelet.Start(ctx))
	case healed:
		w.cluster.Driver.FailUnpublish(nil, w.volume.Handle)
		return nil
	}
	return fmt.Errorf("nobody knows how %s", r)
}
