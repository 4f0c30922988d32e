//go:build linux && upto_v1_30

package main

import (
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/kubernetes/pkg/volume"
)

// NewWrapperMounter is for plugins that are made of others, as a secret of an emptyDir.
func (h *host) NewWrapperMounter(name string, spec volume.Spec, pod *corev1.Pod, options volume.VolumeOptions) (volume.Mounter, error) {
	plugin, err := h.wrapped(name, &spec)
	if err != nil {
		return nil, err
	}
	return plugin.NewMounter(&spec, pod, options)
}

// GetCloudProvider returns nil: CSI drivers serve the clouds' own volumes.
func (h *host) GetCloudProvider() cloudprovider.Interface { return nil }
