package repair

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var touchVolume = rung{
	kind:    TouchVolume,
	codes:   []diagnose.Code{"VD503"},
	needs:   []Permission{patchVolume("")},
	propose: proposeTouch,
	undo:    undoTouch,
}

// touchReads are the kinds that tell whether a volume is attached, and whether
// an attacher would look.
var touchReads = []snapshot.Kind{snapshot.Volumes, snapshot.VolumeAttachments, snapshot.Leases, snapshot.CSIDrivers, snapshot.CSINodes}

var touchGuards = []Guard{
	completeGuard(touchReads),
	findingGuard,
	{"same-volume", checkSameVolume},
	{"volume-deleting", checkVolumeDeleting},
	{"no-attachment", checkNoAttachment},
	{"only-finalizer", checkOnlyAttachersFinalizer},
	{"attacher-at-work", checkAttacherOfVolume},
	{"not-touched-yet", checkNotTouchedYet},
}

// proposeTouch has the attacher look at a persistent volume again: any change
// of it does. The attacher itself takes its finalizer off a volume that is being
// deleted and that no VolumeAttachment names (external-attacher, SyncPV).
func proposeTouch(v *View, f diagnose.Finding) (Repair, error) {
	pv := v.Snapshot.Volume(f.PersistentVolume)
	if pv == nil {
		return Repair{}, fmt.Errorf("PersistentVolume %q: %w", f.PersistentVolume, ErrNotFound)
	}
	value := markOf(TouchVolume, f.Code, f.Check)
	undo := touch(pv, nil)
	return Repair{
		Summary:  "have the attacher look at volume " + pv.Name + " again",
		Risk:     RiskLow,
		Do:       touch(pv, &value),
		Undo:     &undo,
		PreImage: annotationImage(pv),
		Guards:   slices.Clone(touchGuards),
		Needs:    []Permission{patchVolume(pv.Name)},
		reads:    touchReads,
		again:    func(v *View) (Repair, error) { return proposeTouch(v, f) },
		stands: func(v *View) bool {
			now := v.Snapshot.Volume(pv.Name)
			return now == nil || now.UID != pv.UID || now.Annotations[markAnnotation] == value
		},
		version: func(v *View) string { return volumeVersion(v, pv.Name) },
		check:   func(after json.RawMessage) error { return checkMark(after, value) },
	}, nil
}

func touch(pv *corev1.PersistentVolume, value *string) Operation {
	return Operation{
		Verb: VerbPatch,
		Target: corev1.ObjectReference{
			APIVersion: "v1", Kind: "PersistentVolume", Name: pv.Name, UID: pv.UID, ResourceVersion: pv.ResourceVersion,
		},
		Patch: annotate(pv.ObjectMeta, value), Merge: true,
	}
}

func patchVolume(name string) Permission {
	return Permission{Verb: VerbPatch, Resource: "persistentvolumes", Name: name}
}

// volumeVersion is "" where the volume is gone.
func volumeVersion(v *View, name string) string {
	if pv := v.Snapshot.Volume(name); pv != nil {
		return pv.ResourceVersion
	}
	return ""
}

// volumeOf is the volume that the repair writes to, empty where it is gone.
func volumeOf(v *View, r *Repair) *corev1.PersistentVolume {
	if pv := v.Snapshot.Volume(r.Do.Target.Name); pv != nil {
		return pv
	}
	return &corev1.PersistentVolume{}
}

func checkSameVolume(v *View, r *Repair) error {
	pv := v.Snapshot.Volume(r.Do.Target.Name)
	switch {
	case pv == nil:
		return fmt.Errorf("volume %s does not exist", r.Do.Target.Name)
	case pv.UID != r.Do.Target.UID:
		return fmt.Errorf("volume %s is not the object that was examined: it was deleted and made anew", pv.Name)
	}
	return nil
}

func checkVolumeDeleting(v *View, r *Repair) error {
	if pv := volumeOf(v, r); pv.DeletionTimestamp == nil {
		return fmt.Errorf("volume %s is not being deleted: the finalizer is right on it", r.Do.Target.Name)
	}
	return nil
}

// checkNoAttachment: the attacher asks by the volume's name alone. One that is
// for the same disk by another volume is the same attachment to the driver.
func checkNoAttachment(v *View, r *Repair) error {
	pv := volumeOf(v, r)
	probe := &storagev1.VolumeAttachment{Spec: storagev1.VolumeAttachmentSpec{Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &pv.Name}}}
	probe.Spec.Attacher, _, _ = (&reconcile.VolumeSpec{PV: pv}).CSI()
	any := func(*storagev1.VolumeAttachment) bool { return true }
	va := v.attachment(aboutOf(v, probe), any, func(va *storagev1.VolumeAttachment) bool {
		name, _ := sourceVolume(v, va)
		return name != "" && name == pv.Name || sameVolume(v, probe, va)
	})
	if va != nil {
		return fmt.Errorf("VolumeAttachment %s is for the volume", va.Name)
	}
	return nil
}

// checkOnlyAttachersFinalizer: others have owners of their own, and the volume
// would not go for all that the attacher does.
func checkOnlyAttachersFinalizer(v *View, r *Repair) error {
	pv := volumeOf(v, r)
	for _, finalizer := range pv.Finalizers {
		if !strings.HasPrefix(finalizer, "external-attacher/") {
			return fmt.Errorf("volume %s has the finalizer %s too, which is not the attacher's", pv.Name, finalizer)
		}
	}
	return nil
}

// checkAttacherOfVolume: nobody else takes the finalizer off.
func checkAttacherOfVolume(v *View, r *Repair) error {
	driver, _, _ := (&reconcile.VolumeSpec{PV: volumeOf(v, r)}).CSI()
	return attacherAtWork(v, driver)
}

// checkNotTouchedYet: an attacher that has looked and left its finalizer where
// it is does the same the next time, and an annotation with the value that it
// has already changes nothing.
func checkNotTouchedYet(v *View, r *Repair) error {
	pv := volumeOf(v, r)
	if pv.Annotations[markAnnotation] == markOf(TouchVolume, r.Finding.Code, r.Finding.Check) {
		return fmt.Errorf("volume %s was touched before, and its attacher has left the finalizer on it", pv.Name)
	}
	return nil
}

// undoTouch gives the annotation its old value back.
func undoTouch(w written) (*reversal, error) {
	var image markImage
	if err := json.Unmarshal(w.intent.PreImage, &image); err != nil {
		return nil, fmt.Errorf("read what was there before: %w", err)
	}
	target := w.intent.Operation.Target
	if target.Name == "" || target.UID == "" {
		return nil, errors.New("it does not say which volume was written to")
	}
	written := markOf(w.intent.Repair, w.intent.Finding.Code, w.intent.Finding.Check)
	before, had := image.Metadata.Annotations[markAnnotation]
	var value *string
	if had {
		value = &before
	}
	undone := func(v *View) bool {
		pv := v.Snapshot.Volume(target.Name)
		return pv == nil || pv.UID != target.UID || pv.Annotations[markAnnotation] != written
	}
	return &reversal{
		summary: "take the annotation off volume " + target.Name,
		needs:   []Permission{patchVolume(target.Name)},
		undone:  undone,
		prepare: func(v *View) (*write, error) {
			if err := complete(v.Snapshot, []snapshot.Kind{snapshot.Volumes}); err != nil {
				return nil, &Refusal{guardComplete, err.Error()}
			}
			if undone(v) {
				return nil, &Refusal{guardGone, "the annotation is gone already, or the volume with it"}
			}
			pv := v.Snapshot.Volume(target.Name)
			return &write{
				op:      touch(pv, value),
				intent:  Entry{PreImage: annotationImage(pv)},
				check:   func(after json.RawMessage) error { return checkMark(after, before) },
				version: func(v *View) string { return volumeVersion(v, target.Name) },
			}, nil
		},
	}, nil
}
