package cluster

import (
	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// peeker reads, of pods in protobuf, no more than what diagnose.PodsOfUse and
// readOf ask of them: five pods of six are of no use to anybody here, and to decode them would
// take longer than to receive them. What it cannot read it leaves to the real
// decoder, whose error it then is.
type peeker struct{ pod corev1.Pod }

// peek gives a pod that is good until the next call.
func (p *peeker) peek(raw []byte) (pod *corev1.Pod, ok bool) {
	pod = &p.pod
	volumes, containers := pod.Spec.Volumes[:0], pod.Spec.Containers[:0]
	*pod = corev1.Pod{}
	pod.Spec.Volumes, pod.Spec.Containers = volumes, containers
	return pod, fields(raw, func(n int32, v []byte) bool {
		switch n {
		case 1: // metadata
			return fields(v, func(n int32, v []byte) bool {
				switch n {
				case 1:
					pod.Name = string(v)
				case 3:
					pod.Namespace = string(v)
				case 9:
					pod.DeletionTimestamp = &metav1.Time{} // that there is one is enough
				}
				return true
			})
		case 2: // spec
			return fields(v, func(n int32, v []byte) bool {
				switch n {
				case 1:
					pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{})
					return peekVolume(v, &pod.Spec.Volumes[len(pod.Spec.Volumes)-1])
				case 2:
					pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{})
					return peekContainer(v, &pod.Spec.Containers[len(pod.Spec.Containers)-1])
				case 10:
					pod.Spec.NodeName = string(v)
				}
				return true
			})
		case 3: // status
			return fields(v, func(n int32, v []byte) bool {
				switch n {
				case 1:
					pod.Status.Phase = corev1.PodPhase(v)
				case 4:
					pod.Status.Reason = string(v)
				}
				return true
			})
		}
		return true
	})
}

// harmless are the sources that are never attached; only that there is one
// matters, and not a field of it.
var harmless = corev1.VolumeSource{
	EmptyDir: &corev1.EmptyDirVolumeSource{}, GitRepo: &corev1.GitRepoVolumeSource{}, Secret: &corev1.SecretVolumeSource{},
	DownwardAPI: &corev1.DownwardAPIVolumeSource{}, ConfigMap: &corev1.ConfigMapVolumeSource{},
	Projected: &corev1.ProjectedVolumeSource{}, Image: &corev1.ImageVolumeSource{},
}

// peekVolume tells the sources that are never attached from all others, known
// or not.
func peekVolume(raw []byte, volume *corev1.Volume) bool {
	return fields(raw, func(n int32, v []byte) bool {
		if n == 1 {
			volume.Name = string(v)
		}
		if n != 2 {
			return true
		}
		return fields(v, func(n int32, v []byte) bool {
			switch n {
			case 1:
				if volume.HostPath == nil {
					volume.HostPath = &corev1.HostPathVolumeSource{}
				}
				return fields(v, func(n int32, v []byte) bool {
					if n == 1 {
						volume.HostPath.Path = string(v)
					}
					return true
				})
			case 2:
				volume.EmptyDir = harmless.EmptyDir
			case 5:
				volume.GitRepo = harmless.GitRepo
			case 6:
				volume.Secret = harmless.Secret
			case 16:
				volume.DownwardAPI = harmless.DownwardAPI
			case 19:
				volume.ConfigMap = harmless.ConfigMap
			case 26:
				volume.Projected = harmless.Projected
			case 30:
				volume.Image = harmless.Image
			}
			return true
		})
	})
}

func peekContainer(raw []byte, container *corev1.Container) bool {
	return fields(raw, func(n int32, v []byte) bool {
		switch n {
		case 1:
			container.Name = string(v)
		case 2:
			container.Image = string(v)
		}
		return true
	})
}

// fields calls f for each text or message in a message. It says whether all of
// them could be read.
func fields(message []byte, f func(int32, []byte) bool) bool {
	return eachField(message, func(number protowire.Number, _, value []byte) bool {
		return value == nil || f(int32(number), value)
	})
}
