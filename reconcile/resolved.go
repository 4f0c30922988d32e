package reconcile

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/internal/sidebyside"
)

// resolvedVolume is a volume as the controller resolves it, or the error of resolving it.
type resolvedVolume struct {
	name corev1.UniqueVolumeName
	spec *VolumeSpec
	err  error
}

type podVolume struct {
	pod    *corev1.Pod
	volume *corev1.Volume
	node   types.NodeName
	*resolvedVolume
}

// resolvePodVolumes fills in w.podVolumes and w.resolved, with the volumes that some
// plugin may take.
func (w *World) resolvePodVolumes() {
	all := make([]podVolume, 0, len(w.snapshot.Claims)) // most claims are of one pod
	for _, pod := range w.snapshot.Pods {
		for i := range pod.Spec.Volumes {
			if volume := &pod.Spec.Volumes[i]; !hasNoPlugin(volume) {
				all = append(all, podVolume{pod: pod, volume: volume, node: types.NodeName(pod.Spec.NodeName)})
			}
		}
	}
	sidebyside.Do(len(all), func(i int) { all[i].resolvedVolume = w.podVolume(all[i].pod, all[i].volume) })
	w.resolved = make(map[*corev1.Volume]*resolvedVolume, len(all))
	for i := range all {
		w.resolved[all[i].volume] = all[i].resolvedVolume
	}
	w.podVolumes = all
}

// indexUsers fills in which pods reach which volume. w.Desired must be complete.
func (w *World) indexUsers(podVolumes []podVolume) {
	w.others = map[VolumeNode][]*corev1.Pod{}
	pods := make([]*corev1.Pod, len(podVolumes)) // the users of nearly every pair are a part of this slice
	names := sync.OnceValue(w.namesByPV)         // for pods that do not come to their volumes: mostly there is none
	former := sync.OnceValue(func() map[types.NamespacedName][]corev1.UniqueVolumeName { return w.namesByClaim(names()) })
	for i := range podVolumes {
		v := &podVolumes[i]
		pods[i] = v.pod
		use := func(name corev1.UniqueVolumeName) {
			pair := VolumeNode{name, v.node}
			row, users := w.Desired.Find(pair), w.users(pair)
			switch {
			case len(users) > 0 && users[len(users)-1] == v.pod:
			case row != nil && users == nil:
				row.users = pods[i : i+1 : i+1]
			case row != nil:
				row.users = append(users, v.pod)
			default:
				w.others[pair] = append(users, v.pod)
			}
		}
		if v.err == nil {
			use(v.name)
		}
		key := namespaced(v.pod.Namespace, ClaimName(v.pod, v.volume))
		claim := w.snapshot.Claim(key)
		// The claim may lead to the volume without the two being bound.
		if v.err != nil && claim != nil {
			for _, name := range names()[claim.Spec.VolumeName] {
				use(name)
			}
		}
		// The pod may have come to it through a claim of the name that is gone.
		if key.Name != "" && (claim == nil || v.pod.CreationTimestamp.Before(&claim.CreationTimestamp)) {
			for _, name := range former()[key] {
				use(name)
			}
		}
	}
}

func (w *World) namesByPV() map[string][]corev1.UniqueVolumeName {
	names := make(map[string][]corev1.UniqueVolumeName, len(w.snapshot.Volumes))
	for name := range w.volumes.places {
		for _, pv := range w.volumes.get(name) {
			names[pv.Name] = append(names[pv.Name], name)
		}
	}
	return names
}

// namesByClaim are the names of the volumes by the claims that their claimRefs name, whether
// those are there or not.
func (w *World) namesByClaim(byPV map[string][]corev1.UniqueVolumeName) map[types.NamespacedName][]corev1.UniqueVolumeName {
	names := make(map[types.NamespacedName][]corev1.UniqueVolumeName, len(w.snapshot.Volumes))
	for _, pv := range w.snapshot.Volumes {
		if ref := pv.Spec.ClaimRef; ref != nil {
			key := namespaced(ref.Namespace, ref.Name)
			names[key] = append(names[key], byPV[pv.Name]...)
		}
	}
	return names
}

// errNoPlugin is the error of plugins.attachable for a volume without any plugin.
var errNoPlugin = skipf(NotAttachable, "no attachable volume plugin takes this source")

// ofNoPlugin is what a volume that no plugin takes is resolved to; most volumes of pods are
// such.
var ofNoPlugin = &resolvedVolume{err: errNoPlugin}

// hasNoPlugin reports whether the volume has only a source that is never attached. It answers
// so for the kinds that most pods have, and false for every other volume, which the plugins
// must be asked about.
func hasNoPlugin(v *corev1.Volume) bool {
	s := v.VolumeSource
	if CanBeAttached(v) {
		return false
	}
	s.Secret, s.ConfigMap, s.DownwardAPI, s.Projected, s.EmptyDir, s.HostPath, s.Image, s.GitRepo = nil, nil, nil, nil, nil, nil, nil, nil
	return s == corev1.VolumeSource{}
}

// inTreeSource reports whether csi-translation-lib translates the source. The library's own
// answer of no builds an error for each of its plugins.
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
