package repair

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var touchVolume = action{
	kind:  TouchVolume,
	risk:  RiskLow,
	codes: []finding.Code{"VD503"},
	needs: []Permission{RightTo(VerbPatch, snapshot.Volumes, "")},
	guards: []Guard{
		findingGuard,
		sameVolumeGuard,
		volumeDeletingGuard,
		noAttachmentGuard,
		onlyAttachersGuard,
		attacherOfVolumeGuard,
		notTouchedYetGuard,
	},
	propose: proposeTouch,
	undo:    func(w Written) (*Reversal, error) { return undoMark(w, snapshot.Volumes, "volume") },
}

// proposeTouch makes any change to a persistent volume, which has the attacher look at it
// again. The attacher itself takes its finalizer off a volume that is being deleted and that
// no VolumeAttachment names (external-attacher, SyncPV).
func proposeTouch(v *View, f finding.Finding) (Repair, error) {
	pv := v.Snapshot.Volume(f.PersistentVolume)
	if pv == nil {
		return Repair{}, fmt.Errorf("PersistentVolume %q: %w", f.PersistentVolume, ErrNotFound)
	}
	r := marking(snapshot.Volumes, pv, markOf(TouchVolume, f.Code, f.Check))
	r.SoThat = "the attacher looks at the volume again"
	return r, nil
}

// volumeOf is the volume that the repair writes to; empty where it is gone.
func volumeOf(v *View, r *Repair) *corev1.PersistentVolume {
	if pv := v.Snapshot.Volume(r.Do.Target.Name); pv != nil {
		return pv
	}
	return &corev1.PersistentVolume{}
}

func checkVolumeDeleting(v *View, r *Repair) error {
	if pv := volumeOf(v, r); pv.DeletionTimestamp == nil {
		return fmt.Errorf("volume %s is not being deleted: the finalizer is right on it", r.Do.Target.Name)
	}
	return nil
}

// checkNoAttachment: the attacher looks only for the volume's name. A VolumeAttachment that
// names another PersistentVolume with the same disk is the same attachment to the driver.
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

// checkOnlyAttachersFinalizer: other finalizers have owners of their own, and the volume
// would stay whatever the attacher does.
func checkOnlyAttachersFinalizer(v *View, r *Repair) error {
	pv := volumeOf(v, r)
	for _, finalizer := range pv.Finalizers {
		if !strings.HasPrefix(finalizer, reconcile.AttacherFinalizerPrefix) {
			return fmt.Errorf("volume %s has the finalizer %s too, which is not the attacher's", pv.Name, finalizer)
		}
	}
	return nil
}

// checkAttacherOfVolume: only the attacher takes the finalizer off.
func checkAttacherOfVolume(v *View, r *Repair) error {
	pv := volumeOf(v, r)
	if driver, _, _ := (&reconcile.VolumeSpec{PV: pv}).CSI(); driver != "" {
		return attacherAtWork(v, driver)
	}
	for _, driver := range v.Facts.InstalledDrivers() { // a volume of an in-tree plugin names none
		if slices.Contains(pv.Finalizers, reconcile.AttacherFinalizer(driver)) {
			return attacherAtWork(v, driver)
		}
	}
	return fmt.Errorf("volume %s names no CSI driver, and no driver that is installed has the attacher of its finalizer", pv.Name)
}

// checkNotTouchedYet: an attacher that has looked and left its finalizer in place will do the
// same again, and setting an annotation to its present value changes nothing.
func checkNotTouchedYet(v *View, r *Repair) error {
	pv := volumeOf(v, r)
	if pv.Annotations[MarkAnnotation] == markOf(TouchVolume, r.Finding.Code, r.Finding.Check) {
		return fmt.Errorf("volume %s was touched before, and its attacher has left the finalizer on it", pv.Name)
	}
	return nil
}
