package cluster

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/fields"
)

// partialDecoder decodes the fields of an object that decide whether it is kept. Five
// pods in six are not kept, and decoding each in full takes longer than receiving it.
type partialDecoder[T any, P interface {
	*T
	object
}] struct {
	part    *fields.Part
	o       T
	reduced []byte
}

// peek returns an object that is valid until the next call. It is false for one
// that cannot be read, whose error is for the decoder of the whole object.
func (p *partialDecoder[T, P]) peek(raw []byte) (P, bool) {
	reduced, ok := p.part.Of(p.reduced[:0], raw, nil)
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

// The parts that are peeked at: of pods what facts.PodsOfUse and usedFields ask
// about, and of the others what the Keep of a scope.Part looks at.
var (
	podPeek = fields.Only[corev1.Pod]("metadata: name namespace deletionTimestamp", "spec: nodeName", "status: phase reason",
		"spec.containers: name image", "spec.volumes: name", "spec.volumes.volumeSource: hostPath.path "+neverAttached)
	nodePeek       = fields.Only[corev1.Node]("metadata: name", "status: volumesInUse volumesAttached.name")
	volumePeek     = fields.Only[corev1.PersistentVolume]("metadata: name", "spec.persistentVolumeSource.csi: driver volumeHandle")
	claimPeek      = fields.Only[corev1.PersistentVolumeClaim]("metadata: name namespace", "spec: volumeName")
	attachmentPeek = fields.Only[storagev1.VolumeAttachment]("metadata: name", "spec: attacher nodeName source.persistentVolumeName source.inlineVolumeSpec{}")
)

// neverAttached are the sources of volumes that reconcile.CanBeAttached excludes.
const neverAttached = "emptyDir{} gitRepo{} secret{} downwardAPI{} configMap{} projected{} image{}"

// peekAt returns the peek of a new partialDecoder.
func peekAt[T any, P interface {
	*T
	object
}](p *fields.Part) func([]byte) (P, bool) {
	return (&partialDecoder[T, P]{part: p}).peek
}
