package resolution

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/kubeletwords"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var VolumeExpansionStuck = check.Check{
	Code:        "VD511",
	Name:        "volume-expansion-stuck",
	Title:       "A claim has asked for more room and does not get it, or keeps a pod from starting for it",
	Severity:    finding.Warning,
	Needs:       []snapshot.Kind{snapshot.Pods, snapshot.Nodes, snapshot.Claims},
	OfNamespace: true,
	Follows: []check.Relation{
		{From: []finding.Code{"VD624"}, Match: waitsForResizer},
	},
	Never: "edit a capacity by hand: the file system then never grows",
	Run:   runVolumeExpansionStuck,
}

const (
	// expansionGrace is how long an expansion may take: the resizer's pauses are longer than the
	// kubelet's.
	expansionGrace = 2 * facts.ResizerMaxBackoff
	// expansionSaid is how recent the kubelet's event about a failed expansion must be.
	expansionSaid = facts.KubeletRetries
)

func runVolumeExpansionStuck(p *check.Run) {
	all := p.PendingPods()
	if slices.ContainsFunc(p.Snapshot.Claims, func(claim *corev1.PersistentVolumeClaim) bool { return len(claim.Status.Conditions) > 0 }) {
		all = p.Snapshot.Pods // otherwise nothing is read about those that run
	}
	users := map[types.NamespacedName][]*corev1.Pod{}
	for _, pod := range all {
		for i := range pod.Spec.Volumes {
			if name := reconcile.ClaimName(pod, &pod.Spec.Volumes[i]); name != "" && p.Snapshot.Node(facts.NodeOf(pod)) != nil {
				users[facts.ClaimKey(pod, name)] = append(users[facts.ClaimKey(pod, name)], pod)
			}
		}
	}
	for _, claim := range p.Snapshot.Claims {
		pods := facts.LongestFirst(users[types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}])
		if pod, said := blockedByExpansion(p.View, claim, pods); pod != nil {
			expansionBlocks(p, claim, pod, said)
			continue
		}
		if state, since := expansionState(p.View, claim, pods); state != "" && p.Lasted(since, expansionGrace) {
			expansionStuck(p, claim, state, since, slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool { return !facts.Mounted(pod) }))
		}
	}
}

// blockedByExpansion is a pod that does not start because its volume cannot be expanded on the
// node, and the kubelet's event about that. The kubelet mounts such a volume and then expands it;
// it starts no container before that succeeds (expandVolumeDuringMount).
func blockedByExpansion(p *facts.View, claim *corev1.PersistentVolumeClaim, pods []*corev1.Pod) (*corev1.Pod, *corev1.Event) {
	for _, pod := range facts.Pending(pods) {
		if reconcile.PodTerminated(pod) || !p.Lasted(facts.BoundAt(pod), expansionSaid) {
			continue
		}
		for _, f := range p.MountFailures(pod, claim.Spec.VolumeName) {
			if facts.ContainsAny(f.Step, kubeletwords.WhileExpanding) && p.Age(snapshot.EventTime(f.Event)) < expansionSaid {
				return pod, f.Event
			}
		}
		for _, e := range slices.Backward(facts.InOrder(p.EventsOf(pod))) {
			m := kubeletwords.Failed.FindStringSubmatch(e.Message)
			if slices.Contains(expansionFailed, e.Reason) && m != nil && m[2] == claim.Spec.VolumeName && p.Age(snapshot.EventTime(e)) < expansionSaid {
				return pod, e
			}
		}
	}
	return nil, nil
}

// expansionFailed are the reasons of a kubelet's event about a volume that it could not expand.
var expansionFailed = []string{"VolumeResizeFailed", "FileSystemResizeFailed"}

// expansionState is the state in which the claim's expansion has stopped, and since when; ""
// where it has not. One that needs a node waits for a pod, and is stuck only where one runs.
func expansionState(p *facts.View, claim *corev1.PersistentVolumeClaim, pods []*corev1.Pod) (state string, since metav1.Time) {
	for _, c := range claim.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		if c.Type == corev1.PersistentVolumeClaimControllerResizeError || c.Type == corev1.PersistentVolumeClaimNodeResizeError {
			return string(c.Type), c.LastTransitionTime
		}
		// A resizer before 1.32 reports a failure only in an event.
		if c.Type == corev1.PersistentVolumeClaimResizing && resizeFailed(p, claim) != nil {
			return string(corev1.PersistentVolumeClaimControllerResizeError), c.LastTransitionTime
		}
		if c.Type == corev1.PersistentVolumeClaimFileSystemResizePending {
			if i := slices.IndexFunc(pods, func(pod *corev1.Pod) bool { return facts.Mounted(pod) && pod.DeletionTimestamp == nil }); i >= 0 {
				state, since = string(c.Type), facts.Latest(c.LastTransitionTime, facts.BoundAt(pods[i]))
			}
		}
	}
	if begins := nobodyBegins(p, claim); state == "" && !begins.IsZero() {
		return notBegun, begins
	}
	return state, since
}

// notBegun is the state of an expansion that no resizer has started.
const notBegun = "NotBegun"

// nobodyBegins is since when kube-controller-manager has left the expansion to a resizer, without
// a sign of one: a resizer begins with a condition. It is zero where one has begun, or where no
// event shows when the claim asked.
func nobodyBegins(p *facts.View, claim *corev1.PersistentVolumeClaim) (since metav1.Time) {
	if !facts.Grows(claim) || claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage] != "" || facts.ClaimCondition(claim, corev1.PersistentVolumeClaimResizing) != nil {
		return since
	}
	for _, e := range p.Snapshot.EventsAbout("PersistentVolumeClaim", claim) {
		if e.Reason == "ExternalExpanding" && facts.SaidSince(e, claim.CreationTimestamp) {
			since = facts.Latest(since, snapshot.EventTime(e))
		}
	}
	return since
}

// waitsForResizer reports whether the cause is the resizer of the claim's driver, and the disk is
// still to be changed. The rest is the kubelet's task.
func waitsForResizer(p *facts.View, cause, effect finding.Finding) bool {
	claim := p.Snapshot.Claim(types.NamespacedName{Namespace: effect.Subject.Namespace, Name: effect.Subject.Name})
	return claim != nil && (facts.Grows(claim) || facts.Modifies(claim)) && check.SameDriver(p, cause, effect)
}

// resizeFailed is the resizer's latest event about the claim, where it is recent and reports a
// failure; else nil.
func resizeFailed(p *facts.View, claim *corev1.PersistentVolumeClaim) *corev1.Event {
	for _, e := range slices.Backward(facts.InOrder(p.Snapshot.EventsAbout("PersistentVolumeClaim", claim))) {
		if e.Reason == "VolumeResizeFailed" && p.Age(snapshot.EventTime(e)) < expansionGrace {
			return e
		}
	}
	return nil
}

// capacityOf is the claim's size in parentheses; "" where its status has none.
func capacityOf(claim *corev1.PersistentVolumeClaim) string {
	if has, known := claim.Status.Capacity[corev1.ResourceStorage]; known {
		return " (" + has.String() + ")"
	}
	return ""
}

func expansionFinding(claim *corev1.PersistentVolumeClaim) finding.Finding {
	asked, has := claim.Spec.Resources.Requests[corev1.ResourceStorage], claim.Status.Capacity[corev1.ResourceStorage]
	f := finding.Finding{
		Subject:          facts.ClaimObject(claim),
		PersistentVolume: claim.Spec.VolumeName,
		Evidence: []finding.Evidence{{Object: "persistentvolumeclaim/" + facts.ClaimName(claim), Field: "spec.resources.requests.storage",
			Value: fmt.Sprintf("%s; status.capacity.storage: %s", asked.String(), has.String())}},
	}
	for _, c := range claim.Status.Conditions {
		if c.Status == corev1.ConditionTrue && facts.ContainsAny(string(c.Type), "resiz") {
			f.Evidence = append(f.Evidence, finding.Evidence{Object: "persistentvolumeclaim/" + facts.ClaimName(claim), Field: "status.conditions[" + string(c.Type) + "]",
				Value: fmt.Sprintf("since %s: %q", facts.Stamp(c.LastTransitionTime), c.Message)})
		}
	}
	if status := claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage]; status != "" {
		f.Evidence = append(f.Evidence, finding.Evidence{Object: "persistentvolumeclaim/" + facts.ClaimName(claim), Field: "status.allocatedResourceStatuses.storage", Value: string(status)})
	}
	return f
}

func expansionBlocks(p *check.Run, claim *corev1.PersistentVolumeClaim, pod *corev1.Pod, said *corev1.Event) {
	f := expansionFinding(claim)
	f.Severity, f.Since, f.Pods = finding.Error, new(facts.BoundAt(pod)), facts.PodNames([]*corev1.Pod{pod})
	f.Message = fmt.Sprintf("Pod %s waits on node %s: the volume of claim %s cannot grow", facts.PodName(pod), pod.Spec.NodeName, claim.Name)
	f.Detail = "the claim is mounted, and its volume cannot be made larger there, without which the pod does not start"
	f.Said = facts.QuoteEvent(said)
	f.Cause = "the file system is read-only or damaged, or the driver on the node refuses; the kubelet's words tell"
	f.Advice = "{fix} fix what the driver or the file system's tool reports, on the node"
	if strings.Contains(said.Message, kubeletwords.NoNodeExpansion) {
		f.Cause = "the kubelet asks the driver's node plugin to expand the volume, as the claim's status has less than the volume, and this plugin expands none"
		f.Advice = "{check} see why the driver's resizer has not written the claim's new size (status.capacity): its log, and the claim's events; " +
			"once that is the volume's size, the kubelet asks for no expansion"
		f.AdviceCommands = []string{safetext.Kubectl("describe", "persistentvolumeclaim/"+claim.Name, "-n", claim.Namespace)}
	}
	f.Evidence = append(f.Evidence, finding.Evidence{Object: "pod/" + facts.PodName(pod), Field: "event " + said.Reason, Value: said.Message})
	f.SelfHeals.Because = "the kubelet retries, at most 2m2s apart, and fails; the expansion does as long as the driver or the file system does"
	f.Never = "ask for the old size again: that does not undo what the storage system has done"
	p.Report(f)
}

// ownEnds matches a storage system's limit on how often a volume may be changed, with its length.
var ownEnds = regexp.MustCompile(`(?i)\bwait (?:at least|for) (\d+) (second|minute|hour)s?\b`)

// ownEnd is how long the limit in the message lasts; zero where there is none.
func ownEnd(message string) time.Duration {
	m := ownEnds.FindStringSubmatch(message)
	if m == nil {
		return 0
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		return 0
	}
	return time.Duration(n) * map[string]time.Duration{"second": time.Second, "minute": time.Minute, "hour": time.Hour}[strings.ToLower(m[2])]
}

// limited reports an expansion that only such a limit holds up. The last change was before the
// attempts began, so the limit ends by then at the latest.
func limited(p *check.Run, f finding.Finding, claim *corev1.PersistentVolumeClaim, end time.Time) {
	f.Severity = finding.Info
	f.Message = fmt.Sprintf("Claim %s/%s asks for more room sooner than its volume may be changed again", claim.Namespace, claim.Name)
	f.Detail = "it has asked since " + facts.Stamp(*f.Since)
	f.Cause = "the storage system limits how often a volume may be changed"
	f.SelfHeals = finding.SelfHeals{Will: true, After: facts.Rounded(end.Sub(p.Snapshot.TakenAt)), Because: "the resizer tries again at most some minutes apart, and succeeds once the limit has passed; pods that run are not affected"}
	f.Advice, f.AdviceCommands = "{note} wait until the limit has passed; for more room before that, {change} copy the data to a claim that is large enough", nil
	p.Report(f)
}

func expansionStuck(p *check.Run, claim *corev1.PersistentVolumeClaim, state string, since metav1.Time, users []*corev1.Pod) {
	f := expansionFinding(claim)
	f.Since, f.Pods = &since, facts.PodNames(users)
	who := "and the attempts fail"
	f.SelfHeals.Because = "each attempt fails as long as the cause is there; it is tried again at most some minutes apart; pods that run are not affected"
	switch corev1.PersistentVolumeClaimConditionType(state) {
	case corev1.PersistentVolumeClaimControllerResizeError:
		f.Cause = "the storage system refuses: no quota, no room, or a limit on how often a volume may grow"
		if e := resizeFailed(p.View, claim); e != nil {
			f.Evidence = append(f.Evidence, finding.Evidence{Object: "persistentvolumeclaim/" + facts.ClaimName(claim), Field: "event " + e.Reason, Value: e.Message})
			f.Said = facts.QuoteEvent(e)
			if end := since.Add(ownEnd(e.Message)); end.After(p.Snapshot.TakenAt) {
				limited(p, f, claim, end)
				return
			}
		}
		f.Advice = fmt.Sprintf("{check} read the resizer's message in the condition and the events of claim %s/%s. ", claim.Namespace, claim.Name) +
			"From 1.32 on, unless the gate RecoverVolumeExpansionFailure is off, a size that cannot be had may be lowered, to anything above what the volume has" + capacityOf(claim)
		f.AdviceCommands = []string{safetext.Kubectl("describe", "persistentvolumeclaim/"+claim.Name, "-n", claim.Namespace)}
	case corev1.PersistentVolumeClaimNodeResizeError:
		f.Cause = "the disk has grown, and its file system cannot be: the driver on the node refuses, or the file system is damaged or read-only"
		f.Advice = "{check} read the kubelet's message in the condition and in the events of the pod; where the file system is the trouble, {final} end the pod and let it be checked"
	case notBegun:
		who = "and nobody has begun"
		driver := p.BoundDriver(claim)
		f.Cause = "no external-resizer serves the driver, or it does not run, or it may not change the claim; a storage class may allow what its driver cannot do"
		f.Evidence = append(f.Evidence, finding.Evidence{Object: "persistentvolumeclaim/" + facts.ClaimName(claim), Field: "status.conditions", Value: "none of an expansion"})
		f.SelfHeals.Because = "the driver's external-resizer has given no sign; kube-controller-manager leaves the expansion to that; pods that run are not affected"
		f.Advice = fmt.Sprintf("{check} see whether the controller pods of driver %s run with an external-resizer, and what its log says; where the driver has none, its volumes cannot grow", driver)
		switch {
		case driver == "" && !p.Snapshot.Complete(snapshot.Volumes):
			f.Cause = "no external-resizer serves the volume's driver, or it does not run, or it may not change the claim; which driver that is is not known"
			f.Advice = "{check} see of which driver the volume is, and whether its controller pods run with an external-resizer"
		case driver == "":
			f.Cause = "the volume is not one of a CSI driver, and nobody else makes it larger; a storage class may allow what its provisioner cannot do"
			f.Advice = "{reversible} move the data to a larger volume: nobody makes this one larger"
		}
	default:
		f.Severity = finding.Info
		who = "and its file system is still to grow"
		f.Cause = "the driver expands a file system only while it mounts it, or the kubelet has not tried yet"
		f.SelfHeals.Because = "the disk has grown already; the file system follows at the next mount at the latest, that is, when the pod is recreated"
		f.Advice = "{final} recreate the pods that use the claim when it suits"
	}
	f.Message = fmt.Sprintf("Claim %s/%s asks for more room, %s", claim.Namespace, claim.Name, who)
	f.Detail = "it has asked since " + facts.Stamp(since)
	p.Report(f)
}
