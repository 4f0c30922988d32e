//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/kubernetes/pkg/kubelet/configmap"
	"k8s.io/kubernetes/pkg/kubelet/secret"
	"k8s.io/kubernetes/pkg/kubelet/token"
	"k8s.io/kubernetes/pkg/volume"
	"k8s.io/kubernetes/pkg/volume/util/hostutil"
	"k8s.io/kubernetes/pkg/volume/util/subpath"
	"k8s.io/mount-utils"
)

// host is what the volume plugins ask of a kubelet. Its directories and its answers
// are a kubelet's (pkg/kubelet/volume_host.go).
type host struct {
	root       string
	node       types.NodeName
	client     kubernetes.Interface
	nodes      corelisters.NodeLister
	mounter    mount.Interface
	hostUtil   hostutil.HostUtils
	subpather  subpath.Interface
	plugins    *volume.VolumePluginMgr
	secrets    secret.Manager
	configMaps configmap.Manager
	tokens     *token.Manager
	recorder   record.EventRecorder
	notReady   atomic.Pointer[string]
	// factory watches CSIDrivers for the CSI plugin.
	factory informers.SharedInformerFactory
}

var (
	_ volume.VolumeHost        = (*host)(nil)
	_ volume.KubeletVolumeHost = (*host)(nil)
)

var errNotHere = errors.New("not part of this kubelet")

func (h *host) GetPluginDir(plugin string) string {
	return filepath.Join(h.root, "plugins", plugin)
}

func (h *host) GetVolumeDevicePluginDir(plugin string) string {
	return filepath.Join(h.root, "plugins", plugin, "volumeDevices")
}

func (h *host) GetPodsDir() string { return filepath.Join(h.root, "pods") }

func (h *host) GetPodVolumeDir(pod types.UID, plugin, name string) string {
	return filepath.Join(h.GetPodsDir(), string(pod), "volumes", plugin, name)
}

func (h *host) GetPodPluginDir(pod types.UID, plugin string) string {
	return filepath.Join(h.GetPodsDir(), string(pod), "plugins", plugin)
}

func (h *host) GetPodVolumeDeviceDir(pod types.UID, plugin string) string {
	return filepath.Join(h.GetPodsDir(), string(pod), "volumeDevices", plugin)
}

func (h *host) GetKubeClient() kubernetes.Interface    { return h.client }
func (h *host) GetHostUtil() hostutil.HostUtils        { return h.hostUtil }
func (h *host) GetSubpather() subpath.Interface        { return h.subpather }
func (h *host) GetNodeName() types.NodeName            { return h.node }
func (h *host) GetEventRecorder() record.EventRecorder { return h.recorder }

func (h *host) GetInformerFactory() informers.SharedInformerFactory { return h.factory }

func (h *host) CSIDriverLister() storagelisters.CSIDriverLister {
	return h.factory.Storage().V1().CSIDrivers().Lister()
}

func (h *host) CSIDriversSynced() cache.InformerSynced {
	return h.factory.Storage().V1().CSIDrivers().Informer().HasSynced
}

func (h *host) WaitForCacheSync() error {
	if !cache.WaitForCacheSync(context.Background().Done(), h.CSIDriversSynced()) {
		return errors.New("the CSIDrivers were not read")
	}
	return nil
}

// SetKubeletError is where the CSI plugin keeps the node from being Ready until it has its
// CSINode (runtimeState.setStorageState).
func (h *host) SetKubeletError(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	h.notReady.Store(&text)
}

// whyNotReady is what keeps the node from being Ready; "" where nothing does.
func (h *host) whyNotReady() string {
	if text := h.notReady.Load(); text != nil {
		return *text
	}
	return ""
}

// NewWrapperUnmounter is the counterpart of NewWrapperMounter.
func (h *host) NewWrapperUnmounter(name string, spec volume.Spec, pod types.UID) (volume.Unmounter, error) {
	plugin, err := h.wrapped(name, &spec)
	if err != nil {
		return nil, err
	}
	return plugin.NewUnmounter(spec.Name(), pod)
}

// wrapped is the plugin of a volume of which another is made, and gives it a name.
func (h *host) wrapped(name string, spec *volume.Spec) (volume.VolumePlugin, error) {
	if spec.Volume != nil {
		spec.Volume.Name = "wrapped_" + name
	}
	plugin, err := h.plugins.FindPluginBySpec(spec)
	if err != nil {
		return nil, fmt.Errorf("can't use volume plugins for %s: %w", spec.Name(), err)
	}
	return plugin, nil
}

func (h *host) GetNodeAllocatable() (corev1.ResourceList, error) {
	node, err := h.nodes.Get(string(h.node))
	if err != nil {
		return nil, err
	}
	return node.Status.Allocatable, nil
}

func (h *host) GetSecretFunc() func(namespace, name string) (*corev1.Secret, error) {
	return h.secrets.GetSecret
}

func (h *host) GetConfigMapFunc() func(namespace, name string) (*corev1.ConfigMap, error) {
	return h.configMaps.GetConfigMap
}

func (h *host) GetServiceAccountTokenFunc() func(namespace, name string, tr *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
	return h.tokens.GetServiceAccountToken
}

func (h *host) DeleteServiceAccountTokenFunc() func(types.UID) {
	return h.tokens.DeleteServiceAccountToken
}

func (h *host) GetPodCertificateCredentialBundle(context.Context, string, string, string, string, int) ([]byte, []byte, error) {
	return nil, nil, errNotHere
}

func (h *host) GetNodeLabels() (map[string]string, error) {
	node, err := h.nodes.Get(string(h.node))
	if err != nil {
		return nil, fmt.Errorf("error retrieving node: %w", err)
	}
	return node.Labels, nil
}

func (h *host) GetAttachedVolumesFromNodeStatus() (map[corev1.UniqueVolumeName]string, error) {
	node, err := h.nodes.Get(string(h.node))
	if err != nil {
		return nil, fmt.Errorf("error retrieving node: %w", err)
	}
	attached := map[corev1.UniqueVolumeName]string{}
	for _, a := range node.Status.VolumesAttached {
		attached[a.Name] = a.DevicePath
	}
	return attached, nil
}
