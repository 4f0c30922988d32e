package facts

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/driverwords"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/kubeletwords"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// Blame is who has to act on a volume, read from a message about it.
type Blame struct {
	// Actor is "" where the message names nobody: then the actor is whoever retries.
	Actor string
	// Permanent reports that no retry can succeed. Ends is the end of the wait, and Means the
	// meaning of the message; both are "" where the table has none.
	Permanent   bool
	Ends, Means string
	// Do and Never are the table's advice, and its warning; "" where it has none.
	Do, Never string
	// Called reports that a CSI driver has answered a call.
	Called bool
	// Passing reports that Actor comes from the message of a driver or a mount program, which
	// is worth nothing once it is old.
	Passing bool
}

// Whose holds the names that fill in the placeholders of an actor.
type Whose struct {
	Node, Driver string
	// Inline reports that the volume is defined in the pod, whose owner may change it.
	Inline bool
	// NoStorage reports that the kubelet makes the volume itself, such as one of a ConfigMap.
	NoStorage bool
	// User finds another pod that has the volume mounted on the node; nil where none is known.
	User func() *corev1.Pod
}

// BlameFor reads the message: by the kubelet's table and, where that names no actor, by the
// tables of drivers and mount programs. For a volume that a driver mounts, those count only
// where the driver answered: the kubelet's own errors are not the driver's.
func BlameFor(table []kubeletwords.Word, message string, whose Whose) Blame {
	word, _ := kubeletwords.Find(table, message)
	b := Blame{Permanent: word.Permanent, Means: word.Means, Called: whose.Driver != "" && kubeletwords.DriverAnswered(message)}
	if entry, known := MountSays(table, message, whose); known && word.Actor == "" && (b.Called || whose.Driver == "" || word.Wraps && entry.Layer.Sure()) {
		if b.Actor, b.Passing = WhoActs(entry), true; b.Actor != "" {
			b.Do = Clause(entry.Helps)
		}
	}
	user, owner := "the pod that uses it", kubeletwords.ClusterAdmin
	if strings.Contains(word.Actor, "$user") && whose.User != nil {
		if pod := whose.User(); pod != nil {
			user = "pod " + PodName(pod)
		}
	}
	if whose.Inline {
		owner = kubeletwords.WorkloadOwner
	}
	named := strings.NewReplacer("$node", whose.Node, "$driver", whose.Driver, "$user", user, "$owner", owner)
	b.Actor = cmp.Or(named.Replace(word.Actor), b.Actor)
	b.Ends, b.Do, b.Never = named.Replace(word.Ends), cmp.Or(named.Replace(word.Do), b.Do), word.Never
	return b
}

// WhoActs is who has to act after the entry's message; "" where that is open. A gRPC code alone
// names nobody, and an error that ends by itself leaves it to whoever retries.
func WhoActs(entry driverwords.Entry) string {
	if entry.Wrapper || entry.Actor.Heals() {
		return ""
	}
	return "the " + string(entry.Actor)
}

// Sharers are the other pods on the pod's node that have the same claim mounted; claim "" means
// any of the pod's claims.
func (p *View) Sharers(pod *corev1.Pod, claim string) []*corev1.Pod {
	own := []string{claim}
	if claim == "" {
		own = ClaimNames(pod)
	}
	return slices.DeleteFunc(slices.Clone(p.Snapshot.PodsOnNode(NodeOf(pod))), func(q *corev1.Pod) bool {
		return q == pod || q.Namespace != pod.Namespace || !Mounted(q) || !slices.ContainsFunc(ClaimNames(q), func(name string) bool { return slices.Contains(own, name) })
	})
}

// Whose collects the names for the actors of a message about the pod's volume.
func (p *View) Whose(pod *corev1.Pod, v *corev1.Volume, driver string) Whose {
	claim := reconcile.ClaimName(pod, v)
	return Whose{Node: pod.Spec.NodeName, Driver: driver, Inline: claim == "", NoStorage: !reconcile.CanBeAttached(v), User: func() *corev1.Pod {
		if sharers := p.Sharers(pod, claim); claim != "" && len(sharers) > 0 {
			return sharers[0]
		}
		return nil
	}}
}
