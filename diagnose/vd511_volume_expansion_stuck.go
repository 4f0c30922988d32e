package diagnose

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var volumeExpansionStuck = Check{
	Code:     "VD511",
	Name:     "volume-expansion-stuck",
	Title:    "A claim has asked for more room and does not get it, or keeps a pod from starting for it",
	Severity: Warning,
	Needs:    []snapshot.Kind{snapshot.Pods, snapshot.Nodes, snapshot.Claims},
	Run:      runVolumeExpansionStuck,
}

const (
	// expansionSettles is how long an expansion may be under way: the resizer tries
	// at most 5 min apart, and the kubelet, which takes a pod up again within about
	// 1.5 min, at most 2m2s apart. Twice the former.
	expansionSettles = 10 * time.Minute
	// expansionSaid is how recent the kubelet's word must be that a mount failed
	// over it: one attempt each 2m2s, of which each may take 2 min.
	expansionSaid = 5 * time.Minute
)

func runVolumeExpansionStuck(p *Pass) {
	all := p.pendingPods()
	if slices.ContainsFunc(p.Snapshot.Claims, func(claim *corev1.PersistentVolumeClaim) bool { return len(claim.Status.Conditions) > 0 }) {
		all = p.Snapshot.Pods // else nothing is asked of those that run
	}
	users := map[types.NamespacedName][]*corev1.Pod{}
	for _, pod := range all {
		for i := range pod.Spec.Volumes {
			if name := reconcile.ClaimName(pod, &pod.Spec.Volumes[i]); name != "" && p.Snapshot.Node(nodeOf(pod)) != nil {
				users[claimKey(pod, name)] = append(users[claimKey(pod, name)], pod)
			}
		}
	}
	for _, claim := range p.Snapshot.Claims {
		pods := users[types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}]
		longestFirst(pods)
		if pod, said := p.blockedByExpansion(claim, pods); pod != nil {
			p.expansionBlocks(claim, pod, said)
			continue
		}
		if state, since := p.expansionState(claim, pods); state != "" && p.Age(since) >= expansionSettles {
			p.expansionStuck(claim, state, since, slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool { return !mounted(pod) }))
		}
	}
}

// blockedByExpansion is a pod that does not start because its volume cannot be
// made larger while it is mounted, and the kubelet's word for it. The kubelet
// mounts such a volume first and expands it then; until that ends well the pod
// does not come to its containers (expandVolumeDuringMount).
func (p *Pass) blockedByExpansion(claim *corev1.PersistentVolumeClaim, pods []*corev1.Pod) (*corev1.Pod, *corev1.Event) {
	for _, pod := range pending(pods) {
		if reconcile.PodTerminated(pod) || p.Age(boundAt(pod)) < expansionSaid {
			continue
		}
		for _, e := range p.Snapshot.EventsOf(pod.UID) {
			m := mountFailed.FindStringSubmatch(e.Message)
			if m != nil && containsAny(m[1], "while expanding volume") && m[2] == claim.Spec.VolumeName && p.Age(eventTime(e)) < expansionSaid {
				return pod, e
			}
		}
	}
	return nil, nil
}

// expansionState says in which state the claim's expansion has come to a stop,
// and since when; "" where it has not. One that waits for a node waits for a pod
// there, and is stuck only where one runs.
func (p *Pass) expansionState(claim *corev1.PersistentVolumeClaim, pods []*corev1.Pod) (state string, since metav1.Time) {
	for _, c := range claim.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		if c.Type == corev1.PersistentVolumeClaimControllerResizeError || c.Type == corev1.PersistentVolumeClaimNodeResizeError {
			return string(c.Type), c.LastTransitionTime
		}
		if c.Type == corev1.PersistentVolumeClaimFileSystemResizePending {
			if i := slices.IndexFunc(pods, func(pod *corev1.Pod) bool { return mounted(pod) && pod.DeletionTimestamp == nil }); i >= 0 {
				state, since = string(c.Type), latest(c.LastTransitionTime, boundAt(pods[i]))
			}
		}
	}
	return state, since
}

func (p *Pass) expansionFinding(claim *corev1.PersistentVolumeClaim) Finding {
	asked, has := claim.Spec.Resources.Requests[corev1.ResourceStorage], claim.Status.Capacity[corev1.ResourceStorage]
	f := Finding{
		Subject:          Object{Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
		PersistentVolume: claim.Spec.VolumeName,
		Evidence: []Evidence{{"persistentvolumeclaim/" + claim.Namespace + "/" + claim.Name, "spec.resources.requests.storage",
			fmt.Sprintf("%s; status.capacity.storage: %s", asked.String(), has.String())}},
	}
	for _, c := range claim.Status.Conditions {
		if c.Status == corev1.ConditionTrue && containsAny(string(c.Type), "resiz") {
			f.Evidence = append(f.Evidence, Evidence{"persistentvolumeclaim/" + claim.Namespace + "/" + claim.Name, "status.conditions[" + string(c.Type) + "]",
				fmt.Sprintf("since %s: %q", stamp(c.LastTransitionTime), c.Message)})
		}
	}
	if status := claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage]; status != "" {
		f.Evidence = append(f.Evidence, Evidence{"persistentvolumeclaim/" + claim.Namespace + "/" + claim.Name, "status.allocatedResourceStatuses.storage", string(status)})
	}
	return f
}

func (p *Pass) expansionBlocks(claim *corev1.PersistentVolumeClaim, pod *corev1.Pod, said *corev1.Event) {
	since := boundAt(pod)
	f := p.expansionFinding(claim)
	f.Severity, f.Since, f.Pods = Error, &since, podNames([]*corev1.Pod{pod})
	f.Message = fmt.Sprintf("Pod %s waits on node %s: its claim %s is mounted, and its volume cannot be made larger there, without which the pod does not start",
		podName(pod), pod.Spec.NodeName, claim.Name)
	f.Cause = "the file system is read-only or damaged, or the driver on the node refuses; the kubelet's words tell"
	f.Evidence = append(f.Evidence, Evidence{"pod/" + podName(pod), "event " + said.Reason, said.Message})
	f.SelfHeals.Because = "the kubelet tries again at most 2m2s apart, and fails as long as the driver or the file system does"
	f.Advice = "mend what the driver or the file system's tool complains of, on the node; to ask for the old size again does not undo what the storage system has done"
	p.Report(f)
}

func (p *Pass) expansionStuck(claim *corev1.PersistentVolumeClaim, state string, since metav1.Time, users []*corev1.Pod) {
	f := p.expansionFinding(claim)
	f.Since, f.Pods = &since, podNames(users)
	who := "and the attempts fail"
	f.SelfHeals.Because = "it is tried again at most some minutes apart, and fails as long as the cause is there; pods that run are not affected"
	switch corev1.PersistentVolumeClaimConditionType(state) {
	case corev1.PersistentVolumeClaimControllerResizeError:
		f.Cause = "the storage system refuses: no quota, no room, or a limit on how often a volume may grow"
		f.Advice = "see the resizer's words in the condition and in the claim's events. From 1.34 on a size that cannot be had may be lowered, to no less than the volume has"
	case corev1.PersistentVolumeClaimNodeResizeError:
		f.Cause = "the disk has grown, and its file system cannot be: the driver on the node refuses, or the file system is damaged or read-only"
		f.Advice = "see the kubelet's words in the condition and in the events of the pod; where the file system is the trouble, end the pod and let it be checked"
	default:
		f.Severity = Info
		who = "and waits for the file system to grow on the node"
		f.Cause = "the driver expands a file system only while it mounts it, or the kubelet has not come to it"
		f.SelfHeals.Because = "the disk has grown already; the file system follows at the next mount at the latest, that is, when the pod is made anew"
		f.Advice = "let the pods that use the claim be made anew when it suits"
	}
	f.Message = fmt.Sprintf("Claim %s/%s has asked for more room since %s %s", claim.Namespace, claim.Name, stamp(since), who)
	p.Report(f)
}
