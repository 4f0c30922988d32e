package kubelettrace

import (
	"context"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/csidriver"
)

// ebsZone is the label that a translation uses for the zone of a volume of EBS
// (TranslateInTreePVToCSI, staging/src/k8s.io/csi-translation-lib/plugins/aws_ebs.go).
const ebsZone = "topology." + EBS + "/zone"

// startEBS starts the controller's half of EBS.
func startEBS(ctx context.Context, w *World) (*csidriver.Driver, error) {
	_, err := w.Client.StorageV1().CSIDrivers().Create(ctx, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: EBS}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, err
	}
	attacher, err := w.Cluster.AddDriver(ctx, EBS, metav1.NamespaceDefault)
	if err != nil {
		return nil, err
	}
	return attacher.Driver, nil
}

// migrated is the kind of a volume of EBS's in-tree plugin with a bound claim.
func migrated(name string, weight int, more variant) kind {
	return kind{"migrated: " + name, weight, func(d *drawnPod, volume string, r *rand.Rand) { d.bound(EBS, volume, r, more) }}
}

func ebs(handle string) *corev1.AWSElasticBlockStoreVolumeSource {
	return &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: handle, FSType: "ext4"}
}

// source is the source of the driver's volume.
func source(driver, handle string) corev1.PersistentVolumeSource {
	if driver == EBS {
		return corev1.PersistentVolumeSource{AWSElasticBlockStore: ebs(handle)}
	}
	return corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: handle, FSType: "ext4"}}
}
