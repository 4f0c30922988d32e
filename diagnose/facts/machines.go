package facts

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// findMachines finds the names of the cluster's machines: each node's name and its first label,
// the ids of the provider and the drivers, and the last parts of those ids.
func (p *View) findMachines() sets.Set[string] {
	machines := sets.New[string]()
	for _, node := range p.Snapshot.Nodes {
		short, _, _ := strings.Cut(node.Name, ".")
		machines.Insert(node.Name, short, node.Spec.ProviderID, machineID(node.Spec.ProviderID))
	}
	for _, csiNode := range p.Snapshot.CSINodes {
		for _, d := range csiNode.Spec.Drivers {
			machines.Insert(d.NodeID, machineID(d.NodeID))
		}
	}
	return machines
}

// inScaleSet matches an Azure machine in a scale set.
var inScaleSet = regexp.MustCompile(`(?i)/virtualMachineScaleSets/([^/]+)/virtualMachines/([0-9]+)$`)

// machineID is the machine's name at the end of the id that a cloud or a driver gives it. In a scale set
// of Azure that is SET_NUMBER, as Azure itself writes it. It is "" for a number that may stand for
// anything.
func machineID(id string) string {
	if parts := inScaleSet.FindStringSubmatch(id); parts != nil {
		return parts[1] + "_" + parts[2]
	}
	const enough = 6 // digits: clouds that number machines have millions
	name := lastPart(id)
	if len(name) < enough && strings.Trim(name, "0123456789") == "" {
		return ""
	}
	return name
}

// NamedNode is the only other node in the message, by its name or its id for the driver or the
// cloud; nil where there is none or several.
func (p *View) NamedNode(va Attachment, message string) *corev1.Node {
	ids := keptMachineIDs.Of(p, (*View).findMachineIDs)
	var named *corev1.Node
	for word := range tokens(message, ids.longest) {
		for _, id := range ids.nodes[word] {
			if id.driver != "" && id.driver != va.Spec.Attacher || NodeName(id.node) == va.Node || id.node == named {
				continue
			}
			if named != nil {
				return nil
			}
			named = id.node
		}
	}
	return named
}

// Names reports whether the message names the attachment's own node, by its name or by the id
// that its driver or its cloud gives it.
func (p *View) Names(va Attachment, message string) bool {
	ids := keptMachineIDs.Of(p, (*View).findMachineIDs)
	for word := range tokens(message, ids.longest) {
		if slices.ContainsFunc(ids.nodes[word], func(id calledNode) bool {
			return (id.driver == "" || id.driver == va.Spec.Attacher) && NodeName(id.node) == va.Node
		}) {
			return true
		}
	}
	return false
}

var (
	holderWords = regexp.MustCompile(`(?i)already attached|already being used|currently attached|in use by`)
	// holderNames finds machines as some providers write them: EC2's id, and the end of
	// Google's and Azure's paths.
	holderNames = regexp.MustCompile(`\b(i-[0-9a-f]{8,17})\b|(?:instances|virtualMachines)/([A-Za-z0-9_-]+)`)
)

var keptMachines Kept[sets.Set[string]]

// ForeignHolder is the machine that has the volume by the message; "" where it is a node of this
// cluster, or the message names nobody.
func (p *View) ForeignHolder(message string) string {
	if !holderWords.MatchString(message) {
		return ""
	}
	found := ""
	for _, match := range holderNames.FindAllStringSubmatch(message, -1) {
		name := match[1] + match[2]
		if keptMachines.Of(p, (*View).findMachines).Has(name) {
			continue // the message usually names the attach's own node as well
		}
		if found != "" {
			return "" // it is not clear which machine is meant
		}
		found = name
	}
	return found
}

// machineIDs are the nodes by their names and ids, and the length of the longest of those.
type machineIDs struct {
	nodes   map[string][]calledNode
	longest int
}

// calledNode is a node that the driver knows by an id; with driver "" everybody does.
type calledNode struct {
	driver string
	node   *corev1.Node
}

func (p *View) findMachineIDs() machineIDs {
	ids := machineIDs{nodes: make(map[string][]calledNode, 2*len(p.Snapshot.Nodes))}
	for _, node := range p.Snapshot.Nodes {
		add := func(id, driver string) {
			if id == "" {
				return
			}
			ids.nodes[id] = append(ids.nodes[id], calledNode{driver, node})
			ids.longest = max(ids.longest, len(id))
		}
		add(node.Name, "")
		add(machineID(node.Spec.ProviderID), "")
		if csiNode := p.Snapshot.CSINode(NodeName(node)); csiNode != nil {
			for _, d := range csiNode.Spec.Drivers {
				add(d.NodeID, d.Name)
				add(machineID(d.NodeID), d.Name)
			}
		}
	}
	return ids
}

var keptByNode Kept[map[string][]Attachment]

// AttachmentsByNode are the attachments of each node.
func (p *View) AttachmentsByNode() map[string][]Attachment {
	return keptByNode.Of(p, func(p *View) map[string][]Attachment {
		count := make(map[string]int, len(p.Snapshot.Nodes))
		for _, va := range p.Attachments() {
			count[string(va.Node)]++
		}
		byNode := make(map[string][]Attachment, len(count))
		for node, n := range count {
			byNode[node] = make([]Attachment, 0, n)
		}
		for _, va := range p.Attachments() {
			byNode[string(va.Node)] = append(byNode[string(va.Node)], va)
		}
		return byNode
	})
}

// NodeID is the driver's id for the node; registered is false where the node's CSINode does not
// list the driver.
func (p *View) NodeID(node types.NodeName, driver string) (id string, registered bool) {
	if csiNode := p.Snapshot.CSINode(node); csiNode != nil {
		for _, d := range csiNode.Spec.Drivers {
			if d.Name == driver {
				return d.NodeID, true
			}
		}
	}
	return "", false
}

// OtherMachine returns the driver's ids of the machine that the volume was published to and of
// the one that its detach asks about, and whether they differ. The attacher takes the node's id
// from the CSINode, or else the id that it published with (external-attacher v4,
// csiHandler.getNodeID).
func (p *View) OtherMachine(va *storagev1.VolumeAttachment) (was, is string, differ bool) {
	was, noted := va.Annotations[reconcile.NodeIDAnnotation]
	is, registered := p.NodeID(types.NodeName(va.Spec.NodeName), va.Spec.Attacher)
	return was, is, noted && registered && was != is
}

// ReplacedMachine is the evidence that the volume was attached to the one machine, and that the
// Node, which is younger, is the other.
func ReplacedMachine(va Attachment, node *corev1.Node, was, is string) []finding.Evidence {
	return []finding.Evidence{
		{Object: va.Object(), Field: "metadata.annotations[" + reconcile.NodeIDAnnotation + "]", Value: was},
		{Object: "csinode/" + node.Name, Field: "spec.drivers[" + va.Spec.Attacher + "].nodeID", Value: is},
		{Object: va.Object(), Field: "metadata.creationTimestamp", Value: Stamp(va.CreationTimestamp)},
		{Object: "node/" + node.Name, Field: "metadata.creationTimestamp", Value: Stamp(node.CreationTimestamp)},
	}
}

// NodeIDs are the node's ids by driver, from its annotation; false where it cannot be read.
func NodeIDs(node *corev1.Node) (map[string]string, bool) {
	var ids map[string]string
	err := json.Unmarshal([]byte(node.Annotations[reconcile.NodeIDsAnnotation]), &ids)
	return ids, err == nil
}
