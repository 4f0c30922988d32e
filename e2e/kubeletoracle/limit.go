//go:build linux && !upto_v1_33

package main

import (
	"errors"

	"k8s.io/kubernetes/pkg/kubelet/volumemanager"
)

// limitExceeded is the error with which a pod is rejected because the node is full, and
// the reason of that; nil where err is another.
func limitExceeded(err error) (reason string, full error) {
	if full := (*volumemanager.VolumeAttachLimitExceededError)(nil); errors.As(err, &full) {
		return volumemanager.VolumeAttachmentLimitExceededReason, full
	}
	return "", nil
}
