package cluster

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// The peekers read, of objects in protobuf, what the Keep of a diagnose.Part
// looks at: of all VolumeAttachments, nodes and volumes of a cluster a handful is
// kept. What each gives is good until its next call.

// peekUnattached peeks at a pod none of whose volumes can be attached. Of another
// one it has to be known which claims it uses.
func (p *peeker) peekUnattached(raw []byte) (*corev1.Pod, bool) {
	pod, ok := p.peek(raw)
	if !ok || slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return reconcile.CanBeAttached(&v) }) {
		return nil, false
	}
	return pod, true
}

type attachmentPeeker struct {
	va     storagev1.VolumeAttachment
	volume string
	inline corev1.PersistentVolumeSpec
}

func (p *attachmentPeeker) peek(raw []byte) (*storagev1.VolumeAttachment, bool) {
	p.va = storagev1.VolumeAttachment{}
	return &p.va, fields(raw, func(n int32, v []byte) bool {
		switch n {
		case 1: // metadata
			return peekName(v, &p.va.Name)
		case 2: // spec
			return fields(v, func(n int32, v []byte) bool {
				switch n {
				case 1:
					p.va.Spec.Attacher = string(v)
				case 2:
					return fields(v, p.source)
				case 3:
					p.va.Spec.NodeName = string(v)
				}
				return true
			})
		}
		return true
	})
}

func (p *attachmentPeeker) source(n int32, v []byte) bool {
	switch n {
	case 1:
		p.volume = string(v)
		p.va.Spec.Source.PersistentVolumeName = &p.volume
	case 2: // that there is one is enough
		p.va.Spec.Source.InlineVolumeSpec = &p.inline
	}
	return true
}

type nodePeeker struct{ node corev1.Node }

func (p *nodePeeker) peek(raw []byte) (*corev1.Node, bool) {
	inUse, attached := p.node.Status.VolumesInUse[:0], p.node.Status.VolumesAttached[:0]
	p.node = corev1.Node{}
	p.node.Status.VolumesInUse, p.node.Status.VolumesAttached = inUse, attached
	return &p.node, fields(raw, func(n int32, v []byte) bool {
		switch n {
		case 1: // metadata
			return peekName(v, &p.node.Name)
		case 3: // status
			return fields(v, p.status)
		}
		return true
	})
}

func (p *nodePeeker) status(n int32, v []byte) bool {
	status := &p.node.Status
	switch n {
	case 9:
		status.VolumesInUse = append(status.VolumesInUse, corev1.UniqueVolumeName(v))
	case 10:
		var name string
		ok := peekName(v, &name)
		status.VolumesAttached = append(status.VolumesAttached, corev1.AttachedVolume{Name: corev1.UniqueVolumeName(name)})
		return ok
	}
	return true
}

type volumePeeker struct {
	pv  corev1.PersistentVolume
	csi corev1.CSIPersistentVolumeSource
}

func (p *volumePeeker) peek(raw []byte) (*corev1.PersistentVolume, bool) {
	p.pv, p.csi = corev1.PersistentVolume{}, corev1.CSIPersistentVolumeSource{}
	return &p.pv, fields(raw, func(n int32, v []byte) bool {
		switch n {
		case 1: // metadata
			return peekName(v, &p.pv.Name)
		case 2: // spec
			return fields(v, func(n int32, v []byte) bool {
				if n == 2 { // persistentVolumeSource
					return fields(v, p.source)
				}
				return true
			})
		}
		return true
	})
}

func (p *volumePeeker) source(n int32, v []byte) bool {
	if n != 22 {
		return true
	}
	p.pv.Spec.CSI = &p.csi
	return fields(v, func(n int32, v []byte) bool {
		switch n {
		case 1:
			p.csi.Driver = string(v)
		case 2:
			p.csi.VolumeHandle = string(v)
		}
		return true
	})
}

type claimPeeker struct{ claim corev1.PersistentVolumeClaim }

func (p *claimPeeker) peek(raw []byte) (*corev1.PersistentVolumeClaim, bool) {
	p.claim = corev1.PersistentVolumeClaim{}
	return &p.claim, fields(raw, func(n int32, v []byte) bool {
		switch n {
		case 1: // metadata
			return peekName(v, &p.claim.Name)
		case 2: // spec
			return fields(v, func(n int32, v []byte) bool {
				if n == 3 {
					p.claim.Spec.VolumeName = string(v)
				}
				return true
			})
		}
		return true
	})
}

// peekName reads the first field, which is the name in metadata and elsewhere.
func peekName(raw []byte, name *string) bool {
	return fields(raw, func(n int32, v []byte) bool {
		if n == 1 {
			*name = string(v)
		}
		return true
	})
}
