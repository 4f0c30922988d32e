//go:build upto_v1_29

package main

import corev1 "k8s.io/api/core/v1"

// vsphere is in the tree up to 1.29.
var vsphere = &legacyPlugin{name: "kubernetes.io/vsphere-volume", gate: "InTreePluginvSphereUnregister", device: func(s *corev1.PersistentVolumeSource) (string, bool) {
	if s.VsphereVolume == nil {
		return "", false
	}
	return s.VsphereVolume.VolumePath, true
}}
