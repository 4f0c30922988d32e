package parts

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/kubernetes/pkg/kubelet/config"
	"k8s.io/kubernetes/pkg/kubelet/volumemanager"
	"k8s.io/kubernetes/pkg/volume"
	csiplugin "k8s.io/kubernetes/pkg/volume/csi"
	"k8s.io/kubernetes/pkg/volume/util/hostutil"
	"k8s.io/kubernetes/pkg/volume/util/subpath"
	"k8s.io/kubernetes/pkg/volume/util/volumepathhandler"
	"k8s.io/mount-utils"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/world/driver"
)

// NodePlugin is the node service of the driver, for the volume managers of all nodes: it knows a
// node by the folder that a path is in. The CSI plug-in keeps its drivers in a variable of the
// process, so that one world with volume managers is played at a time.
type NodePlugin struct {
	csi.UnimplementedNodeServer

	driver *driver.Driver
	root   string
	// mounters are those of the nodes: they remember mounts and make none.
	mounters map[string]*mount.FakeMounter
}

// NewNodePlugin serves the driver's node service until the context ends.
func NewNodePlugin(ctx context.Context, d *driver.Driver, nodes []string) (*NodePlugin, error) {
	root, err := os.MkdirTemp("", "world")
	if err != nil {
		return nil, err
	}
	p := &NodePlugin{driver: d, root: root, mounters: map[string]*mount.FakeMounter{}}
	for _, node := range nodes {
		p.mounters[node] = mount.NewFakeMounter(nil)
	}
	listener := bufconn.Listen(1 << 16)
	serveWith(d.Name, func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) })
	server := grpc.NewServer()
	csi.RegisterNodeServer(server, p)
	go func() { _ = server.Serve(listener) }() // it ends with the server
	go func() {
		<-ctx.Done()
		server.Stop()
		_ = os.RemoveAll(root)
	}()
	return p, nil
}

// do makes the call for the node that has the path, and mounts or unmounts it there.
func (p *NodePlugin) do(ctx context.Context, call driver.Call, handle, path string, then func(mounter mount.Interface) error) error {
	node, _, _ := strings.Cut(strings.TrimPrefix(path, p.root+"/"), "/")
	if err := p.driver.Do(ctx, call, handle, node); err != nil {
		return err
	}
	return then(p.mounters[node])
}

func mounted(handle, path string) func(mount.Interface) error {
	return func(m mount.Interface) error {
		return errors.Join(os.MkdirAll(path, 0o750), m.Mount("/dev/"+handle, path, "ext4", nil))
	}
}

func unmounted(path string) func(mount.Interface) error {
	return func(m mount.Interface) error { return m.Unmount(path) }
}

// NodeGetCapabilities implements the node service.
func (p *NodePlugin) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	stages := &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME}}
	return &csi.NodeGetCapabilitiesResponse{Capabilities: []*csi.NodeServiceCapability{{Type: stages}}}, nil
}

// NodeStageVolume implements the node service.
func (p *NodePlugin) NodeStageVolume(ctx context.Context, r *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	return &csi.NodeStageVolumeResponse{}, p.do(ctx, driver.Stage, r.VolumeId, r.StagingTargetPath, mounted(r.VolumeId, r.StagingTargetPath))
}

// NodePublishVolume implements the node service.
func (p *NodePlugin) NodePublishVolume(ctx context.Context, r *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	return &csi.NodePublishVolumeResponse{}, p.do(ctx, driver.Publish, r.VolumeId, r.TargetPath, mounted(r.VolumeId, r.TargetPath))
}

// NodeUnpublishVolume implements the node service.
func (p *NodePlugin) NodeUnpublishVolume(ctx context.Context, r *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	return &csi.NodeUnpublishVolumeResponse{}, p.do(ctx, driver.Unpublish, r.VolumeId, r.TargetPath, func(m mount.Interface) error {
		return errors.Join(unmounted(r.TargetPath)(m), os.RemoveAll(r.TargetPath))
	})
}

// NodeUnstageVolume implements the node service.
func (p *NodePlugin) NodeUnstageVolume(ctx context.Context, r *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	return &csi.NodeUnstageVolumeResponse{}, p.do(ctx, driver.Unstage, r.VolumeId, r.StagingTargetPath, unmounted(r.StagingTargetPath))
}

// volumes is the volume half of a kubelet: upstream's volume manager with the CSI plug-in. It is
// the host of both, and of the kubelet it knows the pods.
type volumes struct {
	volumemanager.VolumeManager

	kubelet *Kubelet
	plugin  *NodePlugin
	factory informers.SharedInformerFactory
	ctx     context.Context
	end     context.CancelFunc
}

// runVolumes starts the volume manager of a kubelet that has started, and stops that of one that has stopped.
func (k *Kubelet) runVolumes(ctx context.Context, alive bool) {
	var v *volumes
	var off bool
	k.set(func() {
		if v = k.volumes; v != nil && (!alive || k.again) {
			v.end()
			v, k.volumes = nil, nil
		}
		if alive {
			off, k.again, k.off = k.off, false, false
		}
	})
	if off {
		k.Plugin.wipe(k.Node)
	}
	if alive && v == nil {
		_ = k.startVolumes(ctx) // else at the next pass
	}
}

// await waits for the volume manager in the background, unless it does already: done is called
// with the outcome, while the lock is held.
func (k *Kubelet) await(ctx context.Context, r *running, wait func(context.Context) error, done func(error)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r.stopWait != nil {
		return
	}
	ctx, r.stopWait = context.WithCancel(ctx)
	go func() {
		err := wait(ctx)
		k.set(func() {
			r.stopWait()
			r.stopWait = nil
			done(err)
		})
	}()
}

// stopWait ends the wait for the volumes of a pod that is to end.
func (k *Kubelet) stopWait(r *running) {
	k.set(func() {
		if r.stopWait != nil {
			r.stopWait()
		}
	})
}

// startMounted starts the containers of a pod once the volume manager has mounted its volumes.
func (k *Kubelet) startMounted(ctx context.Context, p *corev1.Pod, r *running) {
	v, ready := k.volumes, false
	k.set(func() { ready = r.mounted })
	switch {
	case v == nil:
		return
	case ready:
		k.runContainers(ctx, p, r)
		return
	}
	k.await(v.ctx, r, func(ctx context.Context) error { return v.WaitForAttachAndMount(ctx, p) }, func(err error) {
		r.mounted = err == nil
		if err != nil && !errors.Is(err, context.Canceled) {
			k.event(p, "FailedMount", "Unable to attach or mount volumes: %v", err)
		}
	})
}

// unmounts reports whether the volume manager has unmounted the volumes of a pod that has ended.
func (k *Kubelet) unmounts(p *corev1.Pod, r *running) (done bool) {
	v := k.volumes
	k.set(func() { done = r.unmounted })
	if !done && v != nil {
		k.await(v.ctx, r, func(ctx context.Context) error { return v.WaitForUnmount(ctx, p) }, func(err error) { r.unmounted = err == nil })
	}
	return done
}

// startVolumes starts the volume manager of a kubelet that starts: it finds the mounts that there are.
func (k *Kubelet) startVolumes(ctx context.Context) error {
	ctx, end := context.WithCancel(ctx)
	v := &volumes{kubelet: k, plugin: k.Plugin, factory: informers.NewSharedInformerFactory(k.client, 0), ctx: ctx, end: end}
	var plugins volume.VolumePluginMgr
	err := errors.Join(os.MkdirAll(v.GetPodsDir(), 0o750), plugins.InitPlugins(csiplugin.ProbeVolumePlugins(), nil, v))
	if err != nil {
		end()
		return err
	}
	v.VolumeManager = volumemanager.NewVolumeManager(true, v.GetNodeName(), v, v, k.client, &plugins, v.GetMounter(), v.GetHostUtil(), v.GetPodsDir(), k.recorder,
		volumepathhandler.NewBlockVolumePathHandler(), nil, 0)
	v.factory.Start(ctx.Done())
	go v.Run(ctx, config.NewSourcesReady(func(sets.Set[string]) bool { return true }))
	k.set(func() { k.volumes = v })
	return nil
}

// wipe forgets all mounts, as a machine does that was off.
func (p *NodePlugin) wipe(node string) {
	p.mounters[node] = mount.NewFakeMounter(nil)
	_ = os.RemoveAll(filepath.Join(p.root, node))
}

// has reports whether the node has the volume mounted.
func (p *NodePlugin) has(node string, volume corev1.UniqueVolumeName) bool {
	_, handle, _ := strings.Cut(string(volume), "^")
	all, _ := p.mounters[node].List()
	return slices.ContainsFunc(all, func(m mount.MountPoint) bool { return m.Device == "/dev/"+handle })
}

// GetPodByUID implements volumemanager.PodManager.
func (v *volumes) GetPodByUID(uid types.UID) (*corev1.Pod, bool) {
	pods := v.GetPods()
	i := slices.IndexFunc(pods, func(p *corev1.Pod) bool { return p.UID == uid })
	if i < 0 {
		return nil, false
	}
	return pods[i], true
}

// GetPods implements volumemanager.PodManager.
func (v *volumes) GetPods() []*corev1.Pod { return v.kubelet.objects.podsOn(v.kubelet.Node) }

// ShouldPodContainersBeTerminating implements volumemanager.PodStateProvider.
func (v *volumes) ShouldPodContainersBeTerminating(uid types.UID) bool {
	p, ok := v.GetPodByUID(uid)
	return !ok || p.DeletionTimestamp != nil || isTerminal(p)
}

// ShouldPodRuntimeBeRemoved implements volumemanager.PodStateProvider.
func (v *volumes) ShouldPodRuntimeBeRemoved(uid types.UID) bool {
	p, ok := v.GetPodByUID(uid)
	return !ok || v.kubelet.hasEnded(p)
}

// errNone is the answer to what no volume of the world needs.
var errNone = errors.New("the world has none")

func (v *volumes) in(path ...string) string {
	return filepath.Join(append([]string{v.plugin.root, v.kubelet.Node}, path...)...)
}

func (v *volumes) GetPluginDir(plugin string) string { return v.in("plugins", plugin) }
func (v *volumes) GetVolumeDevicePluginDir(plugin string) string {
	return v.in("plugins", plugin, "volumeDevices")
}
func (v *volumes) GetPodsDir() string { return v.in("pods") }
func (v *volumes) GetPodVolumeDir(uid types.UID, plugin, name string) string {
	return v.in("pods", string(uid), "volumes", plugin, name)
}
func (v *volumes) GetPodPluginDir(uid types.UID, plugin string) string {
	return v.in("pods", string(uid), "plugins", plugin)
}
func (v *volumes) GetPodVolumeDeviceDir(uid types.UID, plugin string) string {
	return v.in("pods", string(uid), "volumeDevices", plugin)
}
func (v *volumes) GetKubeClient() kubernetes.Interface { return v.kubelet.client }
func (v *volumes) NewWrapperMounter(string, volume.Spec, *corev1.Pod) (volume.Mounter, error) {
	return nil, errNone
}
func (v *volumes) NewWrapperUnmounter(string, volume.Spec, types.UID) (volume.Unmounter, error) {
	return nil, errNone
}
func (v *volumes) GetMounter() mount.Interface                         { return v.plugin.mounters[v.kubelet.Node] }
func (v *volumes) GetHostUtil() hostutil.HostUtils                     { return hostutil.NewFakeHostUtil(nil) }
func (v *volumes) GetSubpather() subpath.Interface                     { return &subpath.FakeSubpath{} }
func (v *volumes) GetNodeAllocatable() (corev1.ResourceList, error)    { return nil, nil }
func (v *volumes) GetNodeLabels() (map[string]string, error)           { return nil, nil }
func (v *volumes) GetNodeName() types.NodeName                         { return types.NodeName(v.kubelet.Node) }
func (v *volumes) GetEventRecorder() record.EventRecorder              { return v.kubelet.recorder }
func (v *volumes) SetKubeletError(error)                               {}
func (v *volumes) DeleteServiceAccountTokenFunc() func(types.UID)      { return func(types.UID) {} }
func (v *volumes) GetInformerFactory() informers.SharedInformerFactory { return v.factory }
func (v *volumes) GetSecretFunc() func(string, string) (*corev1.Secret, error) {
	return func(string, string) (*corev1.Secret, error) { return nil, errNone }
}
func (v *volumes) GetConfigMapFunc() func(string, string) (*corev1.ConfigMap, error) {
	return func(string, string) (*corev1.ConfigMap, error) { return nil, errNone }
}
func (v *volumes) GetServiceAccountTokenFunc() func(string, string, *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
	return func(string, string, *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
		return nil, errNone
	}
}
func (v *volumes) GetAttachedVolumesFromNodeStatus() (map[corev1.UniqueVolumeName]string, error) {
	node, err := v.kubelet.objects.Nodes.Get(v.kubelet.Node)
	if err != nil {
		return nil, err
	}
	attached := map[corev1.UniqueVolumeName]string{}
	for _, a := range node.Status.VolumesAttached {
		attached[a.Name] = a.DevicePath
	}
	return attached, nil
}
func (v *volumes) CSIDriverLister() storagelisters.CSIDriverLister {
	return v.factory.Storage().V1().CSIDrivers().Lister()
}
func (v *volumes) CSIDriversSynced() cache.InformerSynced {
	return v.factory.Storage().V1().CSIDrivers().Informer().HasSynced
}
func (v *volumes) WaitForCacheSync() error {
	v.factory.WaitForCacheSync(context.Background().Done())
	return nil
}
func (v *volumes) GetTrustAnchorsByName(context.Context, string, bool) ([]byte, error) {
	return nil, errNone
}
func (v *volumes) GetTrustAnchorsBySigner(context.Context, string, *metav1.LabelSelector, bool) ([]byte, error) {
	return nil, errNone
}
func (v *volumes) GetPodCertificateCredentialBundle(context.Context, string, string, string, string, int) ([]byte, []byte, error) {
	return nil, nil, errNone
}
