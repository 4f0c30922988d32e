package cluster

import (
	"context"
	"slices"
	"sync"
	"time"

	storagev1 "k8s.io/api/storage/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// keptGone bounds how many deleted VolumeAttachments are remembered. Beyond it the oldest are
// forgotten, as if the list had been read after their deletion.
const keptGone = 10000

// witness notes the changes of VolumeAttachments while they are watched, and when it learns
// of them. Only the order counts in which the API server's watch reports them.
type witness struct {
	mu    sync.Mutex
	since time.Time
	gone  []snapshot.GoneAttachment
	// said and asked are the times at which the present attachError of a VolumeAttachment,
	// and the one before it, were seen to be written.
	said, asked map[string]time.Time
}

// began forgets everything: a list was read, and earlier changes were not seen.
func (w *witness) began() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.since, w.gone, w.said, w.asked = time.Now(), nil, map[string]time.Time{}, map[string]time.Time{}
}

// saw notes a change of a VolumeAttachment: before is nil where it was created, now is nil
// where it was deleted.
func (w *witness) saw(before, now *storagev1.VolumeAttachment) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.since.IsZero() {
		return
	}
	at := time.Now()
	if before != nil && (now == nil || now.UID != before.UID) {
		w.gone = append(w.gone, snapshot.GoneAttachment{Last: before, At: at})
		if len(w.gone) > keptGone {
			w.since, w.gone = w.gone[0].At, slices.Clone(w.gone[1:])
		}
		delete(w.said, before.Name)
		delete(w.asked, before.Name)
		before = nil
	}
	if now == nil || now.Status.AttachError == nil || before != nil && before.Status.AttachError != nil &&
		before.Status.AttachError.Time.Equal(&now.Status.AttachError.Time) {
		return
	}
	if said, known := w.said[now.Name]; known {
		w.asked[now.Name] = said
	}
	w.said[now.Name] = at
}

// followed has the observations for a snapshot with the listed VolumeAttachments; held are
// those that are watched. It is nil while none is watched.
func (w *witness) followed(listed, held []*storagev1.VolumeAttachment) *snapshot.Followed {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.since.IsZero() {
		return nil
	}
	f := &snapshot.Followed{Since: w.since, Gone: slices.Clone(w.gone), Asked: map[string]time.Time{}}
	there := map[string]*storagev1.VolumeAttachment{}
	for _, va := range listed {
		there[va.Name] = va
	}
	for _, va := range held {
		now := there[va.Name]
		if now == nil || now.UID != va.UID { // its deletion is about to be seen
			f.Gone = append(f.Gone, snapshot.GoneAttachment{Last: va, At: time.Now()})
			continue
		}
		if asked, known := w.asked[va.Name]; known && now.Status.AttachError != nil && va.Status.AttachError != nil &&
			now.Status.AttachError.Time.Equal(&va.Status.AttachError.Time) {
			f.Asked[va.Name] = asked
		}
	}
	return f
}

// FollowAttachments watches the VolumeAttachments until the context ends; the snapshots from
// then on carry these observations. Where they may not be watched, the snapshots stay as they
// were.
func (c *Cluster) FollowAttachments(ctx context.Context) {
	if c.attachments != nil {
		return
	}
	w := &Watch{Cluster: c, changed: make(chan struct{}, 1)}
	for _, k := range kinds {
		if k.name() == snapshot.VolumeAttachments {
			w.kinds = append(w.kinds, k.follow(w))
		}
	}
	c.attachments = w
	ctx = context.WithValue(ctx, clockKey{}, &w.now)
	go w.kinds[0].run(ctx)
}

// followed has the observations of the VolumeAttachments; nil where they are not watched
// without a break.
func (w *Watch) followed(listed []*storagev1.VolumeAttachment) *snapshot.Followed {
	for _, f := range w.kinds {
		if f.kind != snapshot.VolumeAttachments {
			continue
		}
		var held snapshot.Objects
		if gap := f.fill(&held); gap != nil || f.witness == nil {
			return nil
		}
		return f.witness.followed(listed, held.VolumeAttachments)
	}
	return nil
}
