package history

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	volumeutil "k8s.io/kubernetes/pkg/volume/util"
)

// The deeds of this file change by hand what a pod's volume is looked up by, while the pod
// runs. A controller at work keeps what it knows of the pod; one that starts reads anew.

// byHand are those deeds. A quarter of the random histories has one of them.
var byHand = []string{"edit the claimRef", "edit the access modes", "delete the CSIDriver", "take the annotation", "delete the claim", "delete the volume"}

func editClaimRef(pv *corev1.PersistentVolume) { pv.Spec.ClaimRef.UID = "another" }

func editModes(pv *corev1.PersistentVolume) {
	pv.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
}

// changeVolume changes the PersistentVolume of the claim. Undone, its spec is as it was.
func changeVolume(change func(*corev1.PersistentVolume)) deed {
	return func(w *World, s Step) (func(*World) error, error) {
		pv, err := w.volumeOf(s.Claim)
		if err != nil || pv.Spec.ClaimRef == nil {
			return nil, err
		}
		before := pv.DeepCopy()
		set := func(change func(*corev1.PersistentVolume)) error {
			return retry.RetryOnConflict(retry.DefaultRetry, func() error {
				now, err := w.client.CoreV1().PersistentVolumes().Get(w.ctx, pv.Name, metav1.GetOptions{})
				if err != nil {
					return err
				}
				change(now)
				_, err = w.client.CoreV1().PersistentVolumes().Update(w.ctx, now, metav1.UpdateOptions{})
				return err
			})
		}
		return func(*World) error {
			return set(func(now *corev1.PersistentVolume) {
				now.Spec.ClaimRef.UID, now.Spec.AccessModes = before.Spec.ClaimRef.UID, before.Spec.AccessModes
			})
		}, set(change)
	}
}

// deleteCSIDriver deletes the driver's object, as an installer does that replaces it.
func deleteCSIDriver(w *World, _ Step) (func(*World) error, error) {
	drivers := w.client.StorageV1().CSIDrivers()
	before, err := drivers.Get(w.ctx, DriverName, metav1.GetOptions{})
	if err != nil {
		return nil, errNothing
	}
	return func(w *World) error {
		again := before.DeepCopy()
		again.ObjectMeta = metav1.ObjectMeta{Name: before.Name}
		_, err := drivers.Create(w.ctx, again, metav1.CreateOptions{})
		return err
	}, drivers.Delete(w.ctx, DriverName, metav1.DeleteOptions{})
}

func takeAnnotation(w *World, s Step) (func(*World) error, error) {
	set := func(managed bool) error {
		return w.changeNode(s.Node, false, func(n *corev1.Node) {
			if delete(n.Annotations, volumeutil.ControllerManagedAttachAnnotation); managed {
				metav1.SetMetaDataAnnotation(&n.ObjectMeta, volumeutil.ControllerManagedAttachAnnotation, "true")
			}
		})
	}
	return func(*World) error { return set(true) }, set(false)
}

var noFinalizers = []byte(`{"metadata":{"finalizers":null}}`)

// deleteClaim deletes the claim although its pod runs.
func deleteClaim(w *World, s Step) (func(*World) error, error) {
	undo, err := w.dropClaim(s.Claim)
	if err != nil {
		return nil, err
	}
	_, err = w.client.CoreV1().PersistentVolumeClaims(Namespace).Patch(w.ctx, s.Claim, types.MergePatchType, noFinalizers, metav1.PatchOptions{})
	return undo, err
}

// dropClaim deletes the claim. Undone, it is made again where nobody has, and gets another volume.
func (w *World) dropClaim(name string) (undo func(*World) error, err error) {
	claims := w.client.CoreV1().PersistentVolumeClaims(Namespace)
	c, err := claims.Get(w.ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	again := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: c.Spec}
	again.Spec.VolumeName = ""
	return func(w *World) error {
		_, err := claims.Create(w.ctx, again, metav1.CreateOptions{})
		return ignoreExists(err)
	}, claims.Delete(w.ctx, name, metav1.DeleteOptions{})
}

// deleteVolume deletes the PersistentVolume although its claim is bound to it.
func deleteVolume(w *World, s Step) (func(*World) error, error) {
	pv, err := w.volumeOf(s.Claim)
	if err != nil {
		return nil, err
	}
	volumes := w.client.CoreV1().PersistentVolumes()
	if err := volumes.Delete(w.ctx, pv.Name, metav1.DeleteOptions{}); err != nil {
		return nil, err
	}
	_, err = volumes.Patch(w.ctx, pv.Name, types.MergePatchType, noFinalizers, metav1.PatchOptions{})
	return nil, err
}
