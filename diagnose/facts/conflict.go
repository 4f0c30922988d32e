package facts

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// Conflict is a single-node volume that pods on several nodes want. The attachment is right:
// the workloads contradict each other.
type Conflict struct {
	Attachment
	// Holders run on the attachment's node and nobody has asked them to go.
	Holders []*corev1.Pod
	// Waiters are on other nodes; the one that waits longest comes first.
	Waiters []*corev1.Pod
}

// Conflicts are the single-node volumes that one node holds and for which pods on other nodes
// wait.
func (p *View) Conflicts() []Conflict {
	waiting := p.Waiting()
	attached := map[corev1.UniqueVolumeName][]types.NodeName{}
	var list []Conflict
	for _, va := range p.Attachments() {
		if len(waiting[va.Volume]) == 0 || !va.Holds() {
			continue
		}
		attached[va.Volume] = append(attached[va.Volume], va.Node)
		if !va.Ours() || !StaysOn(p.Snapshot.Node(va.Node)) || !p.OneNode(va.Volume) {
			continue
		}
		c := Conflict{Attachment: va}
		for _, pod := range p.World.LivePods(va.VolumeNode) {
			// A pod that has ended is terminated-pod-holds-volume.
			if pod.DeletionTimestamp == nil && Started(pod) && !reconcile.PodTerminated(pod) {
				c.Holders = append(c.Holders, pod)
			}
		}
		for _, pod := range p.WaitingElsewhere(va.VolumeNode) {
			if p.Rivals(c.Holders, BoundAt(pod)) {
				c.Waiters = append(c.Waiters, pod)
			}
		}
		if len(c.Holders) > 0 && len(c.Waiters) > 0 {
			list = append(list, c)
		}
	}
	// A volume that is attached to several nodes is two-vas-one-rwo, which is worse.
	return slices.DeleteFunc(list, func(c Conflict) bool {
		return slices.ContainsFunc(attached[c.Volume], func(node types.NodeName) bool { return node != c.Node })
	})
}

// StaysOn reports whether a pod stays on the node until somebody deletes it. It does on a lost
// node, too: a pod that was evicted there is Terminating, which is node-lost-6min.
func StaysOn(node *corev1.Node) bool {
	return node != nil && (reconcile.NodeReady(node) || !reconcile.OutOfService(node))
}

// Rivals reports whether a pod that has waited since then counts as a rival of the holders.
func (p *View) Rivals(holders []*corev1.Pod, since metav1.Time) bool {
	if slices.ContainsFunc(holders, RunsOn) {
		return p.Lasted(since, ConflictGrace)
	}
	return p.Lasted(since, ConflictFails)
}

// RunsOn reports whether nothing but a deletion ends the pod: its containers are started
// again, and nobody has asked it to go.
func RunsOn(pod *corev1.Pod) bool { return pod.DeletionTimestamp == nil && startedAgain(pod) }

func startedAgain(pod *corev1.Pod) bool {
	return pod.Spec.RestartPolicy == corev1.RestartPolicyAlways || pod.Spec.RestartPolicy == ""
}

// WaitedInVain reports whether the pod was a rival of the holder before the holder was deleted:
// the eviction from a lost node begins no new wait.
func WaitedInVain(waiter, holder *corev1.Pod) bool {
	grace := ConflictFails
	if startedAgain(holder) {
		grace = ConflictGrace
	}
	return BoundAt(waiter).Add(grace).Before(EndAsked(holder).Time)
}

// ConflictSeverity is the severity of a wait for another pod's volume since then: an error once a
// person who moves the pod by hand would have ended it.
func (p *View) ConflictSeverity(since metav1.Time) finding.Severity {
	if p.Lasted(since, ConflictFails) {
		return finding.Error
	}
	return finding.Warning
}

// Rollout is a pair of pods of one Deployment: the old one holds the volume,
// the new one waits for it.
type Rollout struct {
	Namespace, Deployment string
	From, To              *corev1.Pod
}

// Rollout finds the pair by the names of the ReplicaSets, which are the Deployment's name and the
// template's hash. An old pod that nobody has deleted, beside a new one that waits, proves the
// rollout stuck, whatever the Deployment's status. Both pods may have the same creation time, as
// the API server keeps whole seconds.
func (c Conflict) Rollout() (Rollout, bool) {
	for _, to := range c.Waiters {
		for _, from := range c.Holders {
			name := snapshot.DeploymentOf(to)
			if name != "" && from.Namespace == to.Namespace && snapshot.DeploymentOf(from) == name && Ready(from) &&
				templateHash(from) != templateHash(to) && !to.CreationTimestamp.Before(&from.CreationTimestamp) {
				return Rollout{to.Namespace, name, from, to}, true
			}
		}
	}
	return Rollout{}, false
}
