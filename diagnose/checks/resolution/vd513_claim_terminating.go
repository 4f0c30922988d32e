package resolution

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var ClaimTerminating = check.Check{
	Code:        "VD513",
	Name:        "claim-terminating",
	Title:       "A claim has been Terminating for long: a pod or a finalizer keeps it",
	Severity:    finding.Warning,
	Needs:       []snapshot.Kind{snapshot.Pods, snapshot.Claims, snapshot.Volumes},
	OfNamespace: true,
	Never:       "take the finalizer off: a pod may have the volume mounted, and the disk may go with the claim",
	Run:         runClaimTerminating,
}

// claimDeletionGrace is how long a claim may be Terminating: its pods end and are unmounted, and
// other finalizers, such as a snapshot's, take some calls.
const claimDeletionGrace = 2*reconcile.CSITimeout + 6*time.Minute

// protection is the finalizer that the PVC protection controller removes once no pod on a node
// names the claim, whether its containers run or have ended (Controller.podUsesPVC,
// pkg/controller/volume/pvcprotection, 1.37).
const protection = "kubernetes.io/pvc-protection"

func runClaimTerminating(p *check.Run) {
	users := map[types.NamespacedName][]*corev1.Pod{} // of the claims that have been Terminating for long
	for _, claim := range p.Snapshot.Claims {
		if claim.DeletionTimestamp != nil && p.Age(*claim.DeletionTimestamp) > claimDeletionGrace {
			users[types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}] = nil
		}
	}
	if len(users) == 0 {
		return
	}
	for _, pod := range p.Snapshot.Pods {
		if pod.Spec.NodeName == "" {
			continue
		}
		for _, name := range facts.ClaimNames(pod) {
			key := types.NamespacedName{Namespace: pod.Namespace, Name: name}
			if _, asked := users[key]; asked {
				users[key] = append(users[key], pod)
			}
		}
	}
	for _, claim := range p.Snapshot.Claims {
		if pods, asked := users[types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}]; asked {
			claimTerminating(p, claim, facts.LongestFirst(pods))
		}
	}
}

func claimTerminating(p *check.Run, claim *corev1.PersistentVolumeClaim, users []*corev1.Pod) {
	name := claim.Namespace + "/" + claim.Name
	f := finding.Finding{
		Subject: facts.ClaimObject(claim),
		Since:   claim.DeletionTimestamp, PersistentVolume: claim.Spec.VolumeName,
		Evidence: []finding.Evidence{{Object: "persistentvolumeclaim/" + name, Field: "metadata.finalizers", Value: strings.Join(claim.Finalizers, ", ")}},
	}
	holds := func(who, detail, why string) {
		f.Message = fmt.Sprintf("Claim %s is stuck in Terminating: %s", name, who)
		f.Detail, f.Cause = detail, why
	}
	var live, ended []*corev1.Pod
	for _, pod := range users {
		if reconcile.PodTerminated(pod) {
			ended = append(ended, pod)
		} else {
			live = append(live, pod)
		}
	}
	const deleted = "its deletion cannot be taken back"
	switch {
	case !slices.Contains(claim.Finalizers, protection):
		holds("finalizers of other programs keep it", "the finalizers are "+strings.Join(claim.Finalizers, ", "), "whoever put the finalizers on has not taken them off")
		f.SelfHeals.Because = "whoever put the finalizers on has to remove them"
		f.Never = "take the finalizers off: what their program has yet to do is left out"
		f.Advice = whoPutsOn(claim.Finalizers)
		if k, known := facts.KnownFinalizer(claim.Finalizers[0]); known && len(claim.Finalizers) == 1 {
			holds("the "+k.Program+" keeps it for "+k.For, "the finalizer is "+claim.Finalizers[0], "the "+k.Program+" has not taken its finalizer off")
			f.SelfHeals.Because = "the " + k.Program + " still needs it for " + k.For
			if k.Kind != "" {
				f.AdviceCommands = []string{safetext.Kubectl("get", k.Kind, "-n", claim.Namespace)}
			}
		}
	case len(live) > 0:
		started := slices.DeleteFunc(slices.Clone(live), facts.IsPending) // one that is yet to start does not wait for this
		if f.Pods = facts.PodNames(started); len(started) == 0 {
			f.Never = "take the finalizer off: the disk may go with the claim"
		}
		holds(fmt.Sprintf("pod %s on node %s uses it", facts.PodName(live[0]), live[0].Spec.NodeName), othersToo(live), "the claim was deleted while pods name it; "+deleted)
		f.SelfHeals.Because = "it goes once no pod on a node names it"
		f.Advice = "{note} before the last of its pods ends, decide about the data: with the reclaim policy Delete the disk goes with the claim, Retain keeps it"
		if pv := p.Snapshot.Volume(claim.Spec.VolumeName); pv != nil && deletes(pv) {
			f.Severity = finding.Error // its data is at risk
			f.Advice = fmt.Sprintf("{note} before the last of its pods ends, decide about the data: the disk goes with the claim, unless volume %s gets the reclaim policy Retain", pv.Name)
			f.AdviceCommands = []string{facts.Retain(pv)}
			f.Evidence = append(f.Evidence, finding.Evidence{Object: "persistentvolume/" + pv.Name, Field: "spec.persistentVolumeReclaimPolicy", Value: "Delete"})
		}
	case len(ended) > 0:
		f.Pods = facts.PodNames(ended)
		holds(fmt.Sprintf("pod %s, which has ended, names it", facts.PodName(ended[0])), othersToo(ended), "a pod that has ended keeps its claims until it is deleted; "+deleted)
		f.SelfHeals.Because = "it goes once the pods that name it are deleted"
		f.Never = "take the finalizer off: the disk may go with the claim"
		f.Advice = "if the data are not wanted, {delete-pod}, or the Job that made it"
	default:
		holds("its finalizer "+protection+" stays", "no pod on a node names it", "kube-controller-manager takes that finalizer off, and has not")
		f.SelfHeals.Because = "it should have gone within seconds; kube-controller-manager takes the finalizer off where it works"
		f.Never = "take the finalizer off: the disk may go with the claim"
		f.Advice = "{check} look whether kube-controller-manager runs and leads, and what its log says about the claim"
		f.AdviceCommands = []string{safetext.Kubectl("get", "lease/kube-controller-manager", "-n", "kube-system")}
	}
	waiting := slices.DeleteFunc(slices.Clone(p.ClaimUsers(claim)), func(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" || !facts.IsPending(pod) })
	if len(waiting) > 0 {
		f.Pods = append(f.Pods, facts.PodNames(waiting)...)
		slices.Sort(f.Pods)
		facts.Also(&f, "pod %s gets no node as long as the claim goes", facts.PodName(waiting[0]))
		f.Severity = finding.Error
	}
	f.Cause = finding.Clauses(f.Cause, p.NamespaceLeaves(claim.Namespace))
	p.Report(f)
}

// othersToo counts the pods except for the first.
func othersToo(pods []*corev1.Pod) string {
	switch len(pods) {
	case 1:
		return ""
	case 2:
		return "another pod does, too"
	default:
		return fmt.Sprintf("%d other pods do, too", len(pods)-1)
	}
}
