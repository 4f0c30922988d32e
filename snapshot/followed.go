package snapshot

import (
	"slices"
	"time"

	storagev1 "k8s.io/api/storage/v1"
)

// Followed is the history of the VolumeAttachments, as somebody saw it who watched them without a
// break: which were removed, and when an attacher wrote an error. A single reading of the objects
// shows neither. The times only give the order of these events; compare them only with each other.
type Followed struct {
	// Since is the time of the list with which the watch began.
	Since time.Time
	// Gone are the VolumeAttachments that were removed after Since, in the order of removal.
	Gone []GoneAttachment
	// Asked maps the name of a VolumeAttachment to the time at which the attachError before the
	// current one was written. An attacher makes one attempt after the other, so the attempt that
	// the current error answers began after that time. It only contains VolumeAttachments with two
	// observed errors.
	Asked map[string]time.Time
}

// GoneAttachment is a VolumeAttachment that was removed.
type GoneAttachment struct {
	Last *storagev1.VolumeAttachment
	At   time.Time
}

// Stood returns the last moment at which a VolumeAttachment may have existed that isOfKind accepts,
// if none exists now.
func (f *Followed) Stood(isOfKind func(*storagev1.VolumeAttachment) bool) time.Time {
	last := f.Since
	for _, gone := range slices.Backward(f.Gone) {
		if isOfKind(gone.Last) {
			return gone.At
		}
	}
	return last
}
