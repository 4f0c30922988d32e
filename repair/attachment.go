package repair

import (
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What every repair of a VolumeAttachment needs.

func attachmentTarget(va *storagev1.VolumeAttachment) corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: storagev1.SchemeGroupVersion.String(), Kind: "VolumeAttachment",
		Name: va.Name, UID: va.UID, ResourceVersion: va.ResourceVersion,
	}
}

func patchAttachment(name string) Permission {
	return Permission{Verb: VerbPatch, Group: storagev1.GroupName, Resource: "volumeattachments", Name: name}
}

// attachmentVersion is "" where the object is gone.
func attachmentVersion(v *View, name string) string {
	if va := v.Snapshot.VolumeAttachment(name); va != nil {
		return va.ResourceVersion
	}
	return ""
}

// checkSameAttachment: one that was deleted and made anew has another UID, and
// what was reviewed was not about it.
func checkSameAttachment(v *View, r *Repair) error {
	va := v.Snapshot.VolumeAttachment(r.Do.Target.Name)
	switch {
	case va == nil:
		return fmt.Errorf("VolumeAttachment %s does not exist", r.Do.Target.Name)
	case va.UID != r.Do.Target.UID:
		return fmt.Errorf("VolumeAttachment %s is not the object that was examined: it was deleted and made anew", va.Name)
	}
	return nil
}

func checkBeingDeleted(v *View, r *Repair) error {
	if va := v.Snapshot.VolumeAttachment(r.Do.Target.Name); va == nil || va.DeletionTimestamp == nil {
		return fmt.Errorf("VolumeAttachment %s is not being deleted", r.Do.Target.Name)
	}
	return nil
}

// annotation writes the mark of an object and nothing else.
func annotation(va *storagev1.VolumeAttachment, value *string) Operation {
	return Operation{Verb: VerbPatch, Target: attachmentTarget(va), Patch: annotate(va.ObjectMeta, value), Merge: true}
}

// markImage are the fields that annotate writes.
type markImage struct {
	Metadata struct {
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
}

func annotationImage(object metav1.Object) json.RawMessage {
	var image markImage
	image.Metadata.Annotations = map[string]string{}
	if before, marked := object.GetAnnotations()[markAnnotation]; marked {
		image.Metadata.Annotations[markAnnotation] = before
	}
	return compact(image)
}

func checkMark(object json.RawMessage, want string) error {
	var after markImage
	if err := json.Unmarshal(object, &after); err != nil {
		return fmt.Errorf("read the API server's answer: %w", err)
	}
	if got := after.Metadata.Annotations[markAnnotation]; got != want {
		return fmt.Errorf("the API server would store the annotation %q, not %q", got, want)
	}
	return nil
}

// undoNudge gives the annotation its old value back.
func undoNudge(w written) (*reversal, error) {
	var image markImage
	if err := json.Unmarshal(w.intent.PreImage, &image); err != nil {
		return nil, fmt.Errorf("read what was there before: %w", err)
	}
	target := w.intent.Operation.Target
	if target.Name == "" || target.UID == "" {
		return nil, errors.New("it does not say which object was written to")
	}
	before, had := image.Metadata.Annotations[markAnnotation]
	var value *string
	if had {
		value = &before
	}
	gone := func(v *View) bool {
		va := v.Snapshot.VolumeAttachment(target.Name)
		now, marked := "", false
		if va != nil {
			now, marked = va.Annotations[markAnnotation]
		}
		return va == nil || va.UID != target.UID || marked == had && now == before
	}
	return &reversal{
		summary: "take the annotation off VolumeAttachment " + target.Name,
		needs:   []Permission{patchAttachment(target.Name)},
		undone:  gone,
		prepare: func(v *View) (*write, error) {
			if gone(v) {
				return nil, &Refusal{guardGone, "the annotation is gone already, or the object with it"}
			}
			va := v.Snapshot.VolumeAttachment(target.Name)
			return &write{
				op:      annotation(va, value),
				intent:  Entry{PreImage: annotationImage(va)},
				check:   func(after json.RawMessage) error { return checkMark(after, before) },
				version: func(v *View) string { return attachmentVersion(v, target.Name) },
			}, nil
		},
	}, nil
}
