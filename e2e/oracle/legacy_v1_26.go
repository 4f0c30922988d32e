//go:build upto_v1_26

package main

import corev1 "k8s.io/api/core/v1"

// The plugins that 1.27 (aws-ebs, azure-disk) and 1.28 (gce-pd) dropped.
var (
	awsEBS = &legacyPlugin{name: "kubernetes.io/aws-ebs", gate: "InTreePluginAWSUnregister", device: func(s *corev1.PersistentVolumeSource) (string, bool) {
		if s.AWSElasticBlockStore == nil {
			return "", false
		}
		return s.AWSElasticBlockStore.VolumeID, true
	}}
	gcePD = &legacyPlugin{name: "kubernetes.io/gce-pd", gate: "InTreePluginGCEUnregister", device: func(s *corev1.PersistentVolumeSource) (string, bool) {
		if s.GCEPersistentDisk == nil {
			return "", false
		}
		return s.GCEPersistentDisk.PDName, true
	}}
	azureDisk = &legacyPlugin{name: "kubernetes.io/azure-disk", gate: "InTreePluginAzureDiskUnregister", device: func(s *corev1.PersistentVolumeSource) (string, bool) {
		if s.AzureDisk == nil {
			return "", false
		}
		return s.AzureDisk.DataDiskURI, true
	}}
)
