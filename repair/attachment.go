package repair

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// What every repair of a VolumeAttachment needs.

func attachmentTarget(va *storagev1.VolumeAttachment) corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: storagev1.SchemeGroupVersion.String(), Kind: "VolumeAttachment",
		Name: va.Name, UID: va.UID, ResourceVersion: va.ResourceVersion,
	}
}

func patchAttachment(name string) Permission {
	return RightTo(VerbPatch, snapshot.VolumeAttachments, name)
}

// checkSameAttachment and checkSameVolume: an object that was deleted and recreated has
// another UID, and is not the one that was reviewed.
func checkSameAttachment(v *View, r *Repair) error { return checkSame(v, r, "VolumeAttachment") }

func checkSameVolume(v *View, r *Repair) error { return checkSame(v, r, "volume") }

func checkSame(v *View, r *Repair, kind string) error {
	now := v.Stored(r.Do.Target)
	switch {
	case now == nil:
		return fmt.Errorf("%s %s does not exist", kind, r.Do.Target.Name)
	case now.GetUID() != r.Do.Target.UID:
		return fmt.Errorf("%s %s is not the object that was examined: it was deleted and recreated", kind, now.GetName())
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
	if before, marked := object.GetAnnotations()[MarkAnnotation]; marked {
		image.Metadata.Annotations[MarkAnnotation] = before
	}
	return Compact(image)
}

func checkMark(object json.RawMessage, want string) error {
	var after markImage
	if err := json.Unmarshal(object, &after); err != nil {
		return fmt.Errorf("read the API server's answer: %w", err)
	}
	if got := after.Metadata.Annotations[MarkAnnotation]; got != want {
		return fmt.Errorf("the API server would store the annotation %q, not %q", got, want)
	}
	return nil
}

// undoNudge gives the annotation its old value back.
func undoNudge(w Written) (*Reversal, error) {
	f := w.Finding
	return undoMark(w, func(value string) bool {
		mark, _, nudged := splitNudge(value)
		return nudged && mark == markOf(Nudge, f.Code, f.Check)
	}, marked{
		kind:  "VolumeAttachment",
		reads: []snapshot.Kind{snapshot.VolumeAttachments},
		needs: patchAttachment,
		write: func(meta metav1.ObjectMeta, value *string) Operation {
			return annotation(&storagev1.VolumeAttachment{ObjectMeta: meta}, value)
		},
	})
}
