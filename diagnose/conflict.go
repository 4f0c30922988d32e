package diagnose

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// conflictSettles is how long a pod must have waited for a volume that another
// pod holds before the two count as rivals. A hand-over between pods of one
// workload ends within it: the old pod is told to go before or as the new one
// comes, and then is no rival however long it takes to end.
const conflictSettles = 3 * time.Minute

// conflict is a volume for one node at a time that pods on several nodes want.
// The attachment is right; the workloads are at odds.
type conflict struct {
	attachment
	// holders run on the attachment's node and nobody has asked them to go.
	holders []*corev1.Pod
	// waiters are on other nodes; the one that waits longest comes first.
	waiters []*corev1.Pod
}

func (p *Pass) conflicts() []conflict {
	waiting := p.waiting()
	attached := map[corev1.UniqueVolumeName][]types.NodeName{}
	var list []conflict
	for _, va := range p.attachments() {
		if len(waiting[va.Volume]) == 0 || !va.holds() {
			continue
		}
		attached[va.Volume] = append(attached[va.Volume], va.Node)
		if !va.ours() || !reconcile.NodeReady(p.Snapshot.Node(va.Node)) || !p.oneNode(va.Volume) {
			continue // a node that is lost is node-lost-6min
		}
		c := conflict{attachment: va}
		for _, pod := range p.World.LivePods(va.VolumeNode) {
			// One that has ended is terminated-pod-holds-volume.
			if pod.DeletionTimestamp == nil && started(pod) && !reconcile.PodTerminated(pod) {
				c.holders = append(c.holders, pod)
			}
		}
		for _, pod := range elsewhere(waiting[va.Volume], va.Node) {
			if p.Age(boundAt(pod)) >= conflictSettles {
				c.waiters = append(c.waiters, pod)
			}
		}
		if len(c.holders) > 0 && len(c.waiters) > 0 {
			list = append(list, c)
		}
	}
	// Attached to several nodes it is two-vas-one-rwo, and the worse for it.
	return slices.DeleteFunc(list, func(c conflict) bool {
		return slices.ContainsFunc(attached[c.Volume], func(node types.NodeName) bool { return node != c.Node })
	})
}

// rollout is a pair of pods of one Deployment: the old one holds the volume,
// the new one waits for it.
type rollout struct {
	namespace, deployment string
	from, to              *corev1.Pod
}

// rollout finds the pair by the names of the ReplicaSets, which are the
// Deployment's and the template's hash. So old a pod that nobody has asked to
// go, beside a new one that waits, is proof enough that the roll-out does not
// go on, whatever the Deployment says. The API server keeps whole seconds, in
// which both may have been made.
func (c conflict) rollout() (rollout, bool) {
	for _, to := range c.waiters {
		for _, from := range c.holders {
			name := deploymentOf(to)
			if name != "" && from.Namespace == to.Namespace && deploymentOf(from) == name && ready(from) &&
				templateHash(from) != templateHash(to) && !to.CreationTimestamp.Before(&from.CreationTimestamp) {
				return rollout{to.Namespace, name, from, to}, true
			}
		}
	}
	return rollout{}, false
}
