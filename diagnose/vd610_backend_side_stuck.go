package diagnose

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var backendSideStuck = Check{
	Code:     "VD610",
	Name:     "backend-side-stuck",
	Title:    "A driver's words hint that the storage system itself is stuck",
	Severity: Info,
	Needs: []snapshot.Kind{
		snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSIDrivers, snapshot.CSINodes,
	},
	Run: runBackendSideStuck,
}

func runBackendSideStuck(p *Pass) {
	for _, driver := range p.attachers() {
		for _, t := range p.tasks(driver) {
			// A detach that fails is va-stuck-deleting, whatever the words.
			if t.DeletionTimestamp != nil || t.failure == nil || p.Age(t.failure.Time) >= attacherSilent {
				continue
			}
			if hint, settles := p.backendHint(t.failure.Message); hint != "" && p.Age(t.since) >= settles {
				p.backendStuck(t, hint)
			}
		}
	}
}

// backendHint says what the driver's words hint at, and how long that may pass
// as a delay; "" where they speak of something else. Only what the driver itself
// said counts: that comes as an RPC error, unlike the attacher's own words.
func (p *Pass) backendHint(message string) (string, time.Duration) {
	switch {
	case !strings.HasPrefix(message, "rpc error: ") || throttled(message):
		return "", 0
	case p.foreignHolder(message) != "":
		return fmt.Sprintf("the volume is attached to %s, which is no node of this cluster: another cluster or a person uses it", p.foreignHolder(message)), stuckDeleting
	case containsAny(message, "device is busy", "disk is busy", "volume is busy", "being detached", "BeingDetached", "is detaching", "is attaching", "being attached",
		"provisioning state"):
		return "an earlier operation on the disk or the machine has not ended there", stuckDeleting
	case containsAny(message, "InvalidVolume.NotFound", "code = NotFound") && !containsAny(message, "node", "instance", "server", "machine"):
		return "the storage system does not know the volume: it was deleted there, or is in another account, project or region", stuckDeleting
	case unanswered(message):
		return "the driver or its storage system does not answer in time", outageSettles
	default:
		return "", 0
	}
}

var (
	holderWords = regexp.MustCompile(`(?i)already attached|already being used|currently attached|in use by`)
	// holders are how some providers write a machine: EC2's id, and the end of
	// Google's and Azure's paths.
	holderNames = regexp.MustCompile(`\b(i-[0-9a-f]{8,17})\b|(?:instances|virtualMachines)/([A-Za-z0-9-]+)`)
)

// foreignHolder is the machine that the message says has the volume, if it is
// named and no node of this cluster is that.
func (p *Pass) foreignHolder(message string) string {
	if !holderWords.MatchString(message) {
		return ""
	}
	found := ""
	for _, match := range holderNames.FindAllStringSubmatch(message, -1) {
		name := match[1] + match[2]
		if p.isNode(name) {
			continue // the node that the attach is for is mostly named as well
		}
		if found != "" {
			return "" // which of them is meant is not clear
		}
		found = name
	}
	return found
}

func (p *Pass) isNode(machine string) bool {
	return p.remember().machines.get(p.findMachines).Has(machine)
}

// findMachines finds what the cluster's machines are called: by the node's name
// or the first part of it, by the provider's id and by the drivers' ids, or the
// last part of those.
func (p *Pass) findMachines() sets.Set[string] {
	machines := sets.New[string]()
	for _, node := range p.Snapshot.Nodes {
		short, _, _ := strings.Cut(node.Name, ".")
		machines.Insert(node.Name, short, node.Spec.ProviderID, lastPart(node.Spec.ProviderID))
	}
	for _, csiNode := range p.Snapshot.CSINodes {
		for _, d := range csiNode.Spec.Drivers {
			machines.Insert(d.NodeID, lastPart(d.NodeID))
		}
	}
	return machines
}

func (p *Pass) backendStuck(t task, hint string) {
	pair, ok := p.taskPair(t)
	pods := p.taskPods([]task{t})
	if !ok || len(pods) == 0 {
		return // nobody waits: an attempt that is left over
	}
	f := Finding{
		Subject:          Object{Kind: "VolumeAttachment", Name: t.Name, UID: t.UID},
		Volume:           pair.Volume,
		Node:             pair.Node,
		PersistentVolume: p.shortVolume(pair.Volume),
		VolumeAttachment: t.Name,
		Pods:             podNames(pods),
		Since:            &t.since,
		Message: fmt.Sprintf("Pod %s waits on node %s for volume %s, and the driver's words hint at the storage system: %q",
			podName(pods[0]), t.Spec.NodeName, p.taskVolume(t), t.failure.Message),
		Cause:     hint + "; that is a hint from the words alone, no object shows it",
		Evidence:  taskEvidence([]task{t}),
		SelfHeals: SelfHeals{Because: "the attacher asks the driver again, at most 5 min apart, and the attach goes on once the storage system lets it"},
		Advice: "look at the volume and the machine in the storage system's own console or tools, and act there; the objects in the cluster are as they should be, " +
			"and deleting them changes nothing there",
	}
	p.Report(f)
}
