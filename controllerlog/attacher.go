package controllerlog

import (
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/backend"
)

// mismatch is what csi-attacher logs from 4.6 on, as an error, where the driver's list of
// volumes does not match a VolumeAttachment (csiHandler.ReconcileVA). It looks every
// --reconcile-sync, by default each minute, if the driver has the capability
// LIST_VOLUMES_PUBLISHED_NODES, and then asks the driver to attach or detach again. The
// fields are the same in 4.6 to 4.12, in klog's text and JSON formats.
const mismatch = "VolumeAttachment attached status and actual state do not match. Adding back to VolumeAttachment queue for forced reprocessing"

// mismatchText is the same as a warning in 2.1 to 4.5.
var mismatchText = regexp.MustCompile(`^VA (\S+) for volume (\S+) has attached status (true|false) but actual state (true|false)\. Adding back to VA queue for forced reprocessing\s*$`)

// ReadAttacher reads the log of csi-attacher, in what Read takes, to what the storage
// system said of single volumes on single nodes: of each VolumeAttachment the last. What
// the log does not say proves nothing. What was logged after now is left out. The name is
// for messages, and every error is one line.
func ReadAttacher(name string, r io.Reader, now time.Time) (*backend.List, error) {
	p := &parser{program: "csi-attacher", tooLong: ": give the last hour of it", now: now, zone: time.UTC}
	l := &backend.List{File: name, Format: backend.Attacher}
	last := map[string]heard{}
	for e, err := range p.entries(r) {
		switch {
		case err != nil:
			return nil, err
		case e.at.IsZero():
			continue
		case e.at.After(l.Taken):
			l.Taken = e.at.UTC()
		}
		if va, h, ok := e.mismatch(); ok && !h.At.Before(last[va].At) {
			last[va] = h
		}
		if len(last) > MaxPairs {
			return nil, fmt.Errorf("names more than %d VolumeAttachments", MaxPairs)
		}
	}
	if l.Taken.IsZero() {
		return nil, fmt.Errorf("all of it was logged after %s, when the objects were read", now.UTC().Format(time.RFC3339))
	}
	volumes := map[string][]backend.Said{}
	for _, va := range slices.Sorted(maps.Keys(last)) {
		h := last[va]
		volumes[h.handle] = append(volumes[h.handle], h.Said)
		if len(volumes[h.handle]) > backend.MaxAttachments {
			return nil, fmt.Errorf("names more than %d VolumeAttachments of one volume", backend.MaxAttachments)
		}
	}
	for handle, said := range volumes {
		l.Volumes = append(l.Volumes, backend.Volume{ID: handle, Silent: true, Said: said})
	}
	l.Sort()
	return l, nil
}

// heard is what the log says of a VolumeAttachment.
type heard struct {
	backend.Said
	handle string
}

// mismatch reads the line about a list that does not match a VolumeAttachment; false is
// any other.
func (e *entry) mismatch() (va string, h heard, ok bool) {
	var attached, found string
	words := mismatchText.FindStringSubmatch(e.msg)
	switch {
	case e.structured && e.msg == mismatch:
		va, h.handle, attached, found = e.value("VolumeAttachment"), e.value("volumeHandle"), e.truth("attachedStatus"), e.truth("found")
	case !e.structured && words != nil:
		va, h.handle, attached, found = words[1], words[2], words[3], words[4]
	default:
		return "", h, false
	}
	h.Said = backend.Said{VolumeAttachment: va, At: e.at.UTC(), Found: found == "true"}
	return va, h, attached != found && isTruth(attached) && isTruth(found) && attachmentName.MatchString(va) && backend.IsName(h.handle)
}

// attachmentName is the form of the names that the controller gives to VolumeAttachments
// of CSI volumes.
var attachmentName = regexp.MustCompile(`^csi-[0-9a-f]{64}$`)

func isTruth(text string) bool { return text == "true" || text == "false" }

// truth is the value of a key, for isTruth. A quoted value in JSON stays quoted.
func (e *entry) truth(key string) string {
	if e.values == nil {
		return e.value(key)
	}
	return string(e.values[key])
}
