//go:build linux && !upto_v1_36

package main

import (
	"k8s.io/kubernetes/pkg/kubelet/volumemanager"
	"k8s.io/kubernetes/pkg/volume/util/volumepathhandler"
)

func newVolumeManager(k *kubelet) volumemanager.VolumeManager {
	return volumemanager.NewVolumeManager(true, k.host.node, k.pods, k.pods, k.client, k.host.plugins,
		k.host.mounter, k.host.hostUtil, k.host.GetPodsDir(), k.recorder, volumepathhandler.NewBlockVolumePathHandler(),
		nil, 0) // volume health is asked only where its feature gate is on
}
