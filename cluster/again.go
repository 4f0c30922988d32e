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
// node cannot be read again, it stays unknown whether the first reading missed an entry. Of a node
// of scope.NodesWithoutAttachment the later reading counts.
func (r *reading) readAgain(ctx context.Context, now time.Time) {
	quiet := &reading{Cluster: r.quiet()} // the nodes were counted already
	quiet.whole = true
	changing, left := scope.NodesToReadAgain(&r.objects, now), []int(nil)
	if !r.lacks(snapshot.VolumeAttachments) {
		left = scope.NodesWithoutAttachment(&r.objects, now)
	}
	var running sync.WaitGroup
	for _, i := range changing {
		running.Go(func() {
			var err error
			if r.objects.Nodes[i], err = quiet.fullest(ctx, r.objects.Nodes[i]); err != nil {
				r.unclear(r.objects.Nodes[i].Name, err)
			}
		})
	}
	for _, i := range left {
		if slices.Contains(changing, i) {
			continue
		}
		running.Go(func() {
			if later, err := quiet.node(ctx, r.objects.Nodes[i].Name); err != nil {
				r.unclear(r.objects.Nodes[i].Name, err)
			} else if later != nil && later.UID == r.objects.Nodes[i].UID {
				r.objects.Nodes[i] = later
			}
		})
	}
	running.Wait()
}

// node reads the node of that name; nil where there is none.
func (r *reading) node(ctx context.Context, name string) (*corev1.Node, error) {
	var got snapshot.Objects
	if _, err := kindNamed(snapshot.Nodes).few(r, fieldselector.Set{"metadata.name": name}, "", &got).read(ctx, ""); err != nil || len(got.Nodes) == 0 {
		return nil, err
	}
	return got.Nodes[0], nil
}

// unclear records a gap for the first of the nodes that could not be read again.
func (r *reading) unclear(node string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lacks(snapshot.Nodes) {
		return
	}
	r.gaps = append(r.gaps, snapshot.Gap{
		Kind: snapshot.Nodes, Reason: snapshot.ReasonUnavailable,
		Detail: fmt.Sprintf("node %s changed a moment ago and could not be read again: %v", node, r.Explain(err)),
	})
}

// lacks reports whether there is a gap in the kind.
func (r *reading) lacks(kind snapshot.Kind) bool {
	return slices.ContainsFunc(r.gaps, func(g snapshot.Gap) bool { return g.Kind == kind })
}

// fullest is the reading of the node with the most entries in its volumesAttached. A reading
// of another node by the same name does not count. A later reading makes up for a failed one;
// where the additional attempt fails too, the last error is returned.
func (r *reading) fullest(ctx context.Context, node *corev1.Node) (*corev1.Node, error) {
	var failed error
	for n := 0; n < timesReadAgain || n == timesReadAgain && failed != nil; n++ {
		select {
		case <-ctx.Done():
			return node, context.Cause(ctx)
		case <-time.After(betweenReads):
		}
		var later *corev1.Node
		if later, failed = r.node(ctx, node.Name); later != nil && later.UID == node.UID && len(later.Status.VolumesAttached) > len(node.Status.VolumesAttached) {
			node = later
		}
	}
	return node, failed
}
