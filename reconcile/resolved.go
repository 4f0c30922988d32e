package reconcile

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// resolved remembers what the volumes of pods turned out to be. Every check
// asks, most of them for every pod, and the answer is the same each time.
type resolved struct {
	// podVolumes are those that some plugin may take, in the order of the snapshot.
	podVolumes []*podVolume
	byVolume   map[*corev1.Volume]*podVolume
	// users are the pods on the node that reach the volume, in the order of the
	// snapshot.
	users map[VolumeNode][]*corev1.Pod
}

type resolvedVolume struct {
	name corev1.UniqueVolumeName
	spec *VolumeSpec
	err  error
}

type podVolume struct {
	pod    *corev1.Pod
	volume *corev1.Volume
	node   types.NodeName
	resolvedVolume
}

// resolvePodVolumes fills w.resolved but for its users.
func (w *World) resolvePodVolumes() {
	r := &w.resolved
	r.podVolumes = make([]*podVolume, 0, len(w.snapshot.Claims))
	r.byVolume = make(map[*corev1.Volume]*podVolume, len(w.snapshot.Claims))
	for _, pod := range w.snapshot.Pods {
		for i := range pod.Spec.Volumes {
			volume := &pod.Spec.Volumes[i]
			if hasNoPlugin(volume) {
				continue
			}
			name, spec, err := w.podVolume(pod, volume)
			v := &podVolume{pod, volume, types.NodeName(pod.Spec.NodeName), resolvedVolume{name, spec, err}}
			r.podVolumes = append(r.podVolumes, v)
			r.byVolume[volume] = v
		}
	}
}

// indexUsers fills w.resolved.users. It takes the PVs' names from w.volumes.
func (w *World) indexUsers() {
	users := make(map[VolumeNode][]*corev1.Pod, len(w.snapshot.VolumeAttachments))
	names := sync.OnceValue(w.namesByPV) // for pods that do not come to their volumes: mostly there is none
	for _, v := range w.resolved.podVolumes {
		use := func(name corev1.UniqueVolumeName) {
			pair := VolumeNode{name, v.node}
			if pods := users[pair]; len(pods) == 0 || pods[len(pods)-1] != v.pod {
				users[pair] = append(pods, v.pod)
			}
		}
		if v.err == nil {
			use(v.name)
			continue
		}
		// The claim may lead to the volume without the two being bound.
		if claim := w.snapshot.Claim(namespaced(v.pod.Namespace, ClaimName(v.pod, v.volume))); claim != nil {
			for _, name := range names()[claim.Spec.VolumeName] {
				use(name)
			}
		}
	}
	w.resolved.users = users
}

func (w *World) namesByPV() map[string][]corev1.UniqueVolumeName {
	names := make(map[string][]corev1.UniqueVolumeName, len(w.snapshot.Volumes))
	for name, pvs := range w.volumes {
		for _, pv := range pvs {
			names[pv.Name] = append(names[pv.Name], name)
		}
	}
	return names
}

// errNoPlugin is what plugins.attachable says of a volume without any plugin.
var errNoPlugin = skipf(NotAttachable, "no attachable volume plugin takes this source")

// hasNoPlugin says of the volumes that most pods have, and no others, that no
// plugin takes them: there is no other source beside the one that is never
// attached.
func hasNoPlugin(v *corev1.Volume) bool {
	s := v.VolumeSource
	if CanBeAttached(v) {
		return false
	}
	s.Secret, s.ConfigMap, s.DownwardAPI, s.Projected, s.EmptyDir, s.HostPath, s.Image, s.GitRepo = nil, nil, nil, nil, nil, nil, nil, nil
	return s == corev1.VolumeSource{}
}

// inTreeSource says that the source is one that csi-translation-lib translates.
// Its own way to say no is an error for each of its plugins.
func inTreeSource(pv *corev1.PersistentVolume, inline *corev1.Volume) bool {
	if pv != nil {
		s := &pv.Spec.PersistentVolumeSource
		return s.AWSElasticBlockStore != nil || s.GCEPersistentDisk != nil || s.Cinder != nil || s.AzureDisk != nil ||
			s.AzureFile != nil || s.VsphereVolume != nil || s.PortworxVolume != nil
	}
	s := &inline.VolumeSource
	return s.AWSElasticBlockStore != nil || s.GCEPersistentDisk != nil || s.Cinder != nil || s.AzureDisk != nil ||
		s.AzureFile != nil || s.VsphereVolume != nil || s.PortworxVolume != nil
}
