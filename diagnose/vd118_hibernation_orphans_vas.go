package diagnose

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var hibernationOrphansVAs = Check{
	Code:     "VD118",
	Name:     "hibernation-orphans-vas",
	Title:    "Most volumes of a driver are attached to nodes that are gone; all its nodes are new",
	Severity: Warning,
	Needs: []snapshot.Kind{
		snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSIDrivers, snapshot.Leases,
	},
	Run: runHibernationOrphansVAs,
}

const (
	// wakeUpSettles is how long after its first node a cluster may take to detach
	// what it remembers of the old ones: 6 min to wait for an unmount, and a
	// detach of 2 min that may have to be made twice.
	wakeUpSettles = 10 * time.Minute
	// orphanNodes and orphanAttachments tell a cluster that lost all its nodes
	// from one that replaces a node.
	orphanNodes       = 2
	orphanAttachments = 3
	// shownOrphans bounds the evidence: there may be hundreds.
	shownOrphans = 10
)

func runHibernationOrphansVAs(p *Pass) {
	waiting := p.waiting()
	for driver, o := range p.orphaned() {
		p.hibernation(driver, o, waiting)
	}
}

// orphans are the attachments of a driver to nodes that are gone, of how many
// it has, and the nodes that have or want one of its volumes.
type orphans struct {
	vas   []attachment
	all   int
	nodes map[types.NodeName]*corev1.Node
}

// orphaned are the drivers of which at least half of the volumes are attached
// to nodes that are gone, while every node that has or wants one of the others
// is younger than all of those attachments.
func (p *Pass) orphaned() map[string]*orphans {
	return p.remember().orphaned.get(p.findOrphaned)
}

func (p *Pass) findOrphaned() map[string]*orphans {
	byDriver := map[string]*orphans{}
	if p.controllerYounger(evictionSettles) {
		return byDriver
	}
	for _, va := range p.attachments() {
		o := byDriver[va.Spec.Attacher]
		if o == nil {
			o = &orphans{nodes: map[types.NodeName]*corev1.Node{}}
			byDriver[va.Spec.Attacher] = o
		}
		o.all++
		if p.Snapshot.Node(va.Node) == nil && va.holds() && va.ours() && len(p.World.LivePods(va.VolumeNode)) == 0 {
			o.vas = append(o.vas, va)
		}
	}
	maps.DeleteFunc(byDriver, func(_ string, o *orphans) bool { return !o.most() })
	if len(byDriver) == 0 {
		return byDriver // in nearly every cluster: nobody asks for the nodes then
	}
	for _, va := range p.attachments() {
		if o, node := byDriver[va.Spec.Attacher], p.Snapshot.Node(va.Node); o != nil && node != nil {
			o.nodes[va.Node] = node
		}
	}
	for pair, row := range p.World.Desired {
		driver, _, _ := row.Spec.CSI()
		if o := byDriver[driver]; o != nil {
			o.nodes[pair.Node] = p.Snapshot.Node(pair.Node)
		}
	}
	maps.DeleteFunc(byDriver, func(_ string, o *orphans) bool { return !p.hibernated(o) })
	return byDriver
}

// most says that they are many enough, and half of all.
func (o *orphans) most() bool {
	gone := map[types.NodeName]bool{}
	for _, va := range o.vas {
		gone[va.Node] = true
	}
	return len(gone) >= orphanNodes && len(o.vas) >= orphanAttachments && 2*len(o.vas) >= o.all
}

// hibernated says of orphans that are most that all else is younger.
func (p *Pass) hibernated(o *orphans) bool {
	var youngest metav1.Time
	for _, va := range o.vas {
		youngest = latest(youngest, va.CreationTimestamp)
	}
	oldest := o.oldest()
	return oldest.After(youngest.Time) && p.Age(oldest) >= wakeUpSettles
}

// oldest is when the oldest of the nodes was made; zero where there is none.
func (o *orphans) oldest() metav1.Time {
	var oldest metav1.Time
	for _, node := range o.nodes {
		if oldest.IsZero() || node.CreationTimestamp.Before(&oldest) {
			oldest = node.CreationTimestamp
		}
	}
	return oldest
}

func (p *Pass) hibernation(driver string, o *orphans, waiting map[corev1.UniqueVolumeName][]*corev1.Pod) {
	var names []string
	var waiters []*corev1.Pod
	since := o.oldest()
	first := o.vas[0]
	f := Finding{
		Subject: Object{Kind: "CSIDriver", Name: driver},
		// A repair takes them one by one.
		Volume:           first.Volume,
		Node:             first.Node,
		PersistentVolume: p.shortVolume(first.Volume),
		VolumeAttachment: first.Name,
		Since:            &since,
	}
	if d := p.Snapshot.CSIDriver(driver); d != nil {
		f.Subject.UID = d.UID
	}
	for i, va := range o.vas {
		names = append(names, string(va.Node))
		if p.oneNode(va.Volume) {
			waiters = append(waiters, elsewhere(waiting[va.Volume], va.Node)...)
		}
		if i < shownOrphans {
			f.Evidence = append(f.Evidence, Evidence{va.object(), "spec.nodeName", fmt.Sprintf("%s, which is gone; attached volume %s", va.Node, p.shortVolume(va.Volume))})
		}
	}
	f.Evidence = append(f.Evidence, Evidence{"csidriver/" + driver, "nodes", "the oldest that has or wants one of its volumes was made at " + stamp(since)})
	slices.Sort(names)
	names, waiters = slices.Compact(names), eachOnce(waiters)
	f.Message = fmt.Sprintf("%d of the %d attached volumes of driver %s count as attached to nodes that are gone (%s), and every node it now serves is younger",
		len(o.vas), o.all, driver, strings.Join(names, ", "))
	f.Cause = "the cluster's machines were all removed at once, as by hibernation, without a detach of their volumes"
	f.SelfHeals = SelfHeals{Because: "the controller detaches them by force within about 8 min of its own start; that has passed, so that it has forgotten them, " +
		"runs with --disable-force-detach-on-timeout, or does not run"}
	f.Advice = "see at the provider that all the machines named are gone; then delete these VolumeAttachments, a few at a time, and leave their finalizers alone: " +
		"the driver detaches each by the machine's name that it keeps in the object"
	if len(waiters) > 0 {
		longestFirst(waiters)
		f.Severity, f.Pods = Error, podNames(waiters)
		f.Message += fmt.Sprintf("; pod %s waits on node %s for one of them%s", podName(waiters[0]), waiters[0].Spec.NodeName, alike(waiters))
	}
	p.Report(f)
}
