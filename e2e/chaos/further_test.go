package chaos_test

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/csidriver"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/load"
)

// builder breaks a world of a story with its own way to break; nil for the others.
func (s story) builder() func(*world, context.Context) error {
	switch s {
	case forgotten:
		return (*world).forget
	case nodeOff, nodeLost:
		return (*world).loseNode
	case orphan:
		return (*world).attachPastCluster
	case phantom:
		return (*world).listPhantom
	case stuckPod:
		return (*world).stickPod
	}
	return nil
}

// startFurther begins the round in a world of such a story.
func (w *world) startFurther(ctx context.Context) error {
	var err error
	if w.story == forgotten || w.story == orphan || w.story == phantom {
		if w.kubelet, err = w.startKubelet(ctx, w.name, w.machine); err != nil {
			return err
		}
	}
	switch w.story {
	case orphan:
		if w.second, err = w.startKubelet(ctx, w.other(), w.other()); err != nil {
			return err
		}
		return fixture.AwaitFor(ctx, patience, fixture.PodWaiting(w.client, w.name, pod))
	case phantom, stuckPod:
		return nil
	}
	return w.startDeletion(ctx)
}

// attachPastCluster attaches the volume to the other node by hand, and makes the driver
// refuse it to the pod's node.
func (w *world) attachPastCluster(ctx context.Context) error {
	for _, node := range []string{w.name, w.other()} {
		if err := w.makeNode(ctx, node); err != nil {
			return err
		}
	}
	w.byHand(w.other())
	w.cluster.Driver.OneAtATime(w.volume.Handle)
	if err := w.createPod(ctx, pod, w.volume); err != nil {
		return err
	}
	refused := w.attachment("refused", func(s fixture.AttachmentState) bool {
		return s.Attachment != nil && s.Attachment.Status.AttachError != nil
	})
	if err := fixture.AwaitFor(ctx, patience, refused); err != nil {
		return err
	}
	return load.Backdate(ctx, w.cluster.EtcdURL(), w.volume.AttachmentName(w.name), orphanAge)
}

// orphanAge and the story's age together are more than the 15 min for which VD404 requires
// the attach to have failed.
const orphanAge = 7 * time.Minute

// byHand attaches the volume to the node without the cluster's knowledge.
func (w *world) byHand(node string) {
	w.cluster.Driver.AttachByHand(w.volume.Handle, node)
	w.attached = append(w.attached, csidriver.Call{At: time.Now(), Publish: true, Volume: w.volume.Handle, Node: node})
}

// listPhantom writes the volume into volumesAttached without a VolumeAttachment.
func (w *world) listPhantom(ctx context.Context) error {
	w.byHand(w.name)
	if err := w.makeNode(ctx, w.name); err != nil {
		return err
	}
	return w.changeNodeStatus(ctx, func(s *corev1.NodeStatus) {
		s.VolumesAttached = append(s.VolumesAttached, corev1.AttachedVolume{Name: w.volume.UniqueName()})
	})
}

// stickPod has a node fail and the pod of a StatefulSet deleted there.
func (w *world) stickPod(ctx context.Context) error {
	runs := fixture.Pod(w.name, pod, w.name, w.volume.Claim)
	runs.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "web", UID: "web", Controller: ptr.To(true)}}
	if err := w.fail(ctx, runs); err != nil {
		return err
	}
	return fixture.DeletePod(ctx, w.client, w.name, pod)
}

// moves moves the pod from its node to the other, and has it run there.
func (w *world) moves(ctx context.Context) error {
	if err := fixture.DeletePod(ctx, w.client, w.name, pod); err != nil {
		return err
	}
	if err := fixture.AwaitFor(ctx, patience, fixture.PodGone(w.client, w.name, pod)); err != nil {
		return err
	}
	if err := w.createPodOn(ctx, w.other(), pod, w.volume); err != nil {
		return err
	}
	return fixture.AwaitFor(ctx, patience, fixture.PodRunning(w.client, w.name, pod))
}
