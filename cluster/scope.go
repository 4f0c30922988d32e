package cluster

import (
	"context"
	"slices"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/scope"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// SnapshotOf reads the scope of one pod. Where that suffices, the snapshot lacks the
// rest of the cluster, and a report on it must be about the pod alone. Where it does
// not, or where not all of it could be read, SnapshotOf reads the whole cluster. It also
// does where a driver's own objects report attachments: they name machines, and only the
// list of all nodes shows which node a machine is.
func (c *Cluster) SnapshotOf(ctx context.Context, wanted *scope.Scope, suffices func(*snapshot.Snapshot) bool) (*snapshot.Snapshot, error) {
	everything := false
	s, err := c.inOnePage().take(ctx, func(ctx context.Context, r *reading) error {
		if err := r.drivers(ctx); err != nil {
			return err
		}
		if everything = len(r.backends) > 0; everything {
			r.whole = false // of all pods one page would be hundreds of megabytes
			return r.everything(ctx)
		}
		return r.scope(ctx, wanted)
	})
	if err == nil && (everything || suffices(s)) {
		return s, nil
	}
	// The error of this reading is dropped: the whole reading meets it again.
	return c.Snapshot(ctx)
}

// inOnePage is the cluster, read without chunks unless somebody has chosen their
// size: nearly all is let go as it arrives, and each chunk is a request. A list in
// JSON is held as a whole, and read in chunks.
func (c *Cluster) inOnePage() *Cluster {
	whole := c.quiet()
	whole.options.Progress, whole.whole = c.options.Progress, c.options.PageSize == PageSize
	return whole
}

// quiet is the cluster, read without a word about the progress.
func (c *Cluster) quiet() *Cluster {
	q := &Cluster{client: c.client, lists: c.lists, server: c.server, options: c.options, wait: c.wait, jsonOnly: c.jsonOnly, spent: c.spent, renewed: c.renewed}
	q.options.Progress = nil
	return q
}

// limit is how many objects one request asks for; 0 asks for all of them.
func (c *Cluster) limit() int64 {
	if c.whole && !c.jsonOnly.Load() {
		return 0
	}
	return c.options.PageSize
}

// scope reads one wave of parts after the other, until none is left or one leaves a
// gap.
func (r *reading) scope(ctx context.Context, wanted *scope.Scope) error {
	var got snapshot.Objects
	for parts := wanted.Next(got); len(parts) > 0 && len(r.gaps) == 0; parts = wanted.Next(got) {
		got = snapshot.Objects{}
		sources := make([]source, 0, len(parts))
		for _, part := range parts {
			sources = append(sources, kindNamed(part.Kind).part(r, part, &got))
		}
		if err := r.all(ctx, sources); err != nil {
			return err
		}
	}
	r.objects = wanted.Objects()
	return nil
}

func kindNamed(name snapshot.Kind) kind {
	return kinds[slices.IndexFunc(kinds, func(k kind) bool { return k.name() == name })]
}
