package facts

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

const (
	// wakeUpGrace is how long after its first node a cluster may take to detach
	// what it remembers of the old ones: the wait for an unmount, and a detach that
	// may have to be made twice.
	wakeUpGrace = reconcile.DefaultMaxWaitForUnmount + 2*reconcile.CSITimeout
	// orphanNodes and orphanAttachments tell a cluster that lost all its nodes
	// from one that replaces a node.
	orphanNodes       = 2
	orphanAttachments = 3
)

// Orphans are the attachments of a driver to nodes that are gone, of how many
// it has, and the nodes that have or want one of its volumes.
type Orphans struct {
	Vas   []Attachment
	All   int
	nodes map[types.NodeName]*corev1.Node
}

// Orphaned are the drivers of which at least half of the volumes are attached
// to nodes that are gone, while every node that has or wants one of the others
// is younger than all of those attachments.
func (p *View) Orphaned() map[string]*Orphans {
	return p.memory.orphaned.get(p, (*View).findOrphaned)
}

func (p *View) findOrphaned() map[string]*Orphans {
	byDriver := map[string]*Orphans{}
	if p.ControllerYounger(EvictionGrace) {
		return byDriver
	}
	for _, va := range p.Attachments() {
		o := byDriver[va.Spec.Attacher]
		if o == nil {
			o = &Orphans{nodes: map[types.NodeName]*corev1.Node{}}
			byDriver[va.Spec.Attacher] = o
		}
		o.All++
		if p.Snapshot.Node(va.Node) == nil && va.Holds() && va.Ours() && len(p.World.LivePods(va.VolumeNode)) == 0 {
			o.Vas = append(o.Vas, va)
		}
	}
	maps.DeleteFunc(byDriver, func(_ string, o *Orphans) bool { return !o.most() })
	if len(byDriver) == 0 {
		return byDriver // in nearly every cluster: nobody asks for the nodes then
	}
	for _, va := range p.Attachments() {
		if o, node := byDriver[va.Spec.Attacher], p.Snapshot.Node(va.Node); o != nil && node != nil {
			o.nodes[va.Node] = node
		}
	}
	for _, row := range p.World.Desired.Items() {
		driver, _, _ := row.Spec.CSI()
		if o := byDriver[driver]; o != nil {
			o.nodes[row.Node] = p.Snapshot.Node(row.Node)
		}
	}
	maps.DeleteFunc(byDriver, func(_ string, o *Orphans) bool { return !p.hibernated(o) })
	return byDriver
}

// most says that they are many enough, and half of all.
func (o *Orphans) most() bool {
	gone := map[types.NodeName]bool{}
	for _, va := range o.Vas {
		gone[va.Node] = true
	}
	return len(gone) >= orphanNodes && len(o.Vas) >= orphanAttachments && 2*len(o.Vas) >= o.All
}

// hibernated says of orphans that are most that all else is younger.
func (p *View) hibernated(o *Orphans) bool {
	var youngest metav1.Time
	for _, va := range o.Vas {
		youngest = Latest(youngest, va.CreationTimestamp)
	}
	oldest := o.Oldest()
	return oldest.After(youngest.Time) && p.Age(oldest) >= wakeUpGrace
}

// Oldest is when the Oldest of the nodes was made; zero where there is none.
func (o *Orphans) Oldest() metav1.Time {
	var oldest metav1.Time
	for _, node := range o.nodes {
		if oldest.IsZero() || node.CreationTimestamp.Before(&oldest) {
			oldest = node.CreationTimestamp
		}
	}
	return oldest
}
