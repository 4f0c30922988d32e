package chaos_test

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/csidriver"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
)

// oldPod is the pod that had the volume on a node that has failed.
const oldPod = "web-old"

// forget brings a VolumeAttachment back, as a restore does, without the controller's
// knowledge.
func (w *world) forget(ctx context.Context) error {
	if err := w.makeNode(ctx, w.name); err != nil {
		return err
	}
	_, err := w.client.StorageV1().VolumeAttachments().Create(ctx, &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: w.volume.AttachmentName(w.name)},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: csidriver.Name, NodeName: w.name,
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &w.volume.PersistentVolume},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	return fixture.AwaitFor(ctx, patience, w.attachment("attached", fixture.AttachmentState.Attached))
}

// loseNode has a pod run, its node fall silent, and another pod wait on another node.
func (w *world) loseNode(ctx context.Context) error {
	if err := w.fail(ctx, fixture.Pod(w.name, oldPod, w.name, w.volume.Claim)); err != nil {
		return err
	}
	if err := w.makeNode(ctx, w.other()); err != nil {
		return err
	}
	return w.createPodOn(ctx, w.other(), pod, w.volume)
}

// startDeletion begins a round in which a VolumeAttachment is to be deleted. Only now the pod
// on a failed node is deleted: six minutes later the controller detaches by force.
func (w *world) startDeletion(ctx context.Context) error {
	if w.story == forgotten {
		return fixture.AwaitFor(ctx, patience, w.attachment("attached, and in no list", func(s fixture.AttachmentState) bool {
			return s.Attached() && !s.InUse && !s.Listed
		}))
	}
	w.deadline = time.Now().Add(forcedDetach)
	if err := fixture.ForceDeletePod(ctx, w.client, w.name, oldPod); err != nil {
		return err
	}
	var err error
	if w.second, err = w.startKubelet(ctx, w.other(), w.other()); err != nil {
		return err
	}
	return fixture.AwaitFor(ctx, patience, fixture.All(
		fixture.PodWaiting(w.client, w.name, pod),
		w.attachment("attached and in use", func(s fixture.AttachmentState) bool { return s.Attached() && s.InUse }),
	))
}

// forcedDetach is how long only a doctor detaches from a lost node: the controller waits for
// six minutes, and the last run must be over by then.
const forcedDetach = 4 * time.Minute

// comesBack boots the machine of the node. No pod wants what was mounted there any more: the
// kubelet first unmounts it.
func (w *world) comesBack(ctx context.Context) error {
	w.powerOff()
	return w.kubelet.Start(ctx)
}

// attachAnew detaches the volume and has it attached again, for a pod: the VolumeAttachment
// has the same name, and is another object.
func (w *world) attachAnew(ctx context.Context) error {
	if err := w.client.StorageV1().VolumeAttachments().Delete(ctx, w.volume.AttachmentName(w.name), metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := fixture.AwaitFor(ctx, patience, w.attachment("gone", func(s fixture.AttachmentState) bool { return s.Attachment == nil })); err != nil {
		return err
	}
	return w.podComes(ctx)
}

func (w *world) podComes(ctx context.Context) error {
	if err := w.createPod(ctx, pod, w.volume); err != nil {
		return err
	}
	return fixture.AwaitFor(ctx, patience, fixture.PodRunning(w.client, w.name, pod))
}

// fail has a pod run, and its node fail.
func (w *world) fail(ctx context.Context, runs *corev1.Pod) error {
	if err := w.makeNode(ctx, w.name); err != nil {
		return err
	}
	var err error
	if w.kubelet, err = w.startKubelet(ctx, w.name, w.machine); err != nil {
		return err
	}
	if err := w.schedule(ctx, runs); err != nil {
		return err
	}
	if err := fixture.AwaitFor(ctx, patience, fixture.PodRunning(w.client, w.name, runs.Name)); err != nil {
		return err
	}
	if err := w.kubelet.StopHeartbeat(ctx); err != nil {
		return err
	}
	if w.story.fences() {
		w.powerOff()
	}
	return nil
}
