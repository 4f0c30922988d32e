//go:build linux

package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	oteltrace "go.opentelemetry.io/otel/trace/noop"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	remote "k8s.io/cri-client/pkg"
	"k8s.io/klog/v2"
	kubeletapp "k8s.io/kubernetes/cmd/kubelet/app"
	"k8s.io/kubernetes/cmd/kubelet/app/options"
	"k8s.io/kubernetes/pkg/kubelet"
	cadvisortest "k8s.io/kubernetes/pkg/kubelet/cadvisor/testing"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	containertest "k8s.io/kubernetes/pkg/kubelet/container/testing"
	probetest "k8s.io/kubernetes/pkg/kubelet/prober/testing"
	kubeletutil "k8s.io/kubernetes/pkg/kubelet/util"
	"k8s.io/kubernetes/pkg/util/oom"
	"k8s.io/kubernetes/pkg/volume"
	"k8s.io/kubernetes/pkg/volume/configmap"
	"k8s.io/kubernetes/pkg/volume/csi"
	"k8s.io/kubernetes/pkg/volume/downwardapi"
	"k8s.io/kubernetes/pkg/volume/emptydir"
	"k8s.io/kubernetes/pkg/volume/hostpath"
	"k8s.io/kubernetes/pkg/volume/local"
	"k8s.io/kubernetes/pkg/volume/projected"
	"k8s.io/kubernetes/pkg/volume/secret"
	"k8s.io/kubernetes/pkg/volume/util/hostutil"
	"k8s.io/kubernetes/pkg/volume/util/subpath"
	"k8s.io/mount-utils"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/kubeletoracle/wire"
)

// runtimeTimeout bounds a call of the runtime.
const runtimeTimeout = 15 * time.Second

// dependencies are the dependencies of pkg/kubemark.NewHollowKubelet with all that has to do with
// volumes, with the API server or with who may ask the kubelet made real.
func dependencies(ctx context.Context, m wire.Machine, s *options.KubeletServer) (*kubelet.Dependencies, error) {
	config, err := clientcmd.BuildConfigFromFlags("", m.Kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	containers, err := remote.NewRemoteRuntimeServiceBuilder().WithEndpoint(m.Hollow.Runtime).WithConnectionTimeout(runtimeTimeout).Build(ctx)
	if err != nil {
		return nil, fmt.Errorf("reach the runtime: %w", err)
	}
	images, err := remote.NewRemoteImageServiceBuilder().WithEndpoint(m.Hollow.Runtime).WithConnectionTimeout(runtimeTimeout).Build(ctx)
	if err != nil {
		return nil, fmt.Errorf("reach the runtime: %w", err)
	}
	tls, err := kubeletapp.InitializeTLS(ctx, &s.KubeletFlags, &s.KubeletConfiguration)
	if err != nil {
		return nil, fmt.Errorf("make its certificate: %w", err)
	}
	auth, reload, err := kubeletapp.BuildAuth(types.NodeName(m.Node), client, s.KubeletConfiguration)
	if err != nil {
		return nil, fmt.Errorf("tell who may ask it: %w", err)
	}
	reload(ctx.Done())

	mounter := mount.New("")
	return &kubelet.Dependencies{
		KubeClient: client, HeartbeatClient: client, EventClient: client.CoreV1(), Auth: auth, TLSOptions: tls,
		Mounter: mounter, HostUtil: hostutil.NewHostUtil(), Subpather: subpath.New(mounter), VolumePlugins: volumePlugins(),
		PodStartupLatencyTracker: kubeletutil.NewPodStartupLatencyTracker(), NodeStartupLatencyTracker: kubeletutil.NewNodeStartupLatencyTracker(klog.FromContext(ctx)),
		TracerProvider: oteltrace.NewTracerProvider(),

		RemoteRuntimeService: containers, RemoteImageService: images,
		ContainerManager: cm.NewStubContainerManager(), CAdvisorInterface: &cadvisortest.Fake{NodeName: m.Node},
		OSInterface: &containertest.FakeOS{}, OOMAdjuster: oom.NewFakeOOMAdjuster(), ProbeManager: probetest.FakeManager{},
	}, nil
}

// volumePlugins are the plugins of a kubelet that need no service of their own.
func volumePlugins() []volume.VolumePlugin {
	return slices.Concat(emptydir.ProbeVolumePlugins(), hostpath.ProbeVolumePlugins(volume.VolumeConfig{}), secret.ProbeVolumePlugins(),
		downwardapi.ProbeVolumePlugins(), configmap.ProbeVolumePlugins(), projected.ProbeVolumePlugins(), local.ProbeVolumePlugins(), csi.ProbeVolumePlugins())
}
