package snapshot

import (
	"slices"
	"time"

	storagev1 "k8s.io/api/storage/v1"
)

// Followed is what somebody has seen of the VolumeAttachments who has followed them
// without a break: which of them went, and when an attacher wrote a refusal. One look at
// the objects shows neither. Its times say in which order that was seen, and are to be held
// against each other alone.
type Followed struct {
	// Since is when the list was read that it began with.
	Since time.Time
	// Gone are those that have gone since then, in that order.
	Gone []GoneAttachment
	// Asked has, by the name of a VolumeAttachment, when the attachError before the
	// present one was seen to be written. An attacher makes one attempt after the other:
	// the one that the present error answers began after that. Only VolumeAttachments that
	// were seen to be refused twice are in it.
	Asked map[string]time.Time
}

// GoneAttachment is a VolumeAttachment that is no more.
type GoneAttachment struct {
	Last *storagev1.VolumeAttachment
	At   time.Time
}

// Stood is the last moment at which any VolumeAttachment of the kind that now is not there
// can have stood.
func (f *Followed) Stood(isOfKind func(*storagev1.VolumeAttachment) bool) time.Time {
	last := f.Since
	for _, gone := range slices.Backward(f.Gone) {
		if isOfKind(gone.Last) {
			return gone.At
		}
	}
	return last
}
