package trace

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/kubeletwords"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// announceTakes is how long the kubelet may take to list a volume in the node's volumesInUse.
const announceTakes = reconcile.NodeStatusUpdate + 20*time.Second

func kubeletOf(node string) string { return "the kubelet of " + node }

// askedFor is the stage in which the kubelet announces the volume.
func (t *tracer) askedFor(v *tracedVolume) Stage {
	s := Stage{Stage: StageInVolumesInUse, State: StageWaiting, On: kubeletOf(t.pod.Spec.NodeName), Ends: "the kubelet lists the volume in its node's volumesInUse"}
	if t.pod.Spec.NodeName == "" {
		return after(StageInVolumesInUse)
	}
	if stage, known := t.readNode(StageInVolumesInUse); !known {
		return stage
	}
	if refused, ok := t.refused(v); ok {
		return refused
	}
	if e, w, ok := t.notTakenUp(v); ok {
		s.State, s.Detail, s.Said = StageBlocked, "the kubelet could not take the volume up", []Said{quote(e, w.means(v.Name, t.kubelet))}
		if t.blameWait(&s, w, v) {
			return t.never(s, facts.FirstTime(e))
		}
		since, bound := facts.FirstTime(e), announceTakes
		if at := boundAt(v.pv); at != nil && since.Before(at) { // until then there was nothing to ask for
			since, bound = *at, triedAgain+announceTakes
			if wasUnbound(w, v) {
				since = facts.Latest(since, snapshot.EventTime(e))
			}
		}
		return t.due(s, since, bound)
	}
	if facts.InUse(t.node, v.Volume) {
		s = done(StageInVolumesInUse, metav1.Time{}, "in volumesInUse of "+t.node.Name)
		t.doubtState(&s, snapshot.Events)
		return s
	}
	s.Detail = "volumesInUse of " + t.node.Name + " lacks it"
	if v.unsure {
		return unread(StageInVolumesInUse, snapshot.CSIDrivers)
	}
	t.kubeletDown(&s)
	t.doubt(&s, snapshot.Events)
	since, bound := t.kubeletWaits(), announceTakes
	if at := boundAt(v.pv); at != nil { // until then there was nothing to ask for
		since = facts.Latest(since, *at)
	}
	if left := t.node.CreationTimestamp.Add(facts.RegistrationGrace).Sub(since.Time); left > bound {
		bound = left // the kubelet of a young node is still starting
	}
	return t.due(s, since, bound)
}

// notTakenUp is the kubelet's last event about a failure to take the volume up. It is out of date
// where it was not repeated and the node lists the volume as in use meanwhile. That another pod uses
// the volume proves nothing by itself. It also is out of date where the volume was bound after it, or it
// says that the claim is not bound and the claim now is, and the kubelet has tried the pod again since.
func (t *tracer) notTakenUp(v *tracedVolume) (*corev1.Event, waitWords, bool) {
	e, w, ok := t.waitFailure(v)
	if !ok || !t.about(w, v) {
		return nil, w, false
	}
	said, repeats := t.Age(snapshot.EventTime(e)), facts.EventRepeats
	says := t.kubelet >= facts.SilentTimeout && v.pv != nil && !recorderPauses(t.View, t.pod) // each failure
	if says && len(t.others(v)) == 0 {
		repeats = triedAgain
	}
	switch at := boundAt(v.pv); {
	case t.node != nil && facts.InUse(t.node, v.Volume) && said > repeats,
		wasUnbound(w, v) && said > triedAgain && says,
		at != nil && t.Age(*at) > triedAgain && (wasUnbound(w, v) && said > triedAgain || new(snapshot.EventTime(e)).Before(at)):
		return nil, w, false
	default:
		return e, w, true
	}
}

// wasUnbound reports whether the kubelet gave up its wait because the claim was not bound, which it is now.
func wasUnbound(w waitWords, v *tracedVolume) bool {
	return v.pv != nil && facts.ContainsAny(w.cause, kubeletwords.ClaimUnbound, kubeletwords.ClaimNamesNone)
}

// triedAgain is how long the kubelet may take to try a pod again that it could not start, and to
// report a failure.
const triedAgain = facts.PodRetry + facts.RetrySaid

// boundAt is since when the volume has been bound; nil where it does not show it.
func boundAt(pv *corev1.PersistentVolume) *metav1.Time {
	if pv == nil || pv.Status.Phase != corev1.VolumeBound {
		return nil
	}
	return pv.Status.LastPhaseTransitionTime
}

// about reports whether the kubelet gave up its wait because it could not take up this volume.
// It lists every volume that it has not taken up by then. Where the cause names only another
// volume, the kubelet may have reached this one since.
func (t *tracer) about(w waitWords, v *tracedVolume) bool {
	names := func(other *corev1.Volume) bool {
		claim := reconcile.ClaimName(t.pod, other)
		return claim != "" && strings.Contains(w.cause, "/"+claim+": ") || strings.Contains(w.cause, "volume "+other.Name+" ") || strings.Contains(w.cause, `"`+other.Name+`"`)
	}
	if names(v.source) || strings.Contains(w.cause, `"`+v.specName()+`"`) {
		return true
	}
	return slices.Contains(w.unprocessed, v.Name) && !slices.ContainsFunc(t.pod.Spec.Volumes, func(o corev1.Volume) bool { return names(&o) })
}

// kubeletDown adds to the stage what keeps the kubelet from acting or from reporting.
func (t *tracer) kubeletDown(s *Stage) {
	switch {
	case !reconcile.NodeReady(t.node):
		s.State = StageBlocked
		s.Detail += fmt.Sprintf("; the node's Ready condition is %s", facts.ReadyText(t.node))
		s.reason = "NodeNotReady"
	case t.HeartbeatStale(t.node):
		s.State = StageBlocked
		s.Detail += fmt.Sprintf("; the kubelet has written no status since %s, though the node counts as Ready", facts.Stamp(facts.ReadyCondition(t.node).LastHeartbeatTime))
	}
}

// readNode reports whether the node was read; if not, it returns the stage to answer with.
func (t *tracer) readNode(name StageName) (Stage, bool) {
	switch {
	case t.node != nil:
		return Stage{}, true
	case !t.knows(snapshot.Nodes, ""):
		return unread(name, snapshot.Nodes), false
	default:
		s := Stage{Stage: name, State: StageBlocked, On: PodCollector, Detail: "node " + t.pod.Spec.NodeName + " does not exist",
			Ends: "the pod object is removed, because its node does not exist"}
		return t.due(s, waitsSince(t.pod), facts.ListsGrace), false
	}
}
