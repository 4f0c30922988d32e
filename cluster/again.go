package cluster

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	fieldselector "k8s.io/apimachinery/pkg/fields"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/scope"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

const (
	// The controller's passes are 100 ms apart: four readings 60 ms apart look at four
	// parts of a pass.
	timesReadAgain = 3
	betweenReads   = 60 * time.Millisecond
)

// readAgain looks once more at the nodes of scope.NodesToReadAgain. The controller takes an
// entry that it cannot detach off the list and puts it back in each pass, and one reading in
// four misses it: of several readings the first one with the most entries counts. Where the
// node cannot be read again, it stays unknown whether the first reading missed an entry.
func (r *reading) readAgain(ctx context.Context, now time.Time) {
	quiet := &reading{Cluster: r.quiet()} // the nodes were counted already
	quiet.whole = true
	var running sync.WaitGroup
	for _, i := range scope.NodesToReadAgain(&r.objects, now) {
		running.Go(func() {
			var err error
			if r.objects.Nodes[i], err = quiet.fullest(ctx, r.objects.Nodes[i]); err != nil {
				r.unclear(r.objects.Nodes[i].Name, err)
			}
		})
	}
	running.Wait()
}

// unclear records a gap for the first of the nodes that could not be read again.
func (r *reading) unclear(node string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.ContainsFunc(r.gaps, func(g snapshot.Gap) bool { return g.Kind == snapshot.Nodes }) {
		return
	}
	r.gaps = append(r.gaps, snapshot.Gap{
		Kind: snapshot.Nodes, Reason: snapshot.ReasonUnavailable,
		Detail: fmt.Sprintf("node %s changed a moment ago and could not be read again: %v", node, r.Explain(err)),
	})
}

// fullest is the reading of the node with the most entries in its volumesAttached. A reading
// of another node by the same name does not count. A later reading makes up for a failed one;
// where the additional attempt fails too, the last error is returned.
func (r *reading) fullest(ctx context.Context, node *corev1.Node) (*corev1.Node, error) {
	kind, named := kindNamed(snapshot.Nodes), fieldselector.Set{"metadata.name": node.Name}
	var failed error
	for n := 0; n < timesReadAgain || n == timesReadAgain && failed != nil; n++ {
		select {
		case <-ctx.Done():
			return node, context.Cause(ctx)
		case <-time.After(betweenReads):
		}
		var got snapshot.Objects
		if _, failed = kind.few(r, named, "", &got).read(ctx, ""); failed != nil {
			continue
		}
		if i := slices.IndexFunc(got.Nodes, func(n *corev1.Node) bool { return n.UID == node.UID }); i >= 0 &&
			len(got.Nodes[i].Status.VolumesAttached) > len(node.Status.VolumesAttached) {
			node = got.Nodes[i]
		}
	}
	return node, failed
}
