package cluster

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fieldselector "k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// SnapshotOf reads no more than the reach of a pod, where that suffices: it then
// says nothing of the rest of the cluster, and whoever reports on it must keep to
// the pod. Where it does not suffice, or not all of it could be read, the whole
// cluster is read, as by Snapshot.
func (c *Cluster) SnapshotOf(ctx context.Context, wanted *diagnose.Reach, suffices func(*snapshot.Snapshot) bool) (*snapshot.Snapshot, error) {
	s, err := c.inOnePage().take(ctx, func(ctx context.Context, r *reading) error { return r.reach(ctx, wanted) })
	if err == nil && suffices(s) {
		return s, nil
	}
	// What was in the way of the one reading is in that of the other, which tells.
	return c.Snapshot(ctx)
}

// inOnePage is the cluster, read without chunks unless somebody has chosen their
// size: nearly all is let go as it arrives, and each chunk is a request.
func (c *Cluster) inOnePage() *Cluster {
	options := c.options
	if options.PageSize == PageSize {
		options.PageSize = 0
	}
	return &Cluster{client: c.client, lists: c.lists, server: c.server, options: options}
}

// reach reads until all that is wanted is read or something is missing of it.
func (r *reading) reach(ctx context.Context, wanted *diagnose.Reach) error {
	var got snapshot.Objects
	for parts := wanted.Next(got); len(parts) > 0 && len(r.gaps) == 0; parts = wanted.Next(got) {
		got = snapshot.Objects{}
		sources := make([]source, 0, len(parts))
		for _, part := range parts {
			sources = append(sources, r.part(part, &got))
		}
		if err := r.all(ctx, sources); err != nil {
			return err
		}
	}
	r.objects = wanted.Objects()
	return nil
}

// part is the source of a part; what it gives goes to the lists of all parts.
func (r *reading) part(p diagnose.Part, into *snapshot.Objects) source {
	core, storage := r.lists.core, r.lists.storage
	switch p.Kind {
	case snapshot.Pods:
		var pods peeker
		peek := pods.peekUnattached
		if len(p.Fields) > 0 {
			peek = nil // a few, of which more is asked
		}
		return partOf(r, p, core, &into.Pods, peek)
	case snapshot.Events:
		p.Keep = func(o metav1.Object) bool { event, ok := o.(*corev1.Event); return ok && keepEvent(event) }
		return partOf(r, p, core, &into.Events, nil)
	case snapshot.Claims:
		return partOf(r, p, core, &into.Claims, new(claimPeeker).peek)
	case snapshot.Volumes:
		return partOf(r, p, core, &into.Volumes, new(volumePeeker).peek)
	case snapshot.Nodes:
		return partOf(r, p, core, &into.Nodes, new(nodePeeker).peek)
	case snapshot.VolumeAttachments:
		return partOf(r, p, storage, &into.VolumeAttachments, new(attachmentPeeker).peek)
	case snapshot.CSINodes:
		return partOf(r, p, storage, &into.CSINodes, nil)
	case snapshot.CSIDrivers:
		return partOf(r, p, storage, &into.CSIDrivers, nil)
	case snapshot.Leases:
		return partOf(r, p, r.lists.coordination, &into.Leases, nil)
	case snapshot.StorageClasses, snapshot.Deployments:
	}
	panic("no reach has a part of the " + string(p.Kind))
}

func partOf[T any, P interface {
	*T
	object
}](r *reading, p diagnose.Part, client rest.Interface, into *[]P, peek func([]byte) (P, bool)) source {
	chosen := choice[P]{fields: fieldselector.SelectorFromSet(p.Fields).String()}
	if p.Keep != nil {
		chosen.keep, chosen.peek = func(o P) bool { return p.Keep(o) }, peek
	}
	var own []P
	all := from(r.Cluster, p.Kind, client, &own, chosen)
	return source{kind: p.Kind, read: func(ctx context.Context, _ string) (int, error) {
		objects, err := all.read(ctx, p.Namespace)
		r.mu.Lock()
		defer r.mu.Unlock()
		*into = append(*into, own...)
		return objects, err
	}}
}
