package cluster

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/fields"

	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// Near reads the nodes, the pods on them and the VolumeAttachments, each by a field
// selector, so that no other right is needed than that to list them. What is kept and
// decoded of an object is the same as in the snapshot, which is the last whole reading.
func (c *Cluster) Near(ctx context.Context, s *snapshot.Snapshot, near repair.Near) (repair.Nearby, error) {
	r := &reading{Cluster: c.quiet(), objects: s.Objects}
	var got snapshot.Objects
	var sources []source
	few := func(kind snapshot.Kind, field, value string) {
		sources = append(sources, kindNamed(kind).few(r, fields.Set{field: value}, &got))
	}
	for _, node := range near.Nodes {
		few(snapshot.Nodes, "metadata.name", string(node))
	}
	for _, va := range near.Attachments {
		few(snapshot.VolumeAttachments, "metadata.name", va)
	}
	if err := r.all(ctx, sources); err != nil {
		return repair.Nearby{}, c.explain(err)
	}
	sources = nil // pods come after what they use, as in Snapshot
	for _, node := range near.Nodes {
		few(snapshot.Pods, "spec.nodeName", string(node))
	}
	if err := r.all(ctx, sources); err != nil {
		return repair.Nearby{}, c.explain(err)
	}
	if len(r.gaps) > 0 {
		return repair.Nearby{}, fmt.Errorf("read the %s: %s", r.gaps[0].Kind, r.gaps[0].Detail)
	}
	return repair.Nearby{Near: near, Nodes: got.Nodes, Attachments: got.VolumeAttachments, Pods: got.Pods}, nil
}
