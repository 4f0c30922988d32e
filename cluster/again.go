package cluster

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	fieldselector "k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

const (
	// justWritten is how old the controller's last write of a volumesAttached may be for the
	// node to be read again. Managed fields have whole seconds.
	justWritten = 3 * time.Second
	// justAttached is the age up to which a VolumeAttachment may have been attached only
	// since the nodes were read. Storage systems that attach at all do it within minutes.
	justAttached = 30 * time.Minute
	// More changing nodes than this are ordinary: a controller attaches to many at a time.
	nodesReadAgain = 16
	// The controller's passes are 100 ms apart: four readings 60 ms apart look at four
	// parts of a pass.
	timesReadAgain = 3
	betweenReads   = 60 * time.Millisecond
)

// readAgain looks once more at the nodes whose volumesAttached the controller has just
// written, and at those that may have got an entry since they were read. The controller takes
// an entry that it cannot detach off the list and puts it back in each pass, and one reading
// in four misses it: of several readings the first one with the most entries counts. Where
// the node cannot be read again, it stays unknown whether the first reading missed an entry.
func (r *reading) readAgain(ctx context.Context, now time.Time) {
	quiet := &reading{Cluster: r.quiet()} // the nodes were counted already
	quiet.whole = true
	var running sync.WaitGroup
	for i := range r.changing(now) {
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

// changing are the places in the list of the nodes that readAgain must read.
func (r *reading) changing(now time.Time) map[int]bool {
	attached := map[string]bool{}
	for _, va := range r.objects.VolumeAttachments {
		if va.Status.Attached && va.DeletionTimestamp == nil && now.Sub(va.CreationTimestamp.Time) <= justAttached {
			attached[va.Name] = true
		}
	}
	var written, unlisted []int
	for i, node := range r.objects.Nodes {
		writer, at := facts.VolumesAttachedWriter(node)
		switch {
		case facts.MayBeController(writer) && !at.IsZero() && now.Sub(at.Time) <= justWritten:
			written = append(written, i)
		case len(attached) > 0 && lacks(node, attached):
			unlisted = append(unlisted, i)
		}
	}
	nodes := map[int]bool{}
	for _, some := range [][]int{written, unlisted} {
		if len(some) > nodesReadAgain {
			continue
		}
		for _, i := range some {
			nodes[i] = true
		}
	}
	return nodes
}

// lacks reports whether the node has a volume in use that one of the VolumeAttachments has
// attached, and does not list it as attached. The VolumeAttachment may have been read after
// the node, and the controller updates the node's status only after seeing it.
func lacks(node *corev1.Node, attached map[string]bool) bool {
	return slices.ContainsFunc(node.Status.VolumesInUse, func(volume corev1.UniqueVolumeName) bool {
		if slices.ContainsFunc(node.Status.VolumesAttached, func(a corev1.AttachedVolume) bool { return a.Name == volume }) {
			return false
		}
		driver, handle, ok := reconcile.ParseCSI(volume)
		return ok && attached[reconcile.VolumeAttachmentName(handle, driver, types.NodeName(node.Name))]
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
