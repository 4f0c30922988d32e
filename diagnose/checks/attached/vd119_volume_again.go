package attached

import (
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/storage"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// vaPVMissingAdvice is about a disk that may still be attached: the attacher detaches it once the
// PersistentVolume is back. The command recreates it, where the objects show all that the
// attacher needs and nothing on the node uses the disk.
func vaPVMissingAdvice(p *facts.View, va *storagev1.VolumeAttachment, name string) (advice string, commands []string) {
	if !facts.AttacherHolds(va) {
		return "{check} make sure that no pod on the node uses the disk, and see whether the storage system shows it detached", nil
	}
	then := "the attacher then detaches the disk, and the VolumeAttachment goes"
	if va.DeletionTimestamp == nil {
		then = "diagnose then shows how the VolumeAttachment is detached"
	}
	if err := usesDisk(p, va, name); err != nil {
		return fmt.Sprintf("{note} %s; {do} {change} make PersistentVolume %s again: %s", err, name, then), nil
	}
	pv, err := volumeAgain(p, va, name)
	if err != nil {
		return fmt.Sprintf("{check} %s; {do} {change} make PersistentVolume %s again, with driver %s, the disk's volumeHandle and the reclaim policy Retain: %s",
			err, name, va.Spec.Attacher, then), nil
	}
	manifest, err := manifestOf(pv)
	if err != nil {
		return fmt.Sprintf("{change} make PersistentVolume %s again: %s", name, then), nil
	}
	return fmt.Sprintf("{change} make PersistentVolume %s again, with reclaim policy Retain: %s. No object tells its fsType, volumeAttributes, mountOptions and Secrets: %s. "+
		"Only where the storage system shows that the disk is not attached to node %s: --apply --allow=strip-finalizer --detached=%s",
		name, then, publishSecret(p, va.Spec.Attacher), va.Spec.NodeName, va.Name), []string{safetext.KubectlWithInput(manifest, "create", "-f", "-")}
}

// usesDisk is who may have the disk mounted, and what to do about that first: the attacher asks
// neither the kubelet nor the pods. All VolumeAttachments of the volume that are being deleted
// count, because all are detached then.
func usesDisk(p *facts.View, va *storagev1.VolumeAttachment, name string) error {
	if err := p.StillUsed(va); err != nil {
		return err
	}
	for _, other := range p.AttachmentsNaming(name) {
		if other.Name == va.Name || other.DeletionTimestamp == nil {
			continue
		}
		if err := p.StillUsed(other); err != nil {
			return err
		}
	}
	return nil
}

// volumeAgain is the PersistentVolume as the attacher needs it to detach: it reads the
// volumeHandle and the Secret for publishing, and takes the node from the CSINode or from its
// note on the VolumeAttachment (external-attacher, csiDetach). The volume is bound to the one
// claim that names it, or to a claim that cannot exist, so that nobody else gets the disk.
func volumeAgain(p *facts.View, va *storagev1.VolumeAttachment, name string) (*corev1.PersistentVolume, error) {
	handle, err := handleOf(p, va)
	if err != nil {
		return nil, err
	}
	for _, other := range p.Snapshot.Volumes {
		if driver, disk, ok := (&reconcile.VolumeSpec{PV: other}).CSI(); ok && driver == va.Spec.Attacher && disk == handle {
			return nil, fmt.Errorf("find out why PersistentVolume %s has the same disk, and whether that is attached elsewhere", other.Name)
		}
	}
	claims := p.ClaimsNaming(name)
	if len(claims) > 1 {
		return nil, fmt.Errorf("find out which of %d claims has the volume %s", len(claims), name)
	}
	pv := &corev1.PersistentVolume{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"}, ObjectMeta: metav1.ObjectMeta{Name: name}}
	pv.Spec = corev1.PersistentVolumeSpec{
		// The API server requires these two fields; the attacher reads neither.
		Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},

		PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
		PersistentVolumeSource:        corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: va.Spec.Attacher, VolumeHandle: handle}},
		ClaimRef: &corev1.ObjectReference{
			APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: metav1.NamespaceDefault, Name: "only-to-detach", UID: va.UID,
		},
	}
	if len(claims) == 1 {
		claim := claims[0]
		pv.Spec.ClaimRef.Namespace, pv.Spec.ClaimRef.Name, pv.Spec.ClaimRef.UID = claim.Namespace, claim.Name, claim.UID
		pv.Spec.VolumeMode = claim.Spec.VolumeMode
		if class := claim.Spec.StorageClassName; class != nil {
			pv.Spec.StorageClassName = *class
		}
		if len(claim.Spec.AccessModes) > 0 {
			pv.Spec.AccessModes = claim.Spec.AccessModes
		}
		size := claim.Spec.Resources.Requests[corev1.ResourceStorage]
		if had, ok := claim.Status.Capacity[corev1.ResourceStorage]; ok {
			size = had
		}
		if !size.IsZero() {
			pv.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: size}
		}
	}
	return pv, nil
}

// handleOf is the disk's handle. The name of the VolumeAttachment is a hash of it, which
// identifies the handle in the lists of the node and of the storage system.
func handleOf(p *facts.View, va *storagev1.VolumeAttachment) (string, error) {
	if name, ok := p.NodeHandle(va); ok {
		_, handle, _ := reconcile.ParseCSI(name)
		return handle, nil
	}
	if e := storage.Of(p).Attachment(va); e != nil && reconcile.IsVolumeAttachmentName(va.Name, e.Volume.ID, va.Spec.Attacher, types.NodeName(va.Spec.NodeName)) {
		return e.Volume.ID, nil
	}
	return "", errors.New("find the disk at the storage system")
}

// publishSecret describes the Secret that the driver may want for a detach.
func publishSecret(p *facts.View, driver string) string {
	for _, pv := range p.Snapshot.Volumes {
		if pv.Spec.CSI != nil && pv.Spec.CSI.Driver == driver && pv.Spec.CSI.ControllerPublishSecretRef != nil {
			ref := pv.Spec.CSI.ControllerPublishSecretRef
			return fmt.Sprintf("volume %s of the driver has the controllerPublishSecretRef %s/%s, without which a detach may fail; then delete this PersistentVolume "+
				"and make it with that one", pv.Name, ref.Namespace, ref.Name)
		}
	}
	return "a driver that wants a controllerPublishSecretRef refuses the detach without it, and nothing is lost"
}

// manifestOf is the object as kubectl takes it.
func manifestOf(pv *corev1.PersistentVolume) (string, error) {
	object := map[string]any{"apiVersion": pv.APIVersion, "kind": pv.Kind, "metadata": map[string]string{"name": pv.Name}, "spec": pv.Spec}
	text, err := json.Marshal(object)
	return string(text), err
}
