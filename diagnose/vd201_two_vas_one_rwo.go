package diagnose

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var twoVAsOneRWO = Check{
	Code:     "VD201",
	Name:     "two-vas-one-rwo",
	Title:    "A volume that one node at a time may use is attached to several",
	Severity: Error,
	Needs: []snapshot.Kind{
		snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSIDrivers, snapshot.Leases,
	},
	Run: runTwoVAsOneRWO,
}

// handOver is how long a volume may be on its way from one node to another: the
// controller's time-out for an unmount, after which it detaches the old node by
// force. One that has just started counts from its own start.
const handOver = 6 * time.Minute

func runTwoVAsOneRWO(p *Pass) {
	if p.controllerYounger(handOver) {
		return
	}
	for _, va := range p.attachments() {
		all := p.attachmentsOf(va.Volume)
		if len(all) < 2 || all[0].Name != va.Name {
			continue
		}
		// The attachments of nodes that are gone, and those that nothing uses,
		// endanger nobody's data; they are failures of their own.
		vas := slices.DeleteFunc(slices.Clone(all), func(va attachment) bool {
			return !va.holds() || p.Age(va.CreationTimestamp) < handOver || p.Snapshot.Node(va.Node) == nil || p.forgotten(va.VolumeNode)
		})
		slices.SortStableFunc(vas, func(a, b attachment) int { return strings.Compare(string(a.Node), string(b.Node)) })
		if len(vas) > 0 && vas[0].Node != vas[len(vas)-1].Node && p.oneNode(va.Volume) {
			p.twoAttachments(va.Volume, vas)
		}
	}
}

func (p *Pass) twoAttachments(volume corev1.UniqueVolumeName, vas []attachment) {
	pv := p.World.Volume(volume)
	f := Finding{
		Subject:          Object{Kind: "PersistentVolume", Name: pv.Name, UID: pv.UID},
		Volume:           volume,
		PersistentVolume: pv.Name,
		Evidence:         []Evidence{{"persistentvolume/" + pv.Name, "spec.accessModes", fmt.Sprint(pv.Spec.AccessModes)}},
		SelfHeals:        SelfHeals{Because: "the controller compares attachments only before it makes one; to it both are wanted or mounted"},
		Advice: "stop all writers but one by ending its pod the ordinary way, and let its node unmount; the controller then detaches it. Do not delete " +
			"a VolumeAttachment while its node has the volume mounted, and check the file system before the volume is used again",
		Cause: "an attach went ahead while another node still had the volume: after a failed detach, after a forced one from a node that lived, " +
			"or by another program's VolumeAttachment",
	}
	var nodes []types.NodeName
	var users []*corev1.Pod
	for _, va := range vas {
		if !slices.Contains(nodes, va.Node) {
			nodes = append(nodes, va.Node)
			users = append(users, p.World.LivePods(va.VolumeNode)...)
		}
		if f.Since == nil || f.Since.Before(&va.CreationTimestamp) {
			f.Since = &va.CreationTimestamp
		}
		f.Evidence = append(f.Evidence, Evidence{va.object(), "status.attached", fmt.Sprintf("true on node %s, not being deleted", va.Node)})
	}
	f.Pods = podNames(users)
	f.Message = fmt.Sprintf("Volume %s may be used by one node at a time and is attached to %s at once", pv.Name, nodeList(nodes))
	if len(users) > 0 {
		f.Message += ": " + podPlaces(users)
	} else {
		f.Message += ", though no pod uses it"
	}
	p.Report(f)
}

func nodeList(nodes []types.NodeName) string {
	names := make([]string, 0, len(nodes))
	for _, node := range nodes {
		names = append(names, string(node))
	}
	return "nodes " + strings.Join(names, " and ")
}

// podPlaces says which pod is where, and whether it has come to use its volumes.
func podPlaces(pods []*corev1.Pod) string {
	places := make([]string, 0, len(pods))
	for _, pod := range pods {
		verb := "waits"
		if started(pod) {
			verb = "runs"
		}
		places = append(places, fmt.Sprintf("pod %s %s on %s", podName(pod), verb, pod.Spec.NodeName))
	}
	return strings.Join(places, ", ")
}
