package facts

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// Alias is the Node as which the machine of another Node is alive.
type Alias struct {
	Node *corev1.Node
	// Shows is the evidence that it is the same machine.
	Shows finding.Evidence
}

var keptAliveAs KeptBy[types.NodeName, *Alias]

// AliveAs is the Node under whose name the machine of a lost or missing node is alive; nil where
// no object shows one. A kubelet that starts under another host name registers another Node, and
// may still have the mounts of the first.
func (p *View) AliveAs(name types.NodeName) *Alias {
	if name == "" || !p.Lost(p.Snapshot.Node(name)) {
		return nil
	}
	return keptAliveAs.Of(p, name, (*View).findAliveAs)
}

var keptMachineList Kept[[]machine]

func (p *View) findAliveAs(name types.NodeName) *Alias {
	lost, machines := p.machineOf(name), keptMachineList.Of(p, (*View).machinesOf)
	var same *Alias
	for i, node := range p.Snapshot.Nodes {
		if NodeName(node) == name {
			continue
		}
		field, value := lost.sameAs(machines[i])
		switch {
		case field == "":
		case same != nil:
			return nil // machines that were copied from one image may share an id
		default:
			same = &Alias{node, finding.Evidence{Object: "node/" + node.Name, Field: field, Value: fmt.Sprintf("%s, as of node %s", value, name)}}
		}
	}
	if same != nil && p.Lost(same.Node) {
		return nil
	}
	return same
}

// machine has the ids of the machine behind a Node; "" where no object has one.
type machine struct {
	provider, uuid, id string
	drivers            map[string]string // the id that each driver has given it
	names              []string          // of these drivers, in their order
}

// machinesOf are the machines of all nodes, in their order.
func (p *View) machinesOf() []machine {
	list := make([]machine, len(p.Snapshot.Nodes))
	for i, node := range p.Snapshot.Nodes {
		list[i] = p.machineOf(NodeName(node))
	}
	return list
}

// machineOf are the ids of the node's machine. Of a Node that is gone only its VolumeAttachments
// have any: the attacher notes there to which machine the driver has published the volume.
func (p *View) machineOf(name types.NodeName) machine {
	m := machine{drivers: map[string]string{}}
	if node := p.Snapshot.Node(name); node != nil {
		m.uuid, m.id = strings.ToLower(node.Status.NodeInfo.SystemUUID), node.Status.NodeInfo.MachineID
		if lastPart(node.Spec.ProviderID) != node.Name { // otherwise the id follows the name, not the machine
			m.provider = node.Spec.ProviderID
		}
		if ids, known := NodeIDs(node); known {
			for driver, id := range ids {
				m.drivers[driver] = id
			}
		}
	} else {
		for _, va := range p.AttachmentsByNode()[string(name)] {
			m.drivers[va.Spec.Attacher] = va.Annotations[reconcile.NodeIDAnnotation]
		}
	}
	if csiNode := p.Snapshot.CSINode(name); csiNode != nil {
		for _, d := range csiNode.Spec.Drivers {
			m.drivers[d.Name] = d.NodeID
		}
	}
	m.names = slices.Sorted(maps.Keys(m.drivers))
	return m
}

// sameAs is the field, with its value, that shows that both are one machine; "" where none does.
// An id from the provider or a driver decides before one that images copy.
func (m machine) sameAs(other machine) (field, value string) {
	for _, driver := range m.names {
		if id := m.drivers[driver]; id != "" && (id == other.drivers[driver] || other.drivers[driver] == "" && id == lastPart(other.provider)) {
			return "nodeID of " + driver, id
		}
	}
	for _, id := range []struct{ field, own, others string }{
		{"spec.providerID", m.provider, other.provider},
		{"status.nodeInfo.systemUUID", m.uuid, other.uuid},
		{"status.nodeInfo.machineID", m.id, other.id},
	} {
		if id.own != "" && id.others != "" {
			if id.own == id.others {
				return id.field, id.own
			}
			return "", ""
		}
	}
	return "", ""
}

// spareTheLiving replaces advice for a machine that is off, where the node's machine is alive
// under another name: a detach would take the volume from under a mount there.
func (p *View) spareTheLiving(f *finding.Finding) {
	name := f.Node
	alias := p.AliveAs(name)
	if alias == nil && f.Holder != "" {
		name = f.Holder
		alias = p.AliveAs(name)
	}
	if alias == nil {
		return
	}
	node := alias.Node.Name
	f.Detail = finding.Clauses(fmt.Sprintf("the machine of %s is alive as node %s", name, node), f.Detail)
	f.Evidence = append(f.Evidence, alias.Shows)
	f.ByHand, f.AdviceCommands = "", []string{safetext.Kubectl("describe", "node/"+node)}
	f.Advice = fmt.Sprintf("{check} see on node %s what it still has mounted from its time as %s; if it has anything, {drain-node %s} and {reboot-node %s}", node, name, node, node)
	f.Never = fmt.Sprintf("power off the machine behind %s, taint the node or delete the VolumeAttachment: it runs node %s, and may still write to the volume", name, node)
}
