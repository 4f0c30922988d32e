package facts

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/driverwords"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// Said is an error message with the objects that it is about.
type Said struct {
	// Driver wrote the message, or was called by the sidecar that did; "" where nobody is
	// known.
	Driver, Message string
	// Node is where the volume is to be used; "" where that is open.
	Node types.NodeName
	// Volume is the PersistentVolume; nil for a claim that has none.
	Volume *corev1.PersistentVolume
	// Claim is the claim that gets no volume, or the volume's; nil where that is not known.
	Claim *corev1.PersistentVolumeClaim
	// Namespace is the namespace of the pod or claim.
	Namespace string
}

// mostLookUps is the largest number of look-ups for a message.
const mostLookUps = 4

// LookUps are clauses about the objects that the message names. An object is said to be missing
// only where the list of its kind is complete.
func (v *View) LookUps(said Said) []string {
	var list []string
	for _, noun := range driverwords.Apart(said.Message).Nouns {
		list = append(list, v.lookUp(said, noun))
	}
	list = append(append(append(list, v.lookUpIDs(said)...), v.roomOn(said)), v.lookUpClaim(said)...)
	var found []string
	for _, text := range list {
		if text != "" && !slices.Contains(found, text) && len(found) < mostLookUps {
			found = append(found, text)
		}
	}
	return found
}

// lookUpClaim returns clauses about the claim's data source, chosen node, access modes and other
// users, as far as the message is about them.
func (v *View) lookUpClaim(said Said) []string {
	claim := said.Claim
	if claim == nil && said.Volume != nil && said.Volume.Spec.ClaimRef != nil {
		claim = v.Snapshot.Claim(types.NamespacedName{Namespace: said.Volume.Spec.ClaimRef.Namespace, Name: said.Volume.Spec.ClaimRef.Name})
	}
	if claim == nil {
		return nil
	}
	means := func(meanings ...driverwords.Meaning) bool { return Means(said.Driver, said.Message, meanings...) }
	var list []string
	if from := claim.Spec.DataSourceRef; from != nil && claim.Spec.VolumeName == "" {
		list = append(list, fmt.Sprintf("the claim is to be filled from %s %s", from.Kind, from.Name))
	}
	if node := v.Snapshot.Node(types.NodeName(claim.Annotations[reconcile.SelectedNodeAnnotation])); node != nil && claim.Spec.VolumeName == "" &&
		means(driverwords.ZoneMismatch, driverwords.OutOfSpace, driverwords.QuotaReached, driverwords.NodeUnknown, driverwords.NodeIncompatible) {
		place := "node " + node.Name
		if zone := node.Labels[corev1.LabelTopologyZone]; zone != "" {
			place += " in zone " + zone
		}
		list = append(list, "the scheduler chose "+place)
	}
	if means(driverwords.AccessType) {
		var modes []string
		for _, mode := range claim.Spec.AccessModes {
			modes = append(modes, string(mode))
		}
		if claim.Spec.VolumeMode != nil && *claim.Spec.VolumeMode == corev1.PersistentVolumeBlock {
			modes = append(modes, "volumeMode Block")
		}
		list = append(list, "the claim asks for "+strings.Join(modes, ", "))
	}
	if means(driverwords.AttachedElsewhere, driverwords.MultiAttach) {
		for _, pod := range v.ClaimUsers(claim) {
			if said.Node != "" && pod.Spec.NodeName != "" && NodeOf(pod) != said.Node && !reconcile.PodTerminated(pod) {
				list = append(list, fmt.Sprintf("pod %s on node %s uses the same claim", PodName(pod), pod.Spec.NodeName))
				break
			}
		}
	}
	return list
}

func (v *View) lookUp(said Said, noun driverwords.Noun) string {
	switch noun.Kind {
	case driverwords.NodeNoun, driverwords.MachineNoun:
		return v.lookUpNode(said, noun)
	case driverwords.HandleNoun:
		return v.lookUpVolume(said, noun.Name)
	case driverwords.SecretNoun:
		return lookUpSecret(said, noun.Name)
	case driverwords.ZoneNoun:
		return v.lookUpZone(noun.Name)
	case driverwords.ClassNoun:
		return v.lookUpClass(noun.Name)
	default: // no object shows a path or a device
		return ""
	}
}

var keptMachineIDs Kept[machineIDs]

// lookUpNode is the node with that name or id, and whether it is Ready; "" where it is the
// message's own node and Ready.
func (v *View) lookUpNode(said Said, noun driverwords.Noun) string {
	ids := keptMachineIDs.Of(v, (*View).findMachineIDs)
	for _, id := range ids.nodes[noun.Name] {
		if id.driver == "" || id.driver == said.Driver {
			return v.nodeCalled(said, noun.Name, id.node)
		}
	}
	if noun.Kind == driverwords.NodeNoun && v.noSuchNode(noun) {
		return noun.Name + ": no such Node"
	}
	return ""
}

// lookUpIDs finds further nodes in the message, by their names, the driver's nodeIDs or the ends
// of providerIDs, as in a path.
func (v *View) lookUpIDs(said Said) []string {
	ids := keptMachineIDs.Of(v, (*View).findMachineIDs)
	var list []string
	for word := range tokens(said.Message, ids.longest) {
		if !strings.ContainsAny(word, "0123456789") {
			continue // a plain word may be the name of a node, and mean none
		}
		for _, id := range ids.nodes[word] {
			if said.Node == "" && reconcile.NodeReady(id.node) {
				continue // it may be where the volume is to go
			}
			if id.driver == "" || id.driver == said.Driver {
				list = append(list, v.nodeCalled(said, word, id.node))
			}
		}
	}
	return list
}

// nodeCalled describes the node of that name or id; "" where it is the volume's own node and
// Ready, which the finding already says.
func (v *View) nodeCalled(said Said, name string, node *corev1.Node) string {
	if NodeName(node) == said.Node && reconcile.NodeReady(node) {
		return ""
	}
	text := lastPart(name) + ": "
	if node.Name != lastPart(name) {
		text += "node " + node.Name + ", "
	}
	text += v.nodeNow(node)
	if said.Volume == nil {
		return text
	}
	if volume, err := v.World.VolumeName(said.Volume); err == nil && v.InUse(node, volume) {
		text += ", has the volume in use"
	}
	return text
}

// nodeNow is whether the node is Ready, and since when it is not.
func (v *View) nodeNow(node *corev1.Node) string {
	if reconcile.NodeReady(node) {
		return "Ready"
	}
	if since := NotReadySince(node); !since.IsZero() {
		return "NotReady for " + Rounded(v.Age(since))
	}
	return "NotReady"
}

// looksLikeName reports whether the word may be the name of a node or a zone, not a plain
// English word: it has a digit, and no slash or colon.
func looksLikeName(word string) bool {
	return strings.ContainsAny(word, "0123456789") && !strings.ContainsAny(word, "/:")
}

func (v *View) lookUpVolume(said Said, name string) string {
	called := func(pv *corev1.PersistentVolume) bool {
		return pv.Name == name || pv.Spec.CSI != nil && (pv.Spec.CSI.VolumeHandle == name || lastPart(pv.Spec.CSI.VolumeHandle) == name)
	}
	if said.Volume != nil && called(said.Volume) {
		return "" // the message's own volume is named already
	}
	for _, pv := range v.Snapshot.Volumes {
		if called(pv) {
			if ref := pv.Spec.ClaimRef; ref != nil {
				return fmt.Sprintf("%s: another volume, of claim %s/%s", name, ref.Namespace, ref.Name)
			}
			return name + ": another volume, of no claim"
		}
	}
	return ""
}

// lookUpSecret says in which namespace the volume names the secret. Snapshots have no secrets:
// whether it exists is not known.
func lookUpSecret(said Said, name string) string {
	if said.Volume == nil || said.Volume.Spec.CSI == nil {
		return ""
	}
	csi := said.Volume.Spec.CSI
	for _, ref := range []*corev1.SecretReference{csi.NodeStageSecretRef, csi.NodePublishSecretRef, csi.ControllerPublishSecretRef} {
		if ref != nil && (ref.Name == name || ref.Namespace+"/"+ref.Name == name) {
			return fmt.Sprintf("secret %s: the volume names it in namespace %s", ref.Name, ref.Namespace)
		}
	}
	return ""
}

// lookUpZone counts the Ready nodes in the zone.
func (v *View) lookUpZone(zone string) string {
	if !looksLikeName(zone) || !v.Snapshot.Complete(snapshot.Nodes) {
		return ""
	}
	var ready int
	for _, node := range v.Snapshot.Nodes {
		if node.Labels[corev1.LabelTopologyZone] == zone && reconcile.NodeReady(node) {
			ready++
		}
	}
	switch ready {
	case 0:
		return "zone " + zone + ": no node there is Ready"
	case 1:
		return "zone " + zone + ": 1 node"
	default:
		return fmt.Sprintf("zone %s: %d nodes", zone, ready)
	}
}

func (v *View) lookUpClass(name string) string {
	if !v.Snapshot.Complete(snapshot.StorageClasses) || slices.ContainsFunc(v.Snapshot.StorageClasses, func(c *storagev1.StorageClass) bool { return c.Name == name }) {
		return ""
	}
	return "class " + name + ": no such StorageClass"
}

// roomOn is how many volumes of the driver are attached to the node, and how many fit, where the
// message is about a limit.
func (v *View) roomOn(said Said) string {
	if said.Node == "" || !Means(said.Driver, said.Message, driverwords.AttachLimit, driverwords.QuotaReached) {
		return ""
	}
	load := v.Loads()[NodeDriver{string(said.Node), said.Driver}]
	if load == nil {
		return ""
	}
	if !load.Limited {
		return fmt.Sprintf("node %s: %d attached, and the driver announces no limit", said.Node, len(load.Held))
	}
	return fmt.Sprintf("node %s: %d of %d attached", said.Node, len(load.Held), load.Limit)
}

// DetachMeans is the meaning of the driver's error for a detach. "In use" is then about the
// machine that has to release the volume, unless the driver's own entry says otherwise.
func DetachMeans(driver, message string) (driverwords.Entry, bool) {
	entry, known := DriverSays(driver, message)
	if known && !entry.Layer.Sure() && (entry.Meaning == driverwords.AttachedElsewhere || entry.Meaning == driverwords.MultiAttach) {
		about, _ := driverwords.DeviceBusy.About()
		entry.Meaning, entry.Actor, entry.Helps = driverwords.DeviceBusy, about.Actor, about.Helps
	}
	return entry, known
}

// Settled is the entry, or another meaning where the objects contradict it. A machine whose
// kubelet renews its lease is not gone, and a node that does not exist will not register again.
func (v *View) Settled(entry driverwords.Entry, said Said) driverwords.Entry {
	switch {
	case entry.Meaning == driverwords.MachineGone && said.Node != "" && v.Renews(said.Node):
		entry.Meaning = driverwords.NodeUnknown
	case entry.Meaning == driverwords.NodeUnknown && v.namesNoNode(said.Message):
		entry.Meaning = driverwords.NodeGone
	default:
		return entry
	}
	about, _ := entry.Meaning.About()
	entry.Actor, entry.Helps, entry.Layer = about.Actor, about.Helps, driverwords.TheObjects
	return entry
}

// namesNoNode reports whether the message names nodes and none of them exists.
func (v *View) namesNoNode(message string) bool {
	named := slices.DeleteFunc(driverwords.Apart(message).Nouns, func(noun driverwords.Noun) bool { return noun.Kind != driverwords.NodeNoun })
	return len(named) > 0 && !slices.ContainsFunc(named, func(noun driverwords.Noun) bool { return !v.noSuchNode(noun) })
}

// NodeNamed is the only node that the driver's message names; "" where it names none or several.
func (v *View) NodeNamed(driver, message string) types.NodeName {
	ids, named := keptMachineIDs.Of(v, (*View).findMachineIDs), sets.New[types.NodeName]()
	for _, noun := range driverwords.Apart(message).Nouns {
		if noun.Kind != driverwords.NodeNoun && noun.Kind != driverwords.MachineNoun {
			continue
		}
		for _, id := range ids.nodes[noun.Name] {
			if id.driver == "" || id.driver == driver {
				named.Insert(NodeName(id.node))
			}
		}
	}
	if len(named) != 1 {
		return ""
	}
	return sets.List(named)[0]
}

// noSuchNode reports whether the name looks like a node's and no node has it.
func (v *View) noSuchNode(noun driverwords.Noun) bool {
	ids := keptMachineIDs.Of(v, (*View).findMachineIDs)
	return len(ids.nodes[noun.Name]) == 0 && looksLikeName(noun.Name) && v.Snapshot.Complete(snapshot.Nodes)
}

// Renews reports whether the node is Ready and its kubelet renews its lease.
func (v *View) Renews(name types.NodeName) bool {
	node, lease := v.Snapshot.Node(name), v.Snapshot.Lease(corev1.NamespaceNodeLease, string(name))
	return reconcile.NodeReady(node) && lease != nil && lease.Spec.RenewTime != nil && v.Age(Renewed(lease)) < NodeMonitorGraceBefore132
}
