package scenario

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/controlplane"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/kubelet"
)

// BusyDisk builds a world in which the subject has moved to another node and waits
// there: the driver cannot detach its volume from the first one.
func BusyDisk(ctx context.Context, cluster *controlplane.Cluster, options Options) (*World, error) {
	return broken(ctx, cluster, options, "busy disk", func(w *World, ctx context.Context) error {
		w.logf("letting the detach of the volume of pod %s/%s fail", w.Namespace, w.Subject.Pod)
		w.cluster.Driver.OneAtATime(w.Subject.Volume.Handle) // the controller does not count a node whose detach has failed
		w.cluster.Driver.FailUnpublish(status.Error(codes.Internal, DeviceBusy), w.Subject.Volume.Handle)
		if err := fixture.DeletePod(ctx, w.cluster.Client(), w.Namespace, w.Subject.Pod); err != nil {
			return err
		}
		if err := fixture.Await(ctx, fixture.PodGone(w.cluster.Client(), w.Namespace, w.Subject.Pod)); err != nil {
			return err
		}
		return w.waitsOnSecondNode(ctx, w.Subject, kubelet.Options{})
	})
}

// TwoNodes builds a world in which a second pod waits on another node for the
// ReadWriteOnce volume with which the subject runs.
func TwoNodes(ctx context.Context, cluster *controlplane.Cluster, options Options) (*World, error) {
	return broken(ctx, cluster, options, "two nodes", func(w *World, ctx context.Context) error {
		second := w.Subject
		second.Pod = "web-1"
		return w.waitsOnSecondNode(ctx, second, kubelet.Options{})
	})
}

// PluginMissing builds a world in which the subject waits on a node where the driver's
// node plugin does not run.
func PluginMissing(ctx context.Context, cluster *controlplane.Cluster, options Options) (*World, error) {
	return broken(ctx, cluster, options, "plugin missing", func(w *World, ctx context.Context) error {
		load, err := w.newcomer(ctx)
		if err != nil {
			return err
		}
		return w.waitsOnSecondNode(ctx, load, kubelet.Options{Unregistered: true})
	})
}

// DiskLost builds a world in which the subject waits for a volume that the storage
// system does not have.
func DiskLost(ctx context.Context, cluster *controlplane.Cluster, options Options) (*World, error) {
	return refused(ctx, cluster, options, "disk lost", status.Error(codes.NotFound, "the volume was not found"))
}

// NodeFull builds a world in which the subject waits on a node to which the driver
// attaches no further volume.
func NodeFull(ctx context.Context, cluster *controlplane.Cluster, options Options) (*World, error) {
	return refused(ctx, cluster, options, "node full", status.Error(codes.ResourceExhausted, "maximum number of volumes attached"))
}

// TakenElsewhere builds a world in which the subject waits for a volume that the
// storage system has attached to a machine of which no VolumeAttachment tells.
func TakenElsewhere(ctx context.Context, cluster *controlplane.Cluster, options Options) (*World, error) {
	return refused(ctx, cluster, options, "taken elsewhere", status.Error(codes.FailedPrecondition, "the volume is already attached to another instance"))
}

// refused builds a world in which the driver refuses with err to attach the volume of
// a new pod.
func refused(ctx context.Context, cluster *controlplane.Cluster, options Options, name string, err error) (*World, error) {
	return broken(ctx, cluster, options, name, func(w *World, ctx context.Context) error {
		load, failed := w.newcomer(ctx)
		if failed != nil {
			return failed
		}
		w.logf("letting the attach of the volume of pod %s/%s fail", w.Namespace, load.Pod)
		w.cluster.Driver.FailPublish(err, load.Volume.Handle)
		return w.waits(ctx, load)
	})
}

// newcomer is a further pod with a volume; it is not made yet.
func (w *World) newcomer(ctx context.Context) (Workload, error) {
	volume, err := fixture.BoundVolume(ctx, w.cluster.Client(), w.Namespace, "data-web-1", corev1.ReadWriteOnce)
	return Workload{Pod: "web-1", Volume: volume}, err
}

// waitsOnSecondNode makes the workload the subject, on a node of its own.
func (w *World) waitsOnSecondNode(ctx context.Context, load Workload, options kubelet.Options) error {
	options.Node = w.Node + "-second"
	k, err := w.addNode(ctx, options)
	if err != nil {
		return err
	}
	w.Node = k.Node()
	return w.waits(ctx, load)
}

// waits makes the workload the subject, and its pod, which comes to wait.
func (w *World) waits(ctx context.Context, load Workload) error {
	w.Subject = load
	w.logf("creating pod %s/%s on node %s", w.Namespace, load.Pod, w.Node)
	if err := w.createPod(ctx, load); err != nil {
		return err
	}
	return fixture.Await(ctx, fixture.PodWaiting(w.cluster.Client(), w.Namespace, load.Pod))
}
