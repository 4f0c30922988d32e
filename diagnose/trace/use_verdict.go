package trace

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// concerns reports whether the finding is about the claim, the volume or its disk.
func (u *useTracer) concerns(f finding.Finding) bool {
	switch {
	case f.Subject.UID != "" && f.Subject.UID == u.Subject.UID:
		return true
	case u.pv != nil && (f.PersistentVolume == u.pv.Name || f.Volume != "" && f.Volume == u.PersistentVolume.Volume):
		return true
	case u.claim != nil && f.Subject.Kind == "PersistentVolumeClaim" && f.Subject.Namespace == u.key.Namespace && f.Subject.Name == u.key.Name:
		return true
	case f.Volume != "" || f.PersistentVolume != "":
		return false
	}
	// a finding about the pod's driver or node
	return slices.ContainsFunc(u.Pods, func(p UsingPod) bool { return p.Wait != "" && f.Names(p.Pod) })
}

// waitRank orders the verdicts on pods, the worst first.
var waitRank = []finding.WaitState{finding.Stuck, finding.InFlight, finding.Unsure}

// judge is the verdict: a waiting pod comes before the objects themselves.
func (u *useTracer) judge() UseVerdict {
	waiting := slices.DeleteFunc(slices.Clone(u.Pods), func(p UsingPod) bool { return p.Wait == "" })
	slices.SortStableFunc(waiting, func(a, b UsingPod) int {
		return cmp.Compare(slices.Index(waitRank, a.Wait), slices.Index(waitRank, b.Wait))
	})
	if len(waiting) > 0 && waiting[0].Wait != finding.Unsure {
		p := waiting[0]
		v := UseVerdict{State: p.Wait, Message: p.Message, Actor: p.Actor, Since: p.Since}
		if n := len(waiting) - 1; n > 0 {
			v.Message += fmt.Sprintf("; %d more of its pods wait", n)
		}
		return v
	}
	if v, ends := u.judgeEnd(); ends {
		return v
	}
	if len(waiting) > 0 {
		return UseVerdict{State: finding.Unsure, Message: waiting[0].Message}
	}
	if u.Claim != nil && u.Claim.Binding != nil {
		return u.judgeUnbound(*u.Claim.Binding)
	}
	if u.claim == nil && u.pv != nil {
		if v, ok := u.judgeFree(); ok {
			if len(u.NotKnown) > 0 && v.State == finding.NoWait {
				v.State, v.Message = finding.Unsure, fmt.Sprintf("%s; whether anything waits for it is not known: not all %s could be read", v.Message, u.NotKnown[0].Because)
			}
			return v
		}
	}
	if len(u.NotKnown) > 0 {
		return UseVerdict{State: finding.Unsure, Message: fmt.Sprintf("Whether anything waits for %s is not known: not all %s could be read", u.name(), u.NotKnown[0].Because)}
	}
	return UseVerdict{State: finding.NoWait, Message: u.inUse()}
}

// name is the subject in a sentence.
func (u *useTracer) name() string {
	if u.Subject.Kind == "PersistentVolume" {
		return "volume " + u.Subject.Name
	}
	return "claim " + u.key.String()
}

// judgeEnd is the verdict on a claim or a volume that is Terminating: its own deletion waits.
func (u *useTracer) judgeEnd() (UseVerdict, bool) {
	what, object, since := "", finding.Object{}, (*metav1.Time)(nil)
	switch {
	case u.claim != nil && u.claim.DeletionTimestamp != nil:
		what, since = "Claim "+u.key.String(), u.claim.DeletionTimestamp
		object = finding.Object{UID: u.claim.UID}
	case u.pv != nil && u.pv.DeletionTimestamp != nil:
		what, since = "Volume "+u.pv.Name, u.pv.DeletionTimestamp
		object = finding.Object{UID: u.pv.UID}
	default:
		return UseVerdict{}, false
	}
	var by []string
	for _, k := range u.Kept {
		if k.Object.UID == object.UID && k.Holds == Yes {
			by = append(by, k.By+" ("+k.Finalizer+")")
		}
	}
	v := UseVerdict{State: finding.InFlight, Since: since, Message: what + " is Terminating"}
	switch {
	case len(by) > 0:
		v.Message += ", and kept by " + strings.Join(by, ", ")
	case slices.ContainsFunc(u.Kept, func(k Keeper) bool { return k.Object.UID == object.UID && k.Holds == Unknown }):
		v.State = finding.Unsure
		v.Message += "; what keeps it is not known: not everything could be read"
	default:
		v.Message += ", and no finalizer is known to keep it"
	}
	if u.warned() {
		v.State = finding.Stuck
	}
	return v, true
}

// warned reports whether a certain finding warns about the claim or the volume.
func (u *useTracer) warned() bool {
	return slices.ContainsFunc(u.Findings, func(f finding.Brief) bool { return f.Severity.AtLeast(finding.Warning) && f.Whole.Confidence == "" })
}

// judgeUnbound is the verdict on a claim without a volume, or whose volume does not name it.
func (u *useTracer) judgeUnbound(s Stage) UseVerdict {
	name := "Claim " + u.key.String()
	switch unbound := u.Unbound(u.claim); {
	case s.State == StageUnknown || !u.knows(snapshot.Pods, u.key.Namespace):
		return UseVerdict{State: finding.Unsure, Message: fmt.Sprintf("Whether anything waits for %s is not known: %s", u.name(), cmp.Or(s.Detail, "not all pods could be read"))}
	case u.claim.Spec.VolumeName == "" && unbound.ForNode && len(u.Pods) > 0 && !slices.ContainsFunc(u.Pods, func(p UsingPod) bool { return p.Node != "" }):
		return UseVerdict{State: finding.NoWait, Message: fmt.Sprintf("%s is bound once pod %s has a node, which the pod waits for, and not for a volume (WaitForFirstConsumer)", name, u.Pods[0].Pod)}
	case u.claim.Spec.VolumeName == "" && unbound.ForNode && len(u.Pods) == 0:
		return UseVerdict{State: finding.NoWait, Message: name + " is not bound yet, and no pod uses it: its storage class waits for the first pod (WaitForFirstConsumer)"}
	}
	v := UseVerdict{State: finding.InFlight, Message: name + " waits for its volume: " + s.Detail, Actor: s.On, Since: s.Since}
	starts := func(p UsingPod) bool { return p.State == PodWaits || p.State == PodStarting }
	switch {
	case !s.Overdue:
	case !slices.ContainsFunc(u.Pods, starts) && !u.warned() && !u.knows(snapshot.Events, u.key.Namespace): // they may show that it is not overdue
		return UseVerdict{State: finding.Unsure, Message: fmt.Sprintf("Whether anything waits for %s is not known: not all events could be read", u.name())}
	case !slices.ContainsFunc(u.Pods, starts) && !u.warned():
		return UseVerdict{State: finding.NoWait, Message: fmt.Sprintf("%s has no volume, and no pod that is to start uses it: %s", name, s.Detail)}
	default:
		v.State = finding.Stuck
	}
	if s.On != "" && s.On != Nobody {
		v.Message += "; next to act: " + s.On
	}
	return v
}

// judgeFree is the verdict on a volume that no claim has.
func (u *useTracer) judgeFree() (UseVerdict, bool) {
	pv := u.pv
	name := "Volume " + pv.Name
	deletes := pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
	switch {
	case pv.Status.Phase == corev1.VolumeAvailable && pv.Spec.ClaimRef == nil:
		return UseVerdict{State: finding.NoWait, Message: name + " is Available: no claim has it"}, true
	case pv.Status.Phase == corev1.VolumeReleased && !deletes:
		return UseVerdict{State: finding.NoWait, Message: fmt.Sprintf("%s is Released: claim %s is gone, and the reclaim policy %s keeps the disk; no claim gets it as long as its claimRef names that claim",
			name, u.key, pv.Spec.PersistentVolumeReclaimPolicy)}, true
	case pv.Status.Phase == corev1.VolumeReleased || pv.Status.Phase == corev1.VolumeFailed:
		v := UseVerdict{State: finding.InFlight, Since: pv.Status.LastPhaseTransitionTime, Actor: "its provisioner",
			Message: fmt.Sprintf("%s is %s: claim %s is gone, and the reclaim policy %s has its provisioner delete the disk", name, pv.Status.Phase, u.key, pv.Spec.PersistentVolumeReclaimPolicy)}
		if pv.Status.Phase == corev1.VolumeFailed || v.Since != nil && u.Age(*v.Since) > facts.PVDeletionGrace {
			v.State = finding.Stuck
		}
		return v, true
	case pv.Spec.ClaimRef != nil && u.knows(snapshot.Claims, u.key.Namespace) && len(u.NotKnown) == 0:
		return UseVerdict{State: finding.NoWait, Message: fmt.Sprintf("%s is %s, and its claim %s does not exist", name, pv.Status.Phase, u.key)}, true
	default:
		return UseVerdict{}, false
	}
}

// inUse is who has it, where nothing waits and everything was read.
func (u *useTracer) inUse() string {
	var pods []UsingPod
	nodes, ended := map[types.NodeName]bool{}, 0
	for _, p := range u.Pods {
		if p.State == PodEnded {
			ended++
			continue
		}
		pods = append(pods, p)
		if p.Node != "" {
			nodes[p.Node] = true
		}
	}
	text := ""
	switch {
	case len(pods) == 1 && pods[0].State == PodRuns:
		text = fmt.Sprintf("Pod %s runs with it on node %s", pods[0].Pod, pods[0].Node)
	case len(pods) == 1 && pods[0].Node != "":
		text = fmt.Sprintf("Pod %s names it, on node %s", pods[0].Pod, pods[0].Node)
	case len(pods) == 1:
		text = fmt.Sprintf("Pod %s names it and has no node yet", pods[0].Pod)
	case len(pods) > 1:
		text = fmt.Sprintf("%d pods name it, on %s", len(pods), nodesCounted(len(nodes)))
	case u.pv != nil && u.claim == nil:
		text = "No claim has volume " + u.pv.Name
	default:
		text = "No pod uses claim " + u.key.String()
	}
	switch {
	case ended == 1:
		text += "; 1 pod that has ended still names it"
	case ended > 1:
		text += fmt.Sprintf("; %d pods that have ended still name it", ended)
	}
	if len(pods) == 0 && len(u.Nodes) > 0 {
		text += fmt.Sprintf("; node %s still has it", u.Nodes[0].Node)
	}
	if i := slices.IndexFunc(u.Findings, func(f finding.Brief) bool { return f.Severity.AtLeast(finding.Warning) }); i >= 0 {
		text += fmt.Sprintf("; %s %s says what is wrong", u.Findings[i].Code, u.Findings[i].Check)
	}
	return text
}
