package storage

import (
	"strings"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/backend"
)

// stuck maps states, in a storage system's own words, of a volume that it attaches to nothing
// and that no attach or detach by the cluster causes. Where an attach does cause such a state,
// it lasts only seconds.
var stuck = map[backend.Format]map[string]string{
	backend.AWS:       {"error": "the volume has failed", "deleting": "the volume is being deleted"},
	backend.Azure:     {"activesas": "the disk is being exported", "activeupload": "the disk is being uploaded", "readytoupload": "the disk is being uploaded"},
	backend.Google:    {"failed": "the disk was not created", "deleting": "the disk is being deleted", "unavailable": "the disk is unavailable"},
	backend.OpenStack: {"error": "the volume has failed", "maintenance": "the volume is locked or migrated", "deleting": "the volume is being deleted", "error_deleting": "the volume was not deleted", "error_extending": "the volume was not extended", "error_restoring": "a backup was not restored"},
	backend.Longhorn:  {"faulted": "all replicas of the volume have failed", "deleting": "the volume is being deleted"},
}

// underWay maps the states of an attachment that is about to change.
var underWay = map[string]string{
	"busy":      "the machine still uses the volume and does not let go of it",
	"detaching": "the volume is being detached",
	"attaching": "the volume is being attached",
}

// Stuck describes what the storage system itself is doing, without an end, with a volume for
// which an attach was requested long before the list was taken; "" where there is nothing of
// the kind.
func (e *Entry) Stuck() string {
	if e == nil {
		return ""
	}
	if says := stuck[e.List.Format][strings.ToLower(e.Volume.State)]; says != "" {
		return says
	}
	for _, h := range e.Holders {
		if h.Since == nil && h.State == "attaching" || h.Since != nil && e.List.Taken.Sub(*h.Since) < facts.StuckDeleting {
			continue // the attacher's next attempt, or it has only begun
		}
		if says := underWay[h.State]; says != "" {
			return says + " (" + h.State + ")"
		}
	}
	return ""
}
