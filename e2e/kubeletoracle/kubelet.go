//go:build linux

package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
	"k8s.io/kubernetes/pkg/kubelet/configmap"
	"k8s.io/kubernetes/pkg/kubelet/pluginmanager"
	"k8s.io/kubernetes/pkg/kubelet/secret"
	"k8s.io/kubernetes/pkg/kubelet/token"
	"k8s.io/kubernetes/pkg/kubelet/volumemanager"
	"k8s.io/kubernetes/pkg/volume"
	volumeconfigmap "k8s.io/kubernetes/pkg/volume/configmap"
	"k8s.io/kubernetes/pkg/volume/csi"
	"k8s.io/kubernetes/pkg/volume/downwardapi"
	"k8s.io/kubernetes/pkg/volume/emptydir"
	"k8s.io/kubernetes/pkg/volume/hostpath"
	"k8s.io/kubernetes/pkg/volume/local"
	"k8s.io/kubernetes/pkg/volume/nfs"
	"k8s.io/kubernetes/pkg/volume/projected"
	volumesecret "k8s.io/kubernetes/pkg/volume/secret"
	"k8s.io/kubernetes/pkg/volume/util/hostutil"
	"k8s.io/kubernetes/pkg/volume/util/subpath"
	"k8s.io/mount-utils"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/kubeletoracle/wire"
)

// secretResync is how long the watch of a secret that nobody uses is kept
// (pkg/kubelet/kubelet.go, NewMainKubelet).
const secretResync = time.Minute

// kubelet is one life of the kubelet.
type kubelet struct {
	options  wire.Machine
	client   kubernetes.Interface
	recorder record.EventRecorder
	host     *host
	volumes  volumemanager.VolumeManager
	pods     *pods
	status   *nodeStatus
	// noNetwork keeps it from what comes after the check of the node's network.
	noNetwork atomic.Bool
}

// serveKubelet is the process of a kubelet: it says once that it runs.
func serveKubelet(in *json.Decoder, out *json.Encoder) error {
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	if err := flags.Parse([]string{"-v=4"}); err != nil {
		return err
	}
	k := &kubelet{}
	if err := in.Decode(&k.options); err != nil {
		return fmt.Errorf("read what node it is of: %w", err)
	}
	if err := k.run(context.Background()); err != nil {
		return fmt.Errorf("run the kubelet of %s: %w", k.options.Node, err)
	}
	if err := out.Encode(wire.Answer{}); err != nil {
		return err
	}
	return converse(in, out, func(r wire.Request) (wire.Answer, error) {
		switch r.Do {
		case wire.NoNetwork, wire.Network:
			k.noNetwork.Store(r.Do == wire.NoNetwork)
			return wire.Answer{}, nil
		default:
			l := k.look(r.Volumes)
			var err error
			l.Samples, err = samples(r.Families)
			return wire.Answer{Kubelet: l}, err
		}
	})
}

// run starts all parts in the order of a kubelet (Kubelet.Run and what it calls).
func (k *kubelet) run(ctx context.Context) error {
	rest, err := clientcmd.BuildConfigFromFlags("", k.options.Kubeconfig)
	if err != nil {
		return err
	}
	rest.QPS = -1
	if k.client, err = kubernetes.NewForConfig(rest); err != nil {
		return err
	}
	for _, dir := range []string{"pods", "plugins", "plugins_registry"} {
		if err := os.MkdirAll(filepath.Join(k.options.Root, dir), 0o750); err != nil {
			return err
		}
	}
	if err := registerNode(ctx, k.client, k.options); err != nil {
		return err
	}
	sink := record.NewBroadcaster()
	sink.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: k.client.CoreV1().Events("")})
	k.recorder = sink.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "kubelet", Host: k.options.Node})

	own := informers.NewSharedInformerFactoryWithOptions(k.client, 0, informers.WithTweakListOptions(selecting("metadata.name", k.options.Node)))
	nodes := own.Core().V1().Nodes()
	nodes.Informer()
	own.Start(ctx.Done())
	own.WaitForCacheSync(ctx.Done())

	mounter := mount.New("")
	k.host = &host{
		root: k.options.Root, node: types.NodeName(k.options.Node), client: k.client, nodes: nodes.Lister(),
		mounter: mounter, hostUtil: hostutil.NewHostUtil(), subpather: subpath.New(mounter), plugins: &volume.VolumePluginMgr{},
		secrets:    secret.NewWatchingSecretManager(k.client, secretResync),
		configMaps: configmap.NewWatchingConfigMapManager(k.client, secretResync),
		tokens:     token.NewManager(k.client), recorder: k.recorder,
		factory: informers.NewSharedInformerFactory(k.client, 0),
	}
	if err := k.host.plugins.InitPlugins(volumePlugins(), nil, k.host); err != nil {
		return err
	}
	sockets := pluginmanager.NewPluginManager(filepath.Join(k.options.Root, "plugins_registry"), k.recorder)
	k.pods = newPods(k)
	k.volumes = newVolumeManager(k)
	k.status = &nodeStatus{machine: k.options, client: k.client, nodes: nodes.Lister(), volumes: k.volumes, host: k.host}

	ready := newSourcesReady(k.pods.synced)
	go runVolumes(ctx, k.volumes, ready)
	if err := k.pods.watch(ctx); err != nil {
		return err
	}
	if err := k.stopOrphans(); err != nil {
		return err
	}
	sockets.AddHandler(registration.CSIPlugin, csi.PluginHandler)
	go runSockets(ctx, sockets, ready)
	go k.status.run(ctx)
	return nil
}

// volumePlugins are the plugins of a kubelet that need no service of their own.
func volumePlugins() []volume.VolumePlugin {
	return slices.Concat(emptydir.ProbeVolumePlugins(), hostpath.ProbeVolumePlugins(volume.VolumeConfig{}), volumesecret.ProbeVolumePlugins(),
		downwardapi.ProbeVolumePlugins(), volumeconfigmap.ProbeVolumePlugins(), projected.ProbeVolumePlugins(), local.ProbeVolumePlugins(),
		nfs.ProbeVolumePlugins(volume.VolumeConfig{}), csi.ProbeVolumePlugins())
}

// look is the truth, as the volume manager tells it.
func (k *kubelet) look(asked []corev1.UniqueVolumeName) *wire.Kubelet {
	l := &wire.Kubelet{InUse: k.volumes.GetVolumesInUse(), Reported: k.status.accepted(), Pods: map[types.UID]wire.Pod{}}
	for _, name := range asked {
		if k.volumes.VolumeIsAttached(name) {
			l.Attached = append(l.Attached, name)
		}
	}
	for uid, w := range k.pods.all() {
		pod := w.state()
		name := uniquePodName(uid)
		pod.Mounted = slices.Sorted(maps.Keys(k.volumes.GetMountedVolumesForPod(name)))
		pod.Possibly = possiblyMounted(k.volumes, name)
		l.Pods[uid] = pod
	}
	return l
}

// selecting narrows a watch to the objects with one value in one field.
func selecting(field, value string) func(*metav1.ListOptions) {
	selector := fields.OneTermEqualSelector(field, value).String()
	return func(o *metav1.ListOptions) { o.FieldSelector = selector }
}
