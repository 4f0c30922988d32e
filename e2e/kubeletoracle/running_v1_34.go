//go:build linux && upto_v1_34

package main

import (
	"context"

	"k8s.io/kubernetes/pkg/kubelet/config"
	"k8s.io/kubernetes/pkg/kubelet/pluginmanager"
	"k8s.io/kubernetes/pkg/kubelet/volumemanager"
	volumetypes "k8s.io/kubernetes/pkg/volume/util/types"
)

func runSockets(ctx context.Context, m pluginmanager.PluginManager, ready config.SourcesReady) {
	m.Run(ready, ctx.Done())
}

func possiblyMounted(m volumemanager.VolumeManager, pod volumetypes.UniquePodName) bool {
	return len(m.GetPossiblyMountedVolumesForPod(pod)) > 0
}
