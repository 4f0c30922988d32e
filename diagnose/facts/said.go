package facts

import (
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// AttachError is what the last attempt to attach ended in, as far as it is about the
// objects that are there; nil where there is none. An error proves what it says for the
// moment at which it was given: one that is older than the VolumeAttachment, or than the
// node, its drivers or the volume that it names, is about others of that name, and one
// from before the volume's deletion is about a volume that was to stay.
func (v *View) AttachError(va *storagev1.VolumeAttachment) *storagev1.VolumeError {
	began := []metav1.Time{va.CreationTimestamp, v.nodeBegan(va)}
	if csiNode := v.Snapshot.CSINode(types.NodeName(va.Spec.NodeName)); csiNode != nil {
		began = append(began, csiNode.CreationTimestamp)
	}
	if pv := v.Snapshot.Volume(VolumeName(va)); pv != nil {
		began = append(began, pv.CreationTimestamp)
		if pv.DeletionTimestamp != nil {
			began = append(began, *pv.DeletionTimestamp)
		}
	}
	return saidSince(va.Status.AttachError, began)
}

// DetachError is the same for the last attempt to detach, which comes after the
// VolumeAttachment's deletion was asked for.
func (v *View) DetachError(va *storagev1.VolumeAttachment) *storagev1.VolumeError {
	began := []metav1.Time{va.CreationTimestamp, v.nodeBegan(va)}
	if va.DeletionTimestamp != nil {
		began = append(began, *va.DeletionTimestamp)
	}
	if pv := v.Snapshot.Volume(VolumeName(va)); pv != nil {
		began = append(began, pv.CreationTimestamp)
	}
	return saidSince(va.Status.DetachError, began)
}

func (v *View) nodeBegan(va *storagev1.VolumeAttachment) metav1.Time {
	if node := v.Snapshot.Node(types.NodeName(va.Spec.NodeName)); node != nil {
		return node.CreationTimestamp
	}
	return metav1.Time{}
}

func saidSince(e *storagev1.VolumeError, began []metav1.Time) *storagev1.VolumeError {
	if e == nil {
		return nil
	}
	for _, at := range began {
		if e.Time.Time.Before(at.Time) {
			return nil
		}
	}
	return e
}

// StillRefused reports whether an attacher that lives would have asked again since the
// error was given, had it not been the answer to its latest attempt.
func (v *View) StillRefused(e *storagev1.VolumeError) bool {
	return e != nil && v.Age(e.Time) <= AttacherRetries
}

// AsksAgainBy is when the attacher that gave the error has made its next attempt.
func (v *View) AsksAgainBy(e *storagev1.VolumeError) metav1.Time {
	by := metav1.NewTime(e.Time.Add(AttacherMaxBackoff))
	if by.Before(&metav1.Time{Time: v.Snapshot.TakenAt}) {
		by = metav1.NewTime(e.Time.Add(AttacherRetries))
	}
	return by
}

// RefusedAlone reports whether the attempt that the VolumeAttachment's error answers began
// after the last one of those of its volume that are gone went. Until then what the driver
// says of another machine may be about a detach that has succeeded since. That takes
// somebody who follows the VolumeAttachments: those that are there do not tell it.
func (v *View) RefusedAlone(va Attachment) bool {
	followed := v.Snapshot.Followed
	if followed == nil {
		return false
	}
	name := VolumeName(va.VolumeAttachment)
	stood := followed.Stood(func(gone *storagev1.VolumeAttachment) bool {
		if gone.Spec.Attacher != va.Spec.Attacher {
			return false
		}
		volume, err := v.World.AttachmentVolume(gone)
		return err != nil || volume == va.Volume || name != "" && VolumeName(gone) == name
	})
	asked, known := followed.Asked[va.Name]
	return known && asked.After(stood)
}

// FollowFor is how long the VolumeAttachments have to be followed until RefusedAlone
// tells: two attempts at the attacher's longest back-off, and their calls.
const FollowFor = AttacherRetries + time.Minute
