package facts

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// StaysOn reports whether a pod stays on the node until somebody deletes it. It does on a lost
// node, too: a pod that was evicted there is Terminating, which is node-lost-6min.
func StaysOn(node *corev1.Node) bool {
	return node != nil && (reconcile.NodeReady(node) || !reconcile.OutOfService(node))
}

// RunsOn reports whether nothing but a deletion ends the pod: its containers are started
// again, and nobody has asked it to go.
func RunsOn(pod *corev1.Pod) bool { return pod.DeletionTimestamp == nil && startedAgain(pod) }

func startedAgain(pod *corev1.Pod) bool {
	return pod.Spec.RestartPolicy == corev1.RestartPolicyAlways || pod.Spec.RestartPolicy == ""
}

// WaitedInVain reports whether the pod was a rival of the holder before the holder was deleted. It
// then does not wait because of that deletion, as where a lost node's pods are evicted.
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
