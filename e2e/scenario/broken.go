package scenario

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/controlplane"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
)

// BackoffDrop builds the world that a detach in its back-off left behind on
// releases before 1.23, as told in kubernetes issues 72181 and 88565: the
// subject's volume is attached and the controller knows it, but
// status.volumesAttached does not list it. The kubelet waits for an entry that
// nobody is going to write, and no event says so.
//
// Current releases do not lose the entry by themselves, so it is taken out by
// hand while kubelet and pod are away.
func BackoffDrop(ctx context.Context, cluster *controlplane.Cluster, options Options) (*World, error) {
	return broken(ctx, cluster, options, "back-off drop", (*World).dropEntry)
}

func (w *World) dropEntry(ctx context.Context) error {
	client := w.cluster.Client()
	w.logf("taking the volume of pod %s/%s out of the volumesAttached of node %s", w.Namespace, w.Subject.Pod, w.Node)
	w.Kubelet.Stop() // volumesInUse stays, which keeps the controller from detaching
	if err := fixture.ForceDeletePod(ctx, client, w.Namespace, w.Subject.Pod); err != nil {
		return err
	}
	if err := fixture.DropVolumesAttached(ctx, client, w.Node, w.Subject.Volume.UniqueName()); err != nil {
		return err
	}
	w.logf("creating pod %s/%s again", w.Namespace, w.Subject.Pod)
	if err := w.createPod(ctx, w.Subject); err != nil {
		return err
	}
	if err := w.Kubelet.Start(ctx); err != nil {
		return err
	}
	if err := fixture.Await(ctx, fixture.PodRunning(client, w.Namespace, w.Neighbour.Pod)); err != nil {
		return err
	}
	if err := fixture.Await(ctx, fixture.PodWaiting(client, w.Namespace, w.Subject.Pod)); err != nil {
		return err
	}
	return fixture.Await(ctx, w.Dropped())
}

// Dropped says of a world made by [BackoffDrop] that it is as it was made: the
// volume is announced and attached, and not listed.
func (w *World) Dropped() fixture.Condition {
	return w.Attachment("in use and attached, but not in volumesAttached", func(s fixture.AttachmentState) bool {
		return s.InUse && s.Attached() && !s.Listed
	})
}

// DeviceBusy is what the driver says in the world of [ReuseWhileDetaching].
const DeviceBusy = "device is busy"

// ReuseWhileDetaching builds what the same case looks like on current
// releases: the driver cannot detach the subject's volume, and the pod has come
// back to the same node meanwhile. The VolumeAttachment is being deleted, which
// cannot be taken back, and until that is over nothing can be attached.
//
// It heals when the driver is healed with FailUnpublish(nil).
func ReuseWhileDetaching(ctx context.Context, cluster *controlplane.Cluster, options Options) (*World, error) {
	return broken(ctx, cluster, options, "reuse while detaching", (*World).reuse)
}

func (w *World) reuse(ctx context.Context) error {
	client := w.cluster.Client()
	w.logf("letting the detach of the volume of pod %s/%s fail", w.Namespace, w.Subject.Pod)
	w.cluster.Driver.FailUnpublish(status.Error(codes.Internal, DeviceBusy), w.Subject.Volume.Handle)
	if err := fixture.DeletePod(ctx, client, w.Namespace, w.Subject.Pod); err != nil {
		return err
	}
	if err := fixture.Await(ctx, fixture.PodGone(client, w.Namespace, w.Subject.Pod)); err != nil {
		return err
	}
	failed := w.Attachment("failing to detach", func(s fixture.AttachmentState) bool {
		return s.Deleting() && s.Attachment.Status.DetachError != nil
	})
	if err := fixture.Await(ctx, failed); err != nil {
		return err
	}
	w.logf("creating pod %s/%s again", w.Namespace, w.Subject.Pod)
	if err := w.createPod(ctx, w.Subject); err != nil {
		return err
	}
	if err := fixture.Await(ctx, fixture.PodWaiting(client, w.Namespace, w.Subject.Pod)); err != nil {
		return err
	}
	return fixture.Await(ctx, w.Detaching())
}

// Detaching says of a world made by [ReuseWhileDetaching] that it is as it was
// made: the volume is announced and not listed, and its VolumeAttachment is
// being deleted with an error.
func (w *World) Detaching() fixture.Condition {
	return w.Attachment("in use, not in volumesAttached, failing to detach", func(s fixture.AttachmentState) bool {
		return s.InUse && !s.Listed && s.Deleting() && s.Attachment.Status.DetachError != nil
	})
}

// broken builds a healthy world and breaks it.
func broken(ctx context.Context, cluster *controlplane.Cluster, options Options, name string, breakIt func(*World, context.Context) error) (*World, error) {
	w, err := Healthy(ctx, cluster, options)
	if err != nil {
		return nil, err
	}
	if err := breakIt(w, ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("build world %q: %w", name, err), w.Close(context.WithoutCancel(ctx)))
	}
	return w, nil
}
