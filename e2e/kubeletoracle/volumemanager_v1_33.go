//go:build linux && upto_v1_33 && !upto_v1_30

package main

import (
	"k8s.io/kubernetes/pkg/kubelet/volumemanager"
	"k8s.io/kubernetes/pkg/volume/util/volumepathhandler"
)

// newVolumeManager gives it no container runtime: it keeps it and asks it nothing.
func newVolumeManager(k *kubelet) volumemanager.VolumeManager {
	return volumemanager.NewVolumeManager(true, k.host.node, k.pods, k.pods, k.client, k.host.plugins, nil,
		k.host.mounter, k.host.hostUtil, k.host.GetPodsDir(), k.recorder, volumepathhandler.NewBlockVolumePathHandler())
}
