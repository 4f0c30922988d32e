package cluster

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	fieldselector "k8s.io/apimachinery/pkg/fields"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/scope"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

const (
	// justWritten is how old the controller's last write of a volumesAttached may be for
	// the node to be read again. Managed fields have whole seconds.
	justWritten = 3 * time.Second
	// Of more nodes the write is ordinary: a controller attaches to many at a time.
	nodesReadAgain = 16
	// The controller's passes are 100 ms apart: four readings 60 ms apart look at four
	// parts of a pass.
	timesReadAgain = 3
	betweenReads   = 60 * time.Millisecond
)

// readAgain looks once more at the nodes whose volumesAttached the controller has only
// just written. An entry that it cannot detach is taken off and put back in each pass, and
// one reading in four misses it: of several readings the one with the most entries counts,
// and the first of those.
func (r *reading) readAgain(ctx context.Context, now time.Time) {
	var written []int
	for i, node := range r.objects.Nodes {
		writer, at := facts.VolumesAttachedWriter(node)
		if facts.MayBeController(writer) && !at.IsZero() && now.Sub(at.Time) <= justWritten {
			written = append(written, i)
		}
	}
	if len(written) > nodesReadAgain {
		return
	}
	quiet := &reading{Cluster: r.inOnePage()}
	quiet.options.Progress = nil // they were counted
	var running sync.WaitGroup
	for _, i := range written {
		running.Go(func() { r.objects.Nodes[i] = quiet.fullest(ctx, r.objects.Nodes[i]) })
	}
	running.Wait()
}

// fullest is the reading of the node with the most entries in its volumesAttached. One
// that fails, or is of another node by the same name, does not count.
func (r *reading) fullest(ctx context.Context, node *corev1.Node) *corev1.Node {
	kind := kindNamed(snapshot.Nodes)
	part := scope.Part{Kind: snapshot.Nodes, Fields: fieldselector.Set{"metadata.name": node.Name}}
	for range timesReadAgain {
		select {
		case <-ctx.Done():
			return node
		case <-time.After(betweenReads):
		}
		var got snapshot.Objects
		if _, err := kind.part(r, part, &got).read(ctx, ""); err != nil {
			return node
		}
		if i := slices.IndexFunc(got.Nodes, func(n *corev1.Node) bool { return n.UID == node.UID }); i >= 0 &&
			len(got.Nodes[i].Status.VolumesAttached) > len(node.Status.VolumesAttached) {
			node = got.Nodes[i]
		}
	}
	return node
}
