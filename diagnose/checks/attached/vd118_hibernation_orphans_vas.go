package attached

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var HibernationOrphansVAs = check.Check{
	Code:     "VD118",
	Name:     "hibernation-orphans-vas",
	Title:    "Most volumes of a driver are attached to nodes that are gone; all its nodes are new",
	Severity: finding.Warning,
	Needs:    check.AttachmentKinds(snapshot.Leases),
	OfDriver: true,
	Doubts:   func(v *facts.View) bool { return !knowsMachines(v) },
	Never:    "take their finalizers off: the driver is then never asked to detach the volumes",
	Run:      runHibernationOrphansVAs,
}

// shownOrphans limits the evidence: there may be hundreds.
const shownOrphans = 10

func runHibernationOrphansVAs(p *check.Run) {
	for driver, o := range orphaned(p) {
		hibernation(p, driver, o)
	}
}

// knowsMachines reports whether the ids that the drivers gave to the machines were read. The
// kubelet writes them to the CSINode and to an annotation of the Node.
func knowsMachines(v *facts.View) bool {
	return v.Snapshot.Complete(snapshot.CSINodes) || !slices.ContainsFunc(v.Snapshot.Nodes, func(node *corev1.Node) bool {
		_, known := facts.NodeIDs(node)
		return !known
	})
}

func hibernation(p *check.Run, driver string, o *orphans) {
	var names []string
	var waiters []*corev1.Pod
	since := o.oldest()
	// a repair takes the VolumeAttachments one by one, so the finding is about the first
	f := p.About(o.vas[0], finding.Finding{Subject: p.DriverObject(driver), Since: &since})
	for i, va := range o.vas {
		names = append(names, string(va.Node))
		waiters = append(waiters, p.KeptFrom(va.VolumeNode)...)
		if i < shownOrphans {
			f.Evidence = append(f.Evidence, finding.Evidence{Object: va.Object(), Field: "spec.nodeName", Value: fmt.Sprintf("%s, which is gone; attached volume %s", va.Node, p.ShortVolumeOf(va))})
		}
	}
	f.Evidence = append(f.Evidence, finding.Evidence{Object: "csidriver/" + driver, Field: "nodes", Value: "the oldest that has or wants one of its volumes was made at " + facts.Stamp(since)})
	slices.Sort(names)
	names, waiters = slices.Compact(names), facts.LongestFirst(facts.EachOnce(waiters))
	f.Message = fmt.Sprintf("%d of %d volumes of %s count as attached to gone nodes", len(o.vas), o.all, driver)
	f.Detail = fmt.Sprintf("gone are %s, and every node that the driver now serves is younger", strings.Join(names, ", "))
	f.Cause = "the cluster's machines were all removed at the same time, as by hibernation, without a detach of their volumes"
	f.SelfHeals = finding.SelfHeals{Because: "the controller has had its time; the controller detaches them by force within about 8 min of its own start, and has forgotten them, " +
		"or " + neverForced(p.View)}
	f.ByHand = "check at the provider that all the machines named are gone; then {final} delete these VolumeAttachments, a few at a time"
	if n := len(o.vas) - 1; n > 0 {
		f.Advice = fmt.Sprintf("{note} repair them one at a time: the command is for volume %s on node %s; when that is detached, diagnose again for the next of the %d others",
			p.ShortVolume(o.vas[0].Volume), o.vas[0].Node, n)
	}
	if len(waiters) > 0 {
		f.Severity, f.Pods = finding.Error, facts.PodNames(waiters)
		facts.Also(&f, "pod %s waits on node %s for one of them", facts.PodName(waiters[0]), waiters[0].Spec.NodeName)
		f.Detail = finding.Clauses(f.Detail, facts.Alike(waiters))
	}
	p.Report(f)
}

const (
	// wakeUpGrace is how long after its first node a cluster may take to detach the volumes of
	// the old ones: one wait for an unmount, and two tries of a detach.
	wakeUpGrace = reconcile.DefaultMaxWaitForUnmount + 2*reconcile.CSITimeout
	// orphanNodes and orphanAttachments distinguish a cluster that lost all its nodes from one
	// that replaces a node.
	orphanNodes       = 2
	orphanAttachments = 3
)

// orphans are a driver's attachments to nodes that are gone, the number of all its attachments,
// and the nodes that have or want one of its volumes.
type orphans struct {
	vas   []facts.Attachment
	all   int
	nodes map[types.NodeName]*corev1.Node
}

// orphaned are the drivers with at least half of their volumes attached to nodes that are gone.
// Every node that has or wants another of their volumes is younger than all those attachments.
func orphaned(p *check.Run) map[string]*orphans {
	byDriver := map[string]*orphans{}
	if p.ControllerYounger(facts.EvictionGrace) {
		return byDriver
	}
	for _, va := range p.Attachments() {
		o := byDriver[va.Spec.Attacher]
		if o == nil {
			o = &orphans{nodes: map[types.NodeName]*corev1.Node{}}
			byDriver[va.Spec.Attacher] = o
		}
		o.all++
		if p.Snapshot.Node(va.Node) == nil && va.Holds() && va.Ours() && len(p.World.LivePods(va.VolumeNode)) == 0 && p.AliveAs(va.Node) == nil {
			o.vas = append(o.vas, va)
		}
	}
	maps.DeleteFunc(byDriver, func(_ string, o *orphans) bool { return !o.most() })
	if len(byDriver) == 0 {
		return byDriver // as in nearly every cluster: the nodes do not matter then
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
	maps.DeleteFunc(byDriver, func(_ string, o *orphans) bool { return !hibernated(p, o) })
	return byDriver
}

// most reports whether the orphans are many enough, and at least half of all.
func (o *orphans) most() bool {
	gone := map[types.NodeName]bool{}
	for _, va := range o.vas {
		gone[va.Node] = true
	}
	return len(gone) >= orphanNodes && len(o.vas) >= orphanAttachments && 2*len(o.vas) >= o.all
}

// hibernated reports whether most of the orphans are older than everything else.
func hibernated(p *check.Run, o *orphans) bool {
	var youngest metav1.Time
	for _, va := range o.vas {
		youngest = facts.Latest(youngest, va.CreationTimestamp)
	}
	since := o.oldest()
	return since.After(youngest.Time) && p.Age(since) >= wakeUpGrace
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
