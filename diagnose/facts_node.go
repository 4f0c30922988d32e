package diagnose

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// lostWait is a volume for one node at a time that pods wait for and that a
// lost node still has.
type lostWait struct {
	attachment
	// waiters are on other nodes; the one that waits longest comes first.
	waiters []*corev1.Pod
	// holders are Terminating on the lost node and still count as users; where
	// there is none the controller counts down, for wait, which is zero where
	// it never detaches by force.
	holders []*corev1.Pod
	wait    time.Duration
}

// lostWaits are the waits that are the running check's.
func (p *Pass) lostWaits() []lostWait {
	waiting, orphaned := p.waiting(), p.orphaned()
	var list []lostWait
	for _, va := range p.attachments() {
		w := lostWait{attachment: va, waiters: elsewhere(waiting[va.Volume], va.Node)}
		if len(w.waiters) == 0 {
			continue
		}
		node := p.Snapshot.Node(va.Node)
		if !va.holds() || !va.ours() || !p.oneNode(va.Volume) || reconcile.NodeReady(node) {
			continue
		}
		w.holders = p.World.LivePods(va.VolumeNode)
		if p.loss(w, orphaned[va.Spec.Attacher]) != p.check.Code {
			continue
		}
		if len(w.holders) > 0 {
			if allDeleting(w.holders) {
				list = append(list, w)
			}
			continue // a pod that nobody has asked to go has the older right
		}
		row, decision := p.World.Actual[va.VolumeNode], p.Plan.Decision(va.VolumeNode)
		if row == nil || decision == nil || decision.Verb != reconcile.Wait || (node != nil && row.AssumedMounted) {
			continue // not known to be mounted there: nothing to wait for
		}
		w.wait = decision.After
		list = append(list, w)
	}
	return list
}

// loss is the code that a wait for a lost node is reported under.
func (p *Pass) loss(w lostWait, orphaned *orphans) Code {
	node := p.Snapshot.Node(w.Node)
	switch {
	case node == nil && orphaned != nil:
		return "VD118" // hibernation-orphans-vas
	case p.recreated(w.attachment):
		return "VD114" // va-recreated-on-dead-node
	case len(w.holders) == 0 && p.shutDown(node) != nil:
		return "VD111" // graceful-shutdown-leaves-inuse
	case preemption(node) != "":
		return "VD117" // spot-preemption
	default:
		return "VD102" // node-lost-6min
	}
}

// shutDownBefore is how long before the node ceased to be Ready a pod may have
// been ended by its shutdown. The kubelet says that it shuts down as it begins,
// the API server notes the silence some 50 s later; grace periods of the nodes
// that use them are minutes. A pod that an earlier shutdown ended stays listed.
const shutDownBefore = 10 * time.Minute

// shutDown is a pod that the kubelet ended because it shut its node down, just
// before the node was lost; nil where there is none.
func (p *Pass) shutDown(node *corev1.Node) *corev1.Pod {
	lost := notReadySince(node)
	if lost.IsZero() {
		return nil
	}
	for _, pod := range p.Snapshot.PodsOnNode(nodeName(node)) {
		ended := endedAt(pod)
		if pod.Status.Phase == corev1.PodFailed && slices.Contains(shutDownReasons, pod.Status.Reason) && containsAny(pod.Status.Message, "shut") &&
			!ended.IsZero() && lost.Sub(ended.Time).Abs() <= shutDownBefore {
			return pod
		}
	}
	return nil
}

// shutDownReasons are the kubelet's, of 1.22 and later and of 1.20 and 1.21.
var shutDownReasons = []string{"Terminated", "Shutdown"}

// preemption is the sign on a node of a spot pool that its provider takes the
// machine away; "" where there is none. The pool alone is no sign: spot nodes
// fail as others do.
func preemption(node *corev1.Node) string {
	if node == nil || reconcile.NodeReady(node) || !slices.ContainsFunc(spotLabels, func(l [2]string) bool { return strings.EqualFold(node.Labels[l[0]], l[1]) }) {
		return ""
	}
	for _, taint := range node.Spec.Taints {
		if slices.Contains(preemptionTaints, taint.Key) {
			return taint.Key
		}
	}
	return ""
}

var spotLabels = [][2]string{
	{"karpenter.sh/capacity-type", "spot"},
	{"eks.amazonaws.com/capacityType", "spot"},
	{"cloud.google.com/gke-spot", "true"},
	{"cloud.google.com/gke-preemptible", "true"},
	{"kubernetes.azure.com/scalesetpriority", "spot"},
	{"node.kubernetes.io/lifecycle", "spot"},
}

// preemptionTaints are set by termination handlers, and by the cloud's node
// controller once the provider says that the machine is off.
var preemptionTaints = []string{
	"aws-node-termination-handler/spot-itn",
	"cloud.google.com/impending-node-termination",
	cloudShutdownTaint,
}

const cloudShutdownTaint = "node.cloudprovider.kubernetes.io/shutdown"

// recreated says that the VolumeAttachment was made while its node was already
// lost, for a pod that had run there before: somebody deleted the first one,
// and the controller, to which the pod still wants the volume, made it anew.
func (p *Pass) recreated(va attachment) bool {
	lost := notReadySince(p.Snapshot.Node(va.Node))
	return !lost.IsZero() && va.CreationTimestamp.After(lost.Time) && !deleting(va.VolumeAttachment) && va.ours() &&
		p.World.Desired[va.VolumeNode] != nil && len(p.ranBefore(va.VolumeNode, lost)) > 0
}

// ranBefore are the pods that still want the volume on the node and had it
// mounted there before the moment.
func (p *Pass) ranBefore(pair reconcile.VolumeNode, moment metav1.Time) []*corev1.Pod {
	return slices.DeleteFunc(p.wantingPods(p.World.Desired[pair]), func(pod *corev1.Pod) bool {
		bound := boundAt(pod)
		return !started(pod) || !bound.Before(&moment)
	})
}

// renewedLease says when the node's kubelet last renewed its lease; nothing
// where there is no lease.
func (p *Pass) renewedLease(node types.NodeName) []Evidence {
	lease := p.Snapshot.Lease("kube-node-lease", string(node))
	if lease == nil || lease.Spec.RenewTime == nil {
		return nil
	}
	renewed := metav1.NewTime(lease.Spec.RenewTime.Time)
	return []Evidence{{"lease/kube-node-lease/" + string(node), "spec.renewTime", fmt.Sprintf("%s, %s ago", stamp(renewed), rounded(p.Age(renewed)))}}
}

// MachineNotFound says that a driver's message tells of a node or a machine
// that it does not find. A volume or a secret that is missing is another matter.
func MachineNotFound(message string) bool {
	found := machineMissing.FindString(message)
	return found != "" && !containsAny(found, "volume", "disk", "secret", "resource")
}

var machineMissing = regexp.MustCompile(`(?i)(node|instance|machine|vm|server|droplet)(.*?)` +
	`(not found|notfound|wasn't found|not exist|doesn't exist|has no nodeid annotation|does not contain driver)|` +
	`(not|cannot|couldn't|failed to|unable to) find (the )?(node|instance|(virtual ?)?machine|vm|server|droplet)\b|` +
	`no such (node|instance|(virtual ?)?machine|vm|server|droplet)`)

func nodeNameOf(pod *corev1.Pod) types.NodeName { return types.NodeName(pod.Spec.NodeName) }

// attachedElsewhere is an attachment of the volume to a node that exists, other
// than the given one: of several the first by the node's name; nil where there is
// none.
func (p *Pass) attachedElsewhere(pair reconcile.VolumeNode) *attachment {
	var first *attachment
	for _, va := range p.attachmentsOf(pair.Volume) {
		if va.Node != pair.Node && p.Snapshot.Node(va.Node) != nil && va.holds() && va.ours() && (first == nil || va.Node < first.Node) {
			first = &va
		}
	}
	return first
}
