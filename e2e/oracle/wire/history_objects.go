package wire

import (
	"crypto/sha256"
	"encoding/hex"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The names that all objects of histories share. A volume, its claim and its
// handle have one name.
const (
	Namespace = "default"
	Driver    = "disk.csi"
)

// UniqueName is the controller's name of the volume.
func UniqueName(volume string) corev1.UniqueVolumeName {
	return corev1.UniqueVolumeName("kubernetes.io/csi/" + Driver + "^" + volume)
}

// HistoryNode is a node that is Ready and has nothing attached.
func HistoryNode(name string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("node-" + name), Annotations: map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true"}},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
}

// HistoryPod is a pod that runs and wants the volume.
func HistoryPod(name, node, volume string, uid types.UID) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name, UID: uid},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{
			Name: "app", VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
		}}, Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: volume},
		}}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

// HistoryVolume is a volume with these access modes, and its claim.
func HistoryVolume(name string, modes ...corev1.PersistentVolumeAccessMode) (*corev1.PersistentVolume, *corev1.PersistentVolumeClaim) {
	uid := types.UID("claim-" + name)
	return &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PersistentVolumeSpec{
				AccessModes:            modes,
				ClaimRef:               &corev1.ObjectReference{Namespace: Namespace, Name: name, UID: uid},
				PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: Driver, VolumeHandle: name}},
			},
		}, &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name, UID: uid},
			Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: name, AccessModes: modes},
			Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
		}
}

// HistoryAttachment is the VolumeAttachment that the controller makes for the pair.
func HistoryAttachment(volume, node string) *storagev1.VolumeAttachment {
	sum := sha256.Sum256([]byte(volume + Driver + node))
	return &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: "csi-" + hex.EncodeToString(sum[:]), Finalizers: []string{"external-attacher/disk-csi"}},
		Spec:       storagev1.VolumeAttachmentSpec{Attacher: Driver, NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume}},
	}
}
