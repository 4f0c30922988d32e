package resolution

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var ClaimGoneUnderPod = check.Check{
	Code:     "VD514",
	Name:     "claim-gone-under-pod",
	Title:    "A pod runs, and its claim or volume is gone or was made again",
	Severity: finding.Warning,
	Needs:    check.AttachmentKinds(),
	OfDriver: true,
	Yields: []check.Yield{
		{To: "VD121", Key: volumeOnNode},
	},
	Never: "delete or restart anything before the data is safe: what comes after the pod does not start, or gets an empty disk",
	Run:   runClaimGoneUnderPod,
}

func volumeOnNode(_ *facts.View, f finding.Finding) string {
	if f.PersistentVolume == "" {
		return ""
	}
	return f.PersistentVolume + " " + string(f.Node)
}

func runClaimGoneUnderPod(p *check.Run) {
	for _, pod := range p.Snapshot.Pods {
		claims := facts.ClaimNames(pod)
		if len(claims) == 0 || pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil || reconcile.PodTerminated(pod) {
			continue
		}
		since := ranSince(pod)
		if since.IsZero() || !p.Lasted(since, facts.ListsGrace) {
			continue
		}
		for _, name := range claims {
			if lost := whatIsLost(p.View, pod, name, since); lost != nil {
				claimGoneUnderPod(p, pod, lost)
			}
		}
	}
}

// ranSince is the earliest start of a container in the pod's status, of the run at present or the
// one before; zero where no container runs.
func ranSince(pod *corev1.Pod) metav1.Time {
	since := facts.RunningSince(pod)
	if since.IsZero() {
		return since
	}
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		for _, ended := range []*corev1.ContainerStateTerminated{c.State.Terminated, c.LastTerminationState.Terminated} {
			if ended != nil && !ended.StartedAt.IsZero() && ended.StartedAt.Before(&since) {
				since = ended.StartedAt
			}
		}
	}
	// By a slow clock it would have run before its creation.
	return facts.Latest(since, pod.CreationTimestamp)
}

// lostClaim is a fault in a claim of a running pod.
type lostClaim struct {
	name  string
	claim *corev1.PersistentVolumeClaim // nil where it is gone
	// volume is the claim's volume now; nil where there is none.
	volume *corev1.PersistentVolume
	// again is when the claim, or else its volume, was recreated.
	again metav1.Time
	// says is the loss, for a headline, and detail the rest.
	says, detail string
}

// whatIsLost examines the claim of a pod that has run since then. The kubelet waits for the claim
// and the volume before it starts a container, so a younger one is not the one that it mounted.
func whatIsLost(p *facts.View, pod *corev1.Pod, name string, since metav1.Time) *lostClaim {
	claim := p.Snapshot.Claim(facts.ClaimKey(pod, name))
	lost := &lostClaim{name: pod.Namespace + "/" + name, claim: claim}
	if claim == nil {
		lost.says = fmt.Sprintf("its claim %s is gone", lost.name)
		return lost
	}
	lost.volume = p.Snapshot.Volume(claim.Spec.VolumeName)
	if claim.Status.Phase == corev1.ClaimLost || lost.volume != nil && !leadsBack(claim, lost.volume) {
		return nil // pvc-lost-or-double-claim and claimref-stale report these
	}
	switch {
	case madeUnder(claim.CreationTimestamp, pod, since) && !hasDisk(p, pod, lost.volume, since):
		lost.again, lost.says = claim.CreationTimestamp, fmt.Sprintf("its claim %s was made again", lost.name)
		lost.detail = fmt.Sprintf("the claim was deleted and made again at %s", facts.Stamp(claim.CreationTimestamp))
		if lost.volume != nil {
			lost.detail += fmt.Sprintf(" and now leads to volume %s, which the pod does not have", lost.volume.Name)
		} else {
			lost.detail += ", and has no volume"
		}
	case claim.Spec.VolumeName != "" && lost.volume == nil:
		lost.says = fmt.Sprintf("volume %s of its claim %s is gone", claim.Spec.VolumeName, lost.name)
	case lost.volume != nil && madeUnder(lost.volume.CreationTimestamp, pod, since) && !hasDisk(p, pod, lost.volume, since):
		lost.again = lost.volume.CreationTimestamp
		lost.says = fmt.Sprintf("volume %s of its claim %s was made again", lost.volume.Name, lost.name)
		lost.detail = fmt.Sprintf("the volume was deleted and made again at %s with a disk that the pod does not have", facts.Stamp(lost.again))
	default:
		return nil
	}
	return lost
}

// leadsBack reports whether the volume's claimRef names the claim, with its UID or with none.
func leadsBack(claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) bool {
	ref := pv.Spec.ClaimRef
	return ref != nil && ref.Namespace == claim.Namespace && ref.Name == claim.Name && (ref.UID == "" || ref.UID == claim.UID)
}

// madeUnder reports whether the object was made after the pod was bound, by the API server's
// clock, and after its container started, by the node's.
func madeUnder(made metav1.Time, pod *corev1.Pod, since metav1.Time) bool {
	bound := facts.BoundAt(pod)
	return made.After(bound.Time) && made.After(since.Add(snapshot.ClockTolerance))
}

// hasDisk reports whether the pod may still have the volume's disk, because only an object was
// recreated for it. Its node then reports the disk in use. For a disk that is attached nowhere, a
// volume that is younger than the pod is the only sign.
func hasDisk(p *facts.View, pod *corev1.Pod, pv *corev1.PersistentVolume, since metav1.Time) bool {
	if pv == nil {
		return false
	}
	disk, err := p.World.VolumeName(pv)
	node := p.Snapshot.Node(types.NodeName(pod.Spec.NodeName))
	if err != nil || node == nil {
		return !madeUnder(pv.CreationTimestamp, pod, since) || pv.Spec.CSI == nil || !p.AttachRequired(pv.Spec.CSI.Driver)
	}
	return p.InUse(node, disk)
}

func claimGoneUnderPod(p *check.Run, pod *corev1.Pod, lost *lostClaim) {
	f := finding.Finding{
		Subject: facts.PodObject(pod), Node: types.NodeName(pod.Spec.NodeName), Pods: facts.PodNames([]*corev1.Pod{pod}),
		Message: fmt.Sprintf("Pod %s runs on node %s, and %s", facts.PodName(pod), pod.Spec.NodeName, lost.says),
		Detail:  finding.Clauses("the pod runs with its data", lost.detail),
		Cause:   "somebody deleted the claim past its finalizer kubernetes.io/pvc-protection, which keeps it as long as a pod uses it",
	}
	if !lost.again.IsZero() {
		f.Since = &lost.again
	}
	object := "persistentvolumeclaim/" + lost.name
	var kept []*corev1.PersistentVolume
	if lost.claim == nil {
		f.Evidence = append(f.Evidence, finding.Evidence{Object: object, Field: "metadata.name", Value: "there is no such object"})
		namespace, name, _ := strings.Cut(lost.name, "/")
		kept = volumesOfClaim(p.View, namespace, name)
	} else {
		f.Evidence = append(f.Evidence,
			finding.Evidence{Object: object, Field: "metadata.creationTimestamp", Value: facts.Stamp(lost.claim.CreationTimestamp)},
			finding.Evidence{Object: object, Field: "spec.volumeName", Value: orNone(lost.claim.Spec.VolumeName)})
		f.PersistentVolume = lost.claim.Spec.VolumeName
		kept = keptOf(p.View, lost.claim)
	}
	f.Evidence = append(f.Evidence, finding.Evidence{Object: "pod/" + facts.PodName(pod), Field: "status.containerStatuses", Value: "runs since " + facts.Stamp(ranSince(pod))})
	if lost.claim != nil && lost.claim.CreationTimestamp != lost.again {
		f.Cause = "somebody deleted the volume past its finalizer kubernetes.io/pv-protection, which keeps it as long as it is bound"
	}
	f.SelfHeals.Because = fmt.Sprintf("%s; %s", afterRestart(p.View, pod, lost.name), afterPod(pod, lost))
	save := fmt.Sprintf("save the data from within pod %s while it runs", facts.PodName(pod))
	if !reconcile.NodeReady(p.Snapshot.Node(f.Node)) && !facts.Outstays(pod) {
		f.Message = fmt.Sprintf("Pod %s ran on node %s, which is lost, and %s", facts.PodName(pod), pod.Spec.NodeName, lost.says)
		f.Detail = finding.Clauses("nobody knows whether the pod still runs with its data", lost.detail)
		save = fmt.Sprintf("{fix} bring node %s back, and %s", f.Node, save)
		f.SelfHeals = finding.SelfHeals{Unknown: true, Because: fmt.Sprintf("kube-controller-manager deletes the pod unless node %s returns in time; %s", f.Node, f.SelfHeals.Because)}
	}
	f.Advice, f.AdviceCommands = saveUnderPod(lost, kept, save)
	for _, pv := range kept {
		f.Evidence = append(f.Evidence, finding.Evidence{Object: "persistentvolume/" + pv.Name, Field: "spec.claimRef",
			Value: fmt.Sprintf("%s; %s, reclaim policy %s", claimRefText(pv), pv.Status.Phase, pv.Spec.PersistentVolumeReclaimPolicy)})
		if f.PersistentVolume == "" && len(kept) == 1 {
			f.PersistentVolume = pv.Name
		}
		if deletes(pv) && f.Severity != finding.Error {
			f.Severity = finding.Error
			facts.Also(&f, "volume %s of the earlier claim has the reclaim policy Delete: its disk is deleted once it is detached", pv.Name)
		}
	}
	p.Report(f)
}

func orNone(name string) string {
	if name == "" {
		return "none"
	}
	return name
}

// keptForgotten are the pairs that a restarted kube-controller-manager does not want.
var keptForgotten facts.Kept[[]reconcile.Forgotten]

// afterRestart is what a restarted kube-controller-manager does with the pod. The one at work
// keeps what it looked up when it first saw the pod; a new one looks it up again, and does not
// find the pod's volume.
func afterRestart(p *facts.View, pod *corev1.Pod, claim string) string {
	const forgets = "kube-controller-manager counts the pod only until it restarts"
	self := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	for _, lost := range keptForgotten.Of(p, func(p *facts.View) []reconcile.Forgotten { return p.World.Forgotten() }) {
		d := p.Plan.Decision(lost.VolumeNode)
		if d == nil || lost.Node != types.NodeName(pod.Spec.NodeName) || !slices.Contains(lost.Pods, self) {
			continue
		}
		forced := ""
		if d.Verb == reconcile.ForceDetach {
			forced = facts.Rounded(d.After)
		}
		for _, until := range d.Until {
			if until.Event == reconcile.MaxWaitForUnmount && until.Then == reconcile.ForceDetach {
				forced = facts.Rounded(until.After)
			}
		}
		switch {
		case forced != "":
			return fmt.Sprintf("%s; it then detaches the volume from node %s by force, under the pod, %s later", forgets, lost.Node, forced)
		case d.Verb == reconcile.Detach:
			return fmt.Sprintf("%s; it then detaches the volume from node %s immediately", forgets, lost.Node)
		case d.Verb == reconcile.Wait:
			return fmt.Sprintf("%s; it then detaches the volume as soon as node %s no longer reports it in use, or by force once that node is not Ready", forgets, lost.Node)
		}
	}
	return fmt.Sprintf("%s; the kubelet cannot mount the volume again without claim %s and its volume", forgets, claim)
}

// afterPod is what happens to the pod's successor.
func afterPod(pod *corev1.Pod, lost *lostClaim) string {
	switch {
	case lost.claim == nil && facts.ControlledBy(pod, "StatefulSet"):
		return "the StatefulSet makes a new claim for the next pod of this name, and that one gets an empty volume"
	case lost.claim == nil:
		return "a pod that takes its place does not start without the claim"
	case lost.volume != nil:
		return fmt.Sprintf("a pod that takes its place gets volume %s", lost.volume.Name)
	case lost.claim.Spec.VolumeName != "":
		return "a pod that takes its place does not start without the volume"
	default:
		return "a pod that takes its place waits for the claim, and gets an empty volume once that has one"
	}
}

// saveUnderPod is how to keep the data, beginning with save, and then how the objects may lead to
// it again.
func saveUnderPod(lost *lostClaim, kept []*corev1.PersistentVolume, save string) (advice string, commands []string) {
	var goWith []string
	for _, pv := range kept {
		if deletes(pv) {
			goWith, commands = append(goWith, pv.Name), append(commands, facts.Retain(pv))
		}
	}
	if len(commands) > 0 {
		advice = fmt.Sprintf("{do} {note} keep the disk: {change} set the reclaim policy of volume %s to Retain; ", strings.Join(goWith, " and that of "))
	}
	advice += fmt.Sprintf("{do} {note} %s: leave the pod, its volume and its VolumeAttachment as they are until then", save)
	switch {
	case lost.claim != nil && lost.claim.Spec.VolumeName != "" && lost.volume == nil:
		advice += fmt.Sprintf("; {do} {change} make PersistentVolume %s again with the driver and handle of the disk, reclaim policy Retain and a claimRef with the claim's UID",
			lost.claim.Spec.VolumeName)
	case len(kept) != 1 || goes(kept[0]):
		advice += "; {do} {note} find out which disk the pod has, by its node and at the storage system, before anything else is changed"
	case lost.claim == nil:
		advice += fmt.Sprintf("; {do} make claim %s again with volumeName %s, and {final} take the UID out of that volume's claimRef: the pod counts as its user again", lost.name, kept[0].Name)
	case lost.volume == nil:
		advice += fmt.Sprintf("; {do} {final} take the UID out of the claimRef of volume %s, if that is the pod's: the claim is bound to it, and the pod counts as its user again", kept[0].Name)
	default:
		advice += fmt.Sprintf("; the pod's disk is most likely that of volume %s, which no pod gets as long as the claim leads to volume %s", kept[0].Name, lost.volume.Name)
	}
	return advice, commands
}
