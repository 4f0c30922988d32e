package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/kubeletwords"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
)

// whereToLook is the first step for a pod whose wait no check explains: to look at whoever has
// to act or, where that is nobody with a log or a pod, at the traces of the stage.
func whereToLook(t *trace.Trace) string {
	verdict, stage := t.Verdict, t.Stage()
	actor := verdict.Actor
	switch {
	case actor == "" && t.Unread() != "":
		return whatIsUnread(t)
	case stage.Do() != "":
		return stage.Do()
	case verdict.Stage == trace.StageClaimBound && actor == trace.EphemeralController && len(stage.Said) > 0:
		return "{fix} fix what the controller names in its event: it tries again by itself"
	case verdict.Stage == trace.StageClaimBound && actor == trace.EphemeralController:
		return "{check} look at the pod's events for what refuses its claim (a quota, a webhook), and whether kube-controller-manager runs"
	case stage.Ends != "" && (actor == trace.Nobody || actor == kubeletwords.WorkloadOwner && len(stage.Said) == 0): // the pod has to be made again
		return "{final} see to it that " + stage.Ends
	case strings.HasPrefix(actor, "the node plugin of "):
		return "{note} look at " + actor + ", and at its registrar"
	case actor == trace.PodCollector:
		return facts.CollectorLog
	case actor == trace.Controller:
		return "{note} read what kube-controller-manager's leader writes to its log about the volume and the node"
	case strings.HasPrefix(actor, "the external-attacher of "):
		return "{note} see whether the attacher runs beside the driver's controller, and read its log"
	case strings.Contains(actor, "the kubelet of "):
		return whatTheKubeletSays(t)
	case strings.HasPrefix(actor, "pod "):
		return "{note} look at " + actor + ": this pod waits until that one has let go of the volume"
	case strings.HasPrefix(actor, "node ") && stage.Ends != "":
		return "{note} look at " + actor + " (its machine, network and kubelet), and bring it back: the wait ends once " + stage.Ends
	case strings.HasPrefix(actor, "whoever is to ") && stage.Ends != "":
		return "{note} find out who is to " + strings.TrimPrefix(actor, "whoever is to ") + ": the wait ends once " + stage.Ends
	case strings.HasPrefix(actor, "whoever ") && stage.Ends != "":
		return "{fix} see to it that " + stage.Ends
	case strings.HasPrefix(actor, "the controller that ") && stage.Ends != "":
		return actor + " has to act: the wait ends once " + stage.Ends
	}
	return adviceIn(t)
}

// adviceIn is where to look in the stage of the verdict, whoever has to act. Only a CSI driver has a
// node plugin with a log.
func adviceIn(t *trace.Trace) string {
	onNode := []trace.StageName{trace.StageStaged, trace.StageMounted, trace.StageUnmounted}
	if slices.Contains(onNode, t.Verdict.Stage) && t.Waits().Driver == "" {
		return whatTheKubeletSays(t)
	}
	return cmp.Or(stageAdvice[t.Verdict.Stage], "{note} look at the pod's events")
}

// whatIsUnread is the first step where an object that was not read may show who has to act. The
// driver's controller logs an attach only once there is a VolumeAttachment.
func whatIsUnread(t *trace.Trace) string {
	again := fmt.Sprintf("{check} diagnose again with all %s: they may show who has to act", t.Unread())
	if t.Verdict.Stage == trace.StageAttached && t.Waits().VolumeAttachment == "" {
		return again
	}
	return again + "; " + adviceIn(t)
}

// whatTheKubeletSays is where the kubelet that has to act reports about the stage. It may be on
// another node, which still has the volume. Its events are part of the trace.
func whatTheKubeletSays(t *trace.Trace) string {
	node := string(t.Node)
	if other, acts := strings.CutPrefix(t.Verdict.Actor, "the kubelet of "); acts && !strings.Contains(other, " ") {
		node = other
	}
	log := "{note} look at the log of the kubelet of " + node
	switch stage, driver := t.Verdict.Stage, t.Waits().Driver; {
	case stage == trace.StageInVolumesInUse:
		return log + ": it must ask for the volume first"
	case stage == trace.StageUnmounted && driver == "":
		return log + " (a failed TearDown, a resource claim that is not released, a denied deletion), and on the node for what still uses the pod's volumes (mounts below its directory, open files)"
	case stage == trace.StageUnmounted:
		return log + "; " + stageAdvice[stage]
	default:
		return log
	}
}

// stageAdvice is where to look in each stage.
var stageAdvice = map[trace.StageName]string{
	trace.StageScheduled:         "read what the scheduler says about the volumes: {fix} free a node that suits them, or add one",
	trace.StageClaimBound:        "{note} look at the claim, its class and the events of its provisioner",
	trace.StageInVolumesInUse:    "{note} read the log of the node's kubelet: it must ask for the volume first",
	trace.StageAttached:          "{read-log controller}",
	trace.StageInVolumesAttached: "look at the log of kube-controller-manager for this node's status",
	trace.StageRegistered:        "{note} look at the driver's node plugin on that node, and at its registrar",
	trace.StageStaged:            "{read-log}",
	trace.StageMounted:           "{read-log}",
	trace.StageUnmounted:         "{read-log}",
}
