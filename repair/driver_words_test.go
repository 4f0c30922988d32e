package repair

import (
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
	storagev1 "k8s.io/api/storage/v1"
)

// TestDriversWords: only words that say that the volume is detached count as such.
func TestDriversWords(t *testing.T) {
	for message, detached := range map[string]bool{
		"volume vol-1 is not attached to node i-n1":                   true,
		"Volume is already detached":                                  true,
		"rpc error: code = NotFound desc = volume not found":          true,
		"InvalidVolume.NotFound: The volume 'vol-1' does not exist.":  true,
		"IncorrectState: Volume 'vol-1' is in the 'available' state.": true,
		"disk with id 4711 could not be found":                        true,
		"no such volume":                                              true,
		"":                                                            false,
		"device is busy":                                              false,
		"volume vol-1 is in use":                                      false,
		"volume vol-1 is still mounted; it was not found in the list of those to be detached": false,
		"instance i-n1 not found":            false,
		"volume vol-1: node i-n1 not found":  false,
		"the volume's secret does not exist": false,
		"context deadline exceeded":          false,
		"permission denied":                  false,
		"volume vol-1 is not attached to i-n1: it is currently attached to i-n2":                  false,
		"failed to detach volume vol-1: detach operation not found, volume is in state detaching": false,
	} {
		va := &storagev1.VolumeAttachment{}
		va.Name, va.UID, va.Status.DetachError = "csi-1", "u1", &storagev1.VolumeError{Message: message}
		v := Look(snapshot.New(epoch, snapshot.Source{}, snapshot.Objects{VolumeAttachments: []*storagev1.VolumeAttachment{va}}, nil), diagnose.Options{}, Consent{})
		r := &Repair{Do: Operation{Target: refTo(snapshot.VolumeAttachments, va)}}
		if err := checkSaysDetached(v, r); (err == nil) != detached {
			t.Errorf("%q: %v", message, err)
		}
	}
}
