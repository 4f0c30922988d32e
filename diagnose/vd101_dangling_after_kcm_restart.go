package diagnose

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var danglingAfterKCMRestart = Check{
	Code:     "VD101",
	Name:     "dangling-after-kcm-restart",
	Title:    "A volume stays attached to a node where nothing uses it, and the controller has forgotten it",
	Severity: Warning,
	Needs: []snapshot.Kind{
		snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSIDrivers, snapshot.CSINodes, snapshot.Leases,
	},
	Run: runDanglingAfterKCMRestart,
}

// danglingSettles is how long the controller may take by itself to come to an
// attachment that is in neither list. It takes one that it knows only from the
// VolumeAttachment for mounted until the node's next update, which an idle
// kubelet sends every 5 min, in some releases every 7.5; then it detaches.
const danglingSettles = 10 * time.Minute

func runDanglingAfterKCMRestart(p *Pass) {
	waiting := p.waiting()
	for _, va := range p.danglings() {
		_, _, newMachine := p.asksNewMachine(va)
		if !newMachine && !p.migratedAndNotCollected(va) { // detach-asks-new-machine and migrated-va-not-gc say more
			p.Report(p.dangling(va, p.Snapshot.Node(va.Node), elsewhere(waiting[va.Volume], va.Node)))
		}
	}
}

func (p *Pass) danglings() []attachment {
	if p.controllerYounger(danglingSettles) {
		return nil // a controller that starts takes the VolumeAttachment up again
	}
	var list []attachment
	for _, va := range p.attachments() {
		if va.ran {
			continue
		}
		node := p.Snapshot.Node(va.Node)
		if !va.holds() || !va.ours() || p.Age(va.CreationTimestamp) < danglingSettles ||
			!reconcile.NodeReady(node) || !p.World.Managed.Has(va.Node) || !p.forgotten(va.VolumeNode) {
			continue
		}
		if !p.oneNode(va.Volume) && p.usedElsewhere(va.VolumeNode) {
			continue // attached to many nodes on purpose; a virtual machine may be moving
		}
		list = append(list, va)
	}
	return list
}

// forgotten says that nothing uses the pair: no pod in the controller's eyes or
// in fact, not the kubelet, and the controller does not report it either.
func (p *Pass) forgotten(pair reconcile.VolumeNode) bool {
	node := p.Snapshot.Node(pair.Node)
	return p.World.Desired[pair] == nil && len(p.World.LivePods(pair)) == 0 &&
		node != nil && !inUse(node, pair.Volume) && !lists(node, pair.Volume)
}

func (p *Pass) usedElsewhere(pair reconcile.VolumeNode) bool {
	using := p.remember().nodesUsing.get(p.findNodesUsing)[pair.Volume]
	return using.Len() > 1 || using.Len() == 1 && !using.Has(pair.Node)
}

// findNodesUsing finds, for each volume, the nodes on which the controller wants
// it or the kubelet has it in use.
func (p *Pass) findNodesUsing() map[corev1.UniqueVolumeName]sets.Set[types.NodeName] {
	using := map[corev1.UniqueVolumeName]sets.Set[types.NodeName]{}
	add := func(volume corev1.UniqueVolumeName, node types.NodeName) {
		if using[volume] == nil {
			using[volume] = sets.New[types.NodeName]()
		}
		using[volume].Insert(node)
	}
	for pair := range p.World.Desired { // it has no pair of a node that is gone
		add(pair.Volume, pair.Node)
	}
	for _, node := range p.Snapshot.Nodes {
		for _, volume := range node.Status.VolumesInUse {
			add(volume, nodeName(node))
		}
	}
	return using
}

func (p *Pass) dangling(va attachment, node *corev1.Node, waiters []*corev1.Pod) Finding {
	pv := p.shortVolume(va.Volume)
	f := Finding{
		Subject:          Object{Kind: "VolumeAttachment", Name: va.Name, UID: va.UID},
		Volume:           va.Volume,
		Node:             va.Node,
		PersistentVolume: pv,
		VolumeAttachment: va.Name,
		Since:            &va.CreationTimestamp,
		Message: fmt.Sprintf("Volume %s is still attached to node %s, where no pod uses it, and the controller, which has forgotten it, "+
			"will not detach it", pv, va.Node),
		Cause: "the pod went away while kube-controller-manager was down, changed its leader or had lost sight of the volume",
		Evidence: []Evidence{
			{va.object(), "status.attached", "true, not being deleted"},
			{"node/" + node.Name, "status.volumesInUse", "lacks it; lists " + list(node.Status.VolumesInUse)},
			{"node/" + node.Name, "status.volumesAttached", "lacks it; lists " + attachedList(node.Status.VolumesAttached)},
		},
		SelfHeals: SelfHeals{Because: "the controller keeps no record of it; one that starts anew (1.21, 1.20.3, 1.19.8, 1.18.16 and later) finds the " +
			"VolumeAttachment and detaches the volume after the node's next update"},
		Advice: fmt.Sprintf("make sure on node %s that nothing has the volume mounted, then delete the VolumeAttachment and leave its finalizer alone: "+
			"the driver then detaches the volume", va.Node),
	}
	if d := p.Plan.Decision(va.VolumeNode); d != nil {
		f.Evidence = append(f.Evidence, Evidence{va.object(), "a controller that starts now", fmt.Sprintf("%s (%s)", d.Verb, d.Reason)})
	}
	if len(waiters) > 0 && p.oneNode(va.Volume) {
		f.Severity, f.Pods = Error, podNames(waiters)
		f.Message += fmt.Sprintf(", while pod %s waits for it on node %s", podName(waiters[0]), waiters[0].Spec.NodeName)
	}
	return f
}
