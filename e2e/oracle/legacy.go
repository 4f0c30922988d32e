//go:build upto_v1_30

package main

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/pkg/volume"
)

// legacyPlugin stands for an in-tree plugin. Most real ones drag a cloud's SDK in
// and want an account, and none is there in the release that go mod tidy looks
// at. It supports what the real one supports and names it as that one does, and
// its operations do nothing; the rest is never called in a pass.
type legacyPlugin struct {
	volume.AttachableVolumePlugin
	name string
	// gate leaves it out (appendPluginBasedOnFeatureFlags); "" where it is never set.
	gate featuregate.Feature
	// device is what the source calls its device, false where it is another's.
	device func(*corev1.PersistentVolumeSource) (string, bool)
}

// source puts a PV's and a pod's source into one form.
func (p *legacyPlugin) source(spec *volume.Spec) (string, bool) {
	switch {
	case spec.PersistentVolume != nil:
		return p.device(&spec.PersistentVolume.Spec.PersistentVolumeSource)
	case spec.Volume != nil:
		v := spec.Volume
		return p.device(&corev1.PersistentVolumeSource{
			AWSElasticBlockStore: v.AWSElasticBlockStore, GCEPersistentDisk: v.GCEPersistentDisk,
			AzureDisk: v.AzureDisk, VsphereVolume: v.VsphereVolume, RBD: pooled(v.RBD),
		})
	default:
		return "", false
	}
}

func (p *legacyPlugin) unregistered() bool {
	return p.gate != "" && utilfeature.DefaultFeatureGate.Enabled(p.gate)
}

func (p *legacyPlugin) Init(volume.VolumeHost) error { return nil }
func (p *legacyPlugin) GetPluginName() string        { return p.name }
func (p *legacyPlugin) CanSupport(spec *volume.Spec) bool {
	_, ok := p.source(spec)
	return ok
}
func (p *legacyPlugin) CanAttach(*volume.Spec) (bool, error) { return true, nil }
func (p *legacyPlugin) GetVolumeName(spec *volume.Spec) (string, error) {
	name, _ := p.source(spec)
	return name, nil
}
func (p *legacyPlugin) NewAttacher() (volume.Attacher, error) { return legacyAttacher{}, nil }
func (p *legacyPlugin) NewDetacher() (volume.Detacher, error) { return legacyDetacher{}, nil }

type legacyAttacher struct{ volume.Attacher }

func (legacyAttacher) Attach(*volume.Spec, types.NodeName) (string, error) { return "", nil }

type legacyDetacher struct{ volume.Detacher }

func (legacyDetacher) Detach(string, types.NodeName) error { return nil }

func pooled(s *corev1.RBDVolumeSource) *corev1.RBDPersistentVolumeSource {
	if s == nil {
		return nil
	}
	return &corev1.RBDPersistentVolumeSource{RBDPool: s.RBDPool, RBDImage: s.RBDImage}
}

// rbd is in the tree up to 1.30.
var rbd = &legacyPlugin{name: "kubernetes.io/rbd", device: func(s *corev1.PersistentVolumeSource) (string, bool) {
	if s.RBD == nil {
		return "", false
	}
	return s.RBD.RBDPool + ":" + s.RBD.RBDImage, true
}}

// isImage is false: the API of these releases has no image volumes.
func isImage(*corev1.Volume) bool { return false }
