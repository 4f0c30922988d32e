package diagnose

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/checks/blocked"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/kubeletwords"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
)

// PodStuck is the remainder: stuck pods that no other check names. It depends on the findings
// of all other checks, so its own run finds nothing.
var PodStuck = check.Check{
	Code:      finding.PodStuck,
	Name:      "pod-stuck",
	Title:     "Pod waits for a volume, or for its end, for longer than is usual, and no check knows why",
	Severity:  finding.Warning,
	Remainder: true,
	Follows: []check.Relation{
		{From: []finding.Code{blocked.PodDoesNotEnd.Code}, Share: check.OfVolume, Match: keptFrom},
	},
	Never: neverWhenStuck,
	Run:   func(*check.Run) {},
}

// keptFrom reports whether the pods of the effect wait for the volume that the pod of the cause keeps.
func keptFrom(p *facts.View, cause, effect finding.Finding) bool {
	return slices.ContainsFunc(p.KeptFrom(cause.Pair()), func(pod *corev1.Pod) bool { return slices.Contains(effect.Pods, facts.PodName(pod)) })
}

// The warnings about a pod whose cause is not known: in general, and where the volume that it waits for
// has a VolumeAttachment.
const (
	neverWhenStuck      = "delete VolumeAttachments, strip finalizers or force-delete pods"
	neverWhileAttaching = "delete its VolumeAttachment: its driver may be attaching now"
	neverAttached       = "delete its VolumeAttachment: the pod does not wait for that"
)

// neverIn is the warning about what people try in the stage.
func neverIn(t *trace.Trace) string {
	stage, v := t.Stage(), t.Waits()
	switch {
	case stage.Never() != "":
		return stage.Never()
	case stage.Stage == trace.StageUnmounted:
		return "force-delete the pod: its volume may still be mounted"
	case stage.Stage == trace.StageScheduled:
		return "set nodeName in the pod: nobody then checks that its volumes fit there"
	case stage.Stage == trace.StageClaimBound:
		return "recreate the claim before its data is found: the new one may be empty"
	case stage.Stage == trace.StageStaged || stage.Stage == trace.StageMounted:
		return "force-delete the pod: what is mounted for it may stay on the node"
	case stage.Stage == trace.StageAttached && v.VolumeAttachment != "":
		return neverWhileAttaching
	case v.VolumeAttachment != "":
		return neverAttached
	case v.Claim != "":
		return "recreate the claim: the new one may be empty, and waits for the same"
	default:
		return "recreate the pod as it is: the new one waits for the same"
	}
}

// remainder makes one finding for all pods that wait in the same stage for the same driver,
// with the same message or on the same node.
func remainder(found []finding.Finding, traces []*trace.Trace) []finding.Finding {
	groups := map[string][]*trace.Trace{}
	var keys []string
	for _, t := range unanswered(traces, found) {
		key := sharedWait(t)
		if groups[key] == nil {
			keys = append(keys, key)
		}
		groups[key] = append(groups[key], t)
	}
	run := check.Run{Check: PodStuck}
	for _, key := range keys {
		run.Report(stuck(groups[key]))
	}
	return run.Findings
}

// sharedWait is equal for pods whose waits look alike: their messages are compared without the
// names of each pod's own objects.
func sharedWait(t *trace.Trace) string {
	v := t.Waits()
	own := []string{string(t.Pod.UID), t.Pod.Name, v.PersistentVolume, v.Claim, v.Name, v.VolumeAttachment}
	if i := strings.LastIndex(string(v.Volume), "^"); i >= 0 {
		own = append(own, string(v.Volume[i+1:]))
	}
	slices.SortFunc(own, func(a, b string) int { return len(b) - len(a) }) // a name may be part of another
	words := t.Verdict.Said
	for _, name := range own {
		if name != "" {
			words = strings.ReplaceAll(words, name, "~")
		}
	}
	if words == "" {
		words = string(t.Node)
	}
	return strings.Join([]string{v.Driver, string(t.Verdict.Stage), t.Verdict.Reason, words}, "\x00")
}

// lookAt is the command that shows the pod that has to act, or else the pod that waits.
func lookAt(t *trace.Trace) string {
	pod, isPod := strings.CutPrefix(t.Verdict.Actor, "pod ")
	if namespace, name, found := strings.Cut(pod, "/"); isPod && found && !strings.Contains(name, " ") {
		return safetext.Kubectl("describe", "pod/"+name, "-n", namespace)
	}
	return traceCommand(t)
}

func traceCommand(t *trace.Trace) string {
	return safetext.Kubectl("volume-doctor", "trace", "pod/"+t.Pod.Name, "-n", t.Pod.Namespace)
}

// ofPerson reports whether no program acts on the wait before a person has. A StatefulSet may
// create a claim, and a slot for an attach may become free.
func ofPerson(v trace.Verdict) bool {
	actor := v.Actor
	return strings.HasPrefix(actor, "whoever ") && !strings.Contains(actor, "persistentvolumeclaim/") ||
		actor == kubeletwords.NodeAdmin || actor == kubeletwords.WorkloadOwner || actor == kubeletwords.ClusterAdmin && v.Stage != trace.StageAttached
}

// stuck is the finding about a group. The pod that has waited longest represents it: that
// changes least as others come and go.
func stuck(group []*trace.Trace) finding.Finding {
	began := func(t *trace.Trace) metav1.Time {
		if t.Verdict.Since == nil {
			return t.TakenAt
		}
		return *t.Verdict.Since
	}
	slices.SortFunc(group, func(a, b *trace.Trace) int {
		return cmp.Or(began(a).Compare(began(b).Time), cmp.Compare(podOf(a), podOf(b)))
	})
	first := group[0]
	v := first.Waits()
	f := finding.Finding{
		Message: first.Verdict.Headline, Detail: strings.TrimPrefix(first.Verdict.Message, first.Verdict.Headline+"; "),
		Subject: first.Pod, Volume: v.Volume, Node: first.Node, PersistentVolume: v.PersistentVolume, VolumeAttachment: v.VolumeAttachment,
		Since: first.Verdict.Since, Advice: whereToLook(first),
		AdviceCommands: []string{lookAt(first)},
		SelfHeals:      finding.SelfHeals{Because: "it has lasted longer than is usual"},
		Never:          neverIn(first),
	}
	if first.Verdict.Undated {
		f.SelfHeals.Because = "not all objects that show it could be read"
	}
	stage := first.Stage()
	f.Said = first.Quoted()
	for _, t := range group {
		f.Pods = append(f.Pods, podOf(t))
	}
	slices.Sort(f.Pods)
	f.Cause = cmp.Or(stage.Means(), "the objects show: "+stage.Detail)
	if f.Detail = strings.TrimPrefix(f.Detail, f.Cause+"; "); f.Detail == f.Cause || f.Detail == stage.Detail {
		f.Detail = ""
	}
	stays := stage.Stays() || stage.State == trace.StageBlocked && stage.Overdue && ofPerson(first.Verdict)
	if f.SelfHeals.Unknown = !stays || first.Verdict.Undated; stays {
		f.Severity = finding.Error // the pod waits for good
	}
	if stays && !first.Verdict.Undated && stage.Ends != "" {
		ends, _, _ := strings.Cut(stage.Ends, "; ")
		f.SelfHeals.Because = "somebody has to act; it lasts until " + ends
	} else if stage.Ends != "" && !strings.Contains(f.Advice, stage.Ends) {
		f.SelfHeals.Because += "; what ends it: " + stage.Ends
	}
	name := "pod/" + podOf(first)
	f.Evidence = []finding.Evidence{{Object: name, Field: "stage " + string(stage.Stage), Value: stage.Detail}}
	for _, said := range stage.Said {
		f.Evidence = append(f.Evidence, finding.Evidence{Object: name, Field: said.By, Value: said.Text})
	}
	if passing := stage.Passing(); passing != "" {
		f = f.UntilAgain(first.TakenAt.Time, facts.ListsGrace, passing)
	}
	return f
}
