// Package apply carries repairs out and takes them back: one write at a time, each
// on objects just read, guarded, journaled and then looked at again.
//
// The order of safety stands in one place, [Applier].
package apply

import (
	"context"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// Cluster is everything that a repair needs from an API server.
type Cluster interface {
	// Snapshot reads the objects as they are now: no answer may be older than
	// the call.
	Snapshot(ctx context.Context) (*snapshot.Snapshot, error)
	// Near reads, as they are now, the few objects that a write is about; s is the last
	// snapshot. It fails unless it has read them all.
	Near(ctx context.Context, s *snapshot.Snapshot, near repair.Near) (repair.Nearby, error)
	// Do makes one write and returns the resulting object as JSON. A dry run does everything
	// but store it. Its errors wrap those of package repair.
	Do(ctx context.Context, op repair.Operation, dryRun bool) (after json.RawMessage, err error)
	// Can returns the permissions that the user lacks among those wanted.
	Can(ctx context.Context, wanted []repair.Permission) (missing []repair.Permission, err error)
	// Announce writes an event about an object.
	Announce(ctx context.Context, about corev1.ObjectReference, note Note) error
}

// Note is the text of an event.
type Note struct {
	Reason  string // CamelCase
	Message string
}
