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

// Blame is what the words about one volume say of who has to act.
type Blame struct {
	// Actor is "" where the words do not tell: then it is who tries again.
	Actor string
	// Permanent reports that no retry can succeed, Ends what ends the wait, "" where the
	// words do not tell, and Means what they mean.
	Permanent   bool
	Ends, Means string
	// Called reports that a CSI driver has answered a call.
	Called bool
	// Passing reports that the words name the actor for the moment at which they were said:
	// those of a driver, which are of no use once they are old.
	Passing bool
}

// Whose is what the actors of words are named after.
type Whose struct {
	Node, Driver string
	// Inline reports that the volume stands in the pod, whose owner may change it.
	Inline bool
	// NoStorage reports that the kubelet makes the volume itself, as that of a ConfigMap.
	NoStorage bool
	// User finds the pod that has the volume on the node beside the one that waits; nil
	// where none is known.
	User func() *corev1.Pod
}

// BlameFor reads the words: the kubelet's by its table, and what that leaves to who speaks
// by what drivers and mount programs say. Of a volume that a driver mounts, the kubelet's
// own errors are none of those.
func BlameFor(table []kubeletwords.Word, message string, whose Whose) Blame {
	word, _ := kubeletwords.Find(table, message)
	b := Blame{Permanent: word.Permanent, Means: word.Means, Called: whose.Driver != "" && kubeletwords.DriverAnswered(message)}
	if entry, known := MountSays(table, message, whose); known && word.Actor == "" && (b.Called || whose.Driver == "") {
		b.Actor, b.Passing = WhoActs(entry), true
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
	b.Ends = named.Replace(word.Ends)
	return b
}

// WhoActs is who has to act after the words, "" where they do not tell: a code alone does
// not, and what ends by itself has no actor but who tries again.
func WhoActs(entry driverwords.Entry) string {
	if entry.Wrapper || entry.Actor.Heals() {
		return ""
	}
	return "the " + string(entry.Actor)
}

// Sharers are the other pods on the pod's node that have the claim in common with it and
// have it mounted; with claim "" any of the pod's claims.
func (p *View) Sharers(pod *corev1.Pod, claim string) []*corev1.Pod {
	own := []string{claim}
	if claim == "" {
		own = ClaimNames(pod)
	}
	return slices.DeleteFunc(slices.Clone(p.Snapshot.PodsOnNode(NodeOf(pod))), func(q *corev1.Pod) bool {
		return q == pod || q.Namespace != pod.Namespace || !Mounted(q) || !slices.ContainsFunc(ClaimNames(q), func(name string) bool { return slices.Contains(own, name) })
	})
}

// Whose is what the actors of words about the pod's volume are named after.
func (p *View) Whose(pod *corev1.Pod, v *corev1.Volume, driver string) Whose {
	claim := reconcile.ClaimName(pod, v)
	return Whose{Node: pod.Spec.NodeName, Driver: driver, Inline: claim == "", NoStorage: !reconcile.CanBeAttached(v), User: func() *corev1.Pod {
		if sharers := p.Sharers(pod, claim); claim != "" && len(sharers) > 0 {
			return sharers[0]
		}
		return nil
	}}
}
