package diagnose

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var nodeIDDiffers = Check{
	Code:     "VD309",
	Name:     "node-id-differs",
	Title:    "A node's annotation and its CSINode disagree on a driver's id for it",
	Severity: Info,
	Needs:    []snapshot.Kind{snapshot.Pods, snapshot.Nodes, snapshot.CSIDrivers, snapshot.CSINodes},
	Run:      runNodeIDDiffers,
}

// nodeIDsAnnotation is where the kubelet keeps, as JSON, what each driver calls
// the node. It writes it first and the CSINode then.
const nodeIDsAnnotation = "csi.volume.kubernetes.io/nodeid"

func runNodeIDDiffers(p *Pass) {
	for _, node := range p.Snapshot.Nodes {
		csiNode := p.Snapshot.CSINode(nodeName(node))
		ids, ok := nodeIDs(node)
		if csiNode == nil || !ok && !p.madeAnew(node, csiNode) || !p.settled(node) {
			continue
		}
		p.nodeIDDiffers(node, csiNode, ids)
	}
}

func nodeIDs(node *corev1.Node) (map[string]string, bool) {
	var ids map[string]string
	err := json.Unmarshal([]byte(node.Annotations[nodeIDsAnnotation]), &ids)
	return ids, err == nil
}

// madeAnew says that the Node was made anew under its CSINode, which is younger
// otherwise, and that its annotation was not merely left out of the file: another
// node that lists one of the same drivers has it.
func (p *Pass) madeAnew(node *corev1.Node, csiNode *storagev1.CSINode) bool {
	return csiNode.CreationTimestamp.Before(&node.CreationTimestamp) && slices.ContainsFunc(csiNode.Spec.Drivers, func(d storagev1.CSINodeDriver) bool {
		return p.remember().annotated.get(p.findAnnotated).Has(d.Name)
	})
}

// findAnnotated finds the drivers that have an id in some node's annotation.
func (p *Pass) findAnnotated() sets.Set[string] {
	drivers := sets.New[string]()
	for _, node := range p.Snapshot.Nodes {
		ids, _ := nodeIDs(node)
		for driver, id := range ids {
			if id != "" {
				drivers.Insert(driver)
			}
		}
	}
	return drivers
}

func (p *Pass) nodeIDDiffers(node *corev1.Node, csiNode *storagev1.CSINode, ids map[string]string) {
	annotation := Evidence{"node/" + node.Name, "metadata.annotations[" + nodeIDsAnnotation + "]", fmt.Sprintf("%q", node.Annotations[nodeIDsAnnotation])}
	f := Finding{
		Subject:  Object{Kind: "Node", Name: node.Name, UID: node.UID},
		Node:     nodeName(node),
		Evidence: []Evidence{annotation},
		SelfHeals: SelfHeals{Because: "the kubelet writes both when the driver registers: at the plugin's next start, or the kubelet's; nobody compares them in " +
			"between"},
		Advice: fmt.Sprintf("delete the driver's node plugin pod on %s, so that it registers anew; do not edit either of the two", node.Name),
	}
	listed := map[string]string{}
	for _, d := range csiNode.Spec.Drivers {
		listed[d.Name] = d.NodeID
		id, there := ids[d.Name]
		switch {
		case id == d.NodeID || p.pluginYoung(node, d.Name):
			continue
		case there:
			if f.Severity != Warning { // the first driver that has two ids is the one to name
				f.Severity = Warning
				f.Message = fmt.Sprintf("Driver %s calls node %s %q in the CSINode and %q in the node's annotation: the attacher goes by the former, and one of "+
					"them is another machine's or stale", d.Name, node.Name, d.NodeID, id)
				f.Cause = "a registration got only half-way, the machine behind the node was replaced, or somebody edited one of the two"
			}
		case f.Message == "":
			f.Message = fmt.Sprintf("Node %s lacks the annotation with the id that driver %s gave it, which its CSINode has", node.Name, d.Name)
			f.Cause = "the Node object was made anew while its kubelet ran on; attaching works, and programs that read the annotation do not find the node"
		}
		f.Evidence = append(f.Evidence, Evidence{"csinode/" + node.Name, "spec.drivers[" + d.Name + "].nodeID", fmt.Sprintf("%q", d.NodeID)})
	}
	for _, driver := range slices.Sorted(maps.Keys(ids)) {
		if _, ok := listed[driver]; ok || p.pluginYoung(node, driver) {
			continue
		}
		if f.Message == "" {
			f.Message = fmt.Sprintf("Node %s has the annotation with the id that driver %s gave it, and its CSINode does not list the driver", node.Name, driver)
			f.Cause = "a registration got only half-way: the kubelet wrote the node and could not write the CSINode, or took off only the one of the two"
		}
		f.Evidence = append(f.Evidence, Evidence{"csinode/" + node.Name, "spec.drivers", "lacks " + driver})
	}
	if f.Message != "" {
		p.Report(f)
	}
}
