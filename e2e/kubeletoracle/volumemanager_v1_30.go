//go:build linux && upto_v1_30

package main

import (
	"k8s.io/kubernetes/pkg/kubelet/volumemanager"
	"k8s.io/kubernetes/pkg/volume/util/volumepathhandler"
)

// newVolumeManager gives it no container runtime: it keeps it and asks it nothing. The
// volumes of a pod that has ended are not kept.
func newVolumeManager(k *kubelet) volumemanager.VolumeManager {
	return volumemanager.NewVolumeManager(true, k.host.node, k.pods, k.pods, k.client, k.host.plugins, nil,
		k.host.mounter, k.host.hostUtil, k.host.GetPodsDir(), k.recorder, false, volumepathhandler.NewBlockVolumePathHandler())
}
