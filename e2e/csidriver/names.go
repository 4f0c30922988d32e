package csidriver

import (
	"crypto/sha256"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// UniqueName is the name of a CSI volume in a node's volumesInUse and
// volumesAttached.
func UniqueName(driver, handle string) corev1.UniqueVolumeName {
	return corev1.UniqueVolumeName(fmt.Sprintf("kubernetes.io/csi/%s^%s", driver, handle))
}

// AttachmentName is the name that the attach/detach controller gives to the
// VolumeAttachment of a CSI volume on a node.
func AttachmentName(driver, handle, node string) string {
	return fmt.Sprintf("csi-%x", sha256.Sum256([]byte(handle+driver+node)))
}
