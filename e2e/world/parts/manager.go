// Package parts runs what acts in a cluster, for one testing/synctest bubble: upstream's
// own controllers and csi-attacher's, and stand-ins for kubelets, a scheduler and a
// provisioner.
//
// It can only be linked with the overlay that ../overlay.sh makes: csi-attacher and
// Kubernetes register one feature gate differently, and the kubelets' CSI plug-in dials sockets.
package parts

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/deployment"
	"k8s.io/kubernetes/pkg/controller/nodelifecycle"
	"k8s.io/kubernetes/pkg/controller/podgc"
	"k8s.io/kubernetes/pkg/controller/replicaset"
	"k8s.io/kubernetes/pkg/controller/statefulset"
	"k8s.io/kubernetes/pkg/controller/tainteviction"
	"k8s.io/kubernetes/pkg/controller/volume/attachdetach"
	"k8s.io/kubernetes/pkg/controller/volume/persistentvolume"
	"k8s.io/kubernetes/pkg/controller/volume/pvcprotection"
	"k8s.io/kubernetes/pkg/controller/volume/pvprotection"
	"k8s.io/kubernetes/pkg/volume"
	"k8s.io/kubernetes/pkg/volume/csi"
)

// ManagerName is the name of kube-controller-manager: of its lease, and of its client.
const ManagerName = "kube-controller-manager"

// Manager runs a kube-controller-manager with its defaults until the context ends: it
// competes for the lease as identity, and its controllers work while it leads. A process
// that loses its lease exits; so Manager returns then.
func Manager(ctx context.Context, client kubernetes.Interface, identity string) error {
	return elect(ctx, client, ManagerName, identity, 15*time.Second, 10*time.Second, 2*time.Second, func(ctx context.Context) error {
		factory := informers.NewSharedInformerFactory(client, 12*time.Hour)
		started, err := controllers(ctx, client, factory)
		if err != nil {
			return err
		}
		factory.Start(ctx.Done())
		for _, run := range started {
			go run(ctx)
		}
		<-ctx.Done()
		factory.Shutdown()
		return nil
	})
}

// controllers are the controllers of the manager that have to do with pods, nodes and volumes.
func controllers(ctx context.Context, client kubernetes.Interface, factory informers.SharedInformerFactory) ([]func(context.Context), error) {
	core, apps, storage := factory.Core().V1(), factory.Apps().V1(), factory.Storage().V1()
	log := klog.FromContext(ctx)
	attach, err := attachdetach.NewAttachDetachController(ctx, client, core.Pods(), core.Nodes(), core.PersistentVolumeClaims(), core.PersistentVolumes(),
		storage.CSINodes(), storage.CSIDrivers(), storage.VolumeAttachments(), csi.ProbeVolumePlugins(), noPlugins{}, false, time.Minute, false, attachdetach.DefaultTimerConfig)
	if err != nil {
		return nil, fmt.Errorf("attach/detach controller: %w", err)
	}
	deployments, err := deployment.NewDeploymentController(ctx, apps.Deployments(), apps.ReplicaSets(), core.Pods(), client)
	if err != nil {
		return nil, fmt.Errorf("deployment controller: %w", err)
	}
	lifecycle, err := nodelifecycle.NewNodeLifecycleController(ctx, factory.Coordination().V1().Leases(), core.Pods(), core.Nodes(), apps.DaemonSets(), client,
		5*time.Second, time.Minute, 50*time.Second, 0.1, 0.01, 50, 0.55)
	if err != nil {
		return nil, fmt.Errorf("node lifecycle controller: %w", err)
	}
	taints, err := tainteviction.New(ctx, client, core.Pods(), core.Nodes(), "taint-eviction-controller")
	if err != nil {
		return nil, fmt.Errorf("taint eviction controller: %w", err)
	}
	binder, err := persistentvolume.NewController(ctx, persistentvolume.ControllerParameters{
		KubeClient: client, SyncPeriod: 15 * time.Second, VolumePlugins: csi.ProbeVolumePlugins(), VolumeInformer: core.PersistentVolumes(), ClaimInformer: core.PersistentVolumeClaims(),
		ClassInformer: storage.StorageClasses(), PodInformer: core.Pods(), NodeInformer: core.Nodes(), EnableDynamicProvisioning: true,
	})
	if err != nil {
		return nil, fmt.Errorf("persistent volume binder: %w", err)
	}
	claims, err := pvcprotection.NewPVCProtectionController(log, core.PersistentVolumeClaims(), core.Pods(), client)
	if err != nil {
		return nil, fmt.Errorf("claim protection controller: %w", err)
	}
	volumes, err := pvprotection.NewPVProtectionController(log, core.PersistentVolumes(), client)
	if err != nil {
		return nil, fmt.Errorf("volume protection controller: %w", err)
	}
	sets := statefulset.NewStatefulSetController(ctx, core.Pods(), apps.StatefulSets(), core.PersistentVolumeClaims(), apps.ControllerRevisions(), client)
	replicas := replicaset.NewReplicaSetController(ctx, apps.ReplicaSets(), core.Pods(), client, replicaset.BurstReplicas)
	garbage := podgc.NewPodGC(ctx, client, core.Pods(), core.Nodes(), 12500)
	return []func(context.Context){
		attach.Run, lifecycle.Run, taints.Run, binder.Run, garbage.Run,
		func(ctx context.Context) { claims.Run(ctx, 5) },
		func(ctx context.Context) { volumes.Run(ctx, 1) },
		func(ctx context.Context) { sets.Run(ctx, 5) },
		func(ctx context.Context) { deployments.Run(ctx, 5) },
		func(ctx context.Context) { replicas.Run(ctx, 5) },
	}, nil
}

// noPlugins finds no FlexVolume plugins.
type noPlugins struct{}

func (noPlugins) Init() error                         { return nil }
func (noPlugins) Probe() ([]volume.ProbeEvent, error) { return nil, nil }

// elect runs work while it leads, and returns when the context ends or the lease is lost.
// It does not give the lease back, as a process that dies does not.
func elect(ctx context.Context, client kubernetes.Interface, name, identity string, lease, renew, retry time.Duration, work func(context.Context) error) error {
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, SystemNamespace, name, client.CoreV1(), client.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: identity})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := make(chan error, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, Name: name, LeaseDuration: lease, RenewDeadline: renew, RetryPeriod: retry,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				if err := work(ctx); err != nil {
					failed <- err
					cancel()
				}
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return err
	}
	elector.Run(ctx)
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}
