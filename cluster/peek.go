package cluster

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// partialDecoder decodes the fields of an object that decide whether it is kept. Five
// pods in six are not kept, and decoding each in full takes longer than receiving it.
type partialDecoder[T any, P interface {
	*T
	object
}] struct {
	part    *part
	o       T
	reduced []byte
}

// peek returns an object that is valid until the next call. It is false for one
// that cannot be read, whose error is for the decoder of the whole object.
func (p *partialDecoder[T, P]) peek(raw []byte) (P, bool) {
	reduced, ok := p.part.cut(p.reduced[:0], raw)
	if !ok {
		return nil, false
	}
	p.reduced = reduced
	o := P(&p.o)
	if pod, ok := any(o).(*corev1.Pod); ok { // its lists are used again
		volumes, containers := pod.Spec.Volumes[:0], pod.Spec.Containers[:0]
		*pod = corev1.Pod{}
		pod.Spec.Volumes, pod.Spec.Containers = volumes, containers
	} else {
		p.o = *new(T)
	}
	return o, o.Unmarshal(reduced) == nil
}

// The parts that are peeked at: of pods the fields that facts.PodsOfUse reads, and of the
// others those that the Keep of a scope.Part reads.
var (
	podPeek = partOf[corev1.Pod]("metadata: name namespace deletionTimestamp", "spec: nodeName", "status: phase reason",
		"spec.containers: name image", "spec.volumes: name", "spec.volumes.volumeSource: hostPath.path "+neverAttached)
	nodePeek       = partOf[corev1.Node]("metadata: name", "status: volumesInUse volumesAttached.name")
	volumePeek     = partOf[corev1.PersistentVolume]("metadata: name", "spec.persistentVolumeSource.csi: driver volumeHandle")
	claimPeek      = partOf[corev1.PersistentVolumeClaim]("metadata: name namespace", "spec: volumeName")
	attachmentPeek = partOf[storagev1.VolumeAttachment]("metadata: name", "spec: attacher nodeName source.persistentVolumeName source.inlineVolumeSpec{}")
)

// neverAttached are the sources of volumes that reconcile.CanBeAttached excludes.
const neverAttached = "emptyDir{} gitRepo{} secret{} downwardAPI{} configMap{} projected{} image{}"

// peekAt returns the peek of a new partialDecoder.
func peekAt[T any, P interface {
	*T
	object
}](p *part) func([]byte) (P, bool) {
	return (&partialDecoder[T, P]{part: p}).peek
}
