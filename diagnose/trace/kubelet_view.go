package trace

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/controllerlog"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// What a kubelet can be asked for through the API server: the kinds of the gaps
// of a KubeletView.
const (
	KubeletPods    snapshot.Kind = "nodes/proxy/pods"
	KubeletMetrics snapshot.Kind = "nodes/proxy/metrics"
)

// KubeletView is what the kubelet of a node says itself, in place of the objects
// that it writes.
type KubeletView struct {
	// Pods are those that it knows, static ones under their own UID.
	Pods []*corev1.Pod
	// Samples are the samples of its metrics that KubeletFamilies names.
	Samples []KubeletSample
	// Failures are what its log says has failed lately, oldest first; none where the node
	// does not let its log be asked for.
	Failures []controllerlog.KubeletFailure
	// Gaps are what could not be read.
	Gaps []snapshot.Gap
}

// KubeletSample is one value of a kubelet's metrics; for a histogram it is how often
// something was observed.
type KubeletSample struct {
	Family string
	Labels map[string]string
	Value  float64
}

// KubeletFamilies are the families that a KubeletView has samples of.
func KubeletFamilies() []string {
	return []string{totalVolumes, operations, driverCalls, totalPlugins, seLinuxPods, seLinuxVolumes, reconstructFail, forceCleanFail, orphanFail, processStart}
}

// KubeletAccount is what the kubelet of the pod's node says of the trace.
type KubeletAccount struct {
	Statements []KubeletStatement `json:"statements"`
}

// KubeletStatement is one thing that the kubelet says.
type KubeletStatement struct {
	Bearing KubeletBearing `json:"bearing"`
	Text    string         `json:"text"`
}

// KubeletBearing is how a statement stands to what the objects show.
type KubeletBearing string

// The bearings.
const (
	KubeletAgrees  KubeletBearing = "agrees"
	KubeletDiffers KubeletBearing = "differs"
	KubeletAdds    KubeletBearing = "adds" // the objects do not show it
)

// corroborate adds what the kubelet of the pod's node says of the whole trace. It leaves
// the verdict as it is: most counters have no volume's name, and the kubelet was asked
// later than the API server.
func (t *Trace) corroborate(s *snapshot.Snapshot, view *KubeletView) {
	t.Gaps = append(t.Gaps, view.Gaps...)
	t.Complete = t.Complete && len(view.Gaps) == 0
	w := &witness{traces: []*Trace{t}, view: view, said: []KubeletStatement{}}
	if pod := s.Pod(types.NamespacedName{Namespace: t.Pod.Namespace, Name: t.Pod.Name}); pod != nil && w.readPods() {
		if bearing, text := w.knows(pod); bearing == KubeletAgrees {
			w.say(bearing, "it knows the pod, %s", text)
		} else {
			w.say(bearing, "%s", text)
		}
	}
	w.hear(s)
	t.Kubelet = &KubeletAccount{w.said}
}

// CorroborateNode is what the kubelet of the node says of the traces, which are those of
// all pods there.
func CorroborateNode(s *snapshot.Snapshot, traces []*Trace, view *KubeletView) []KubeletStatement {
	w := &witness{traces: traces, view: view}
	known := 0
	for _, t := range traces {
		pod := s.Pod(types.NamespacedName{Namespace: t.Pod.Namespace, Name: t.Pod.Name})
		if pod == nil || !w.readPods() {
			continue
		}
		if bearing, text := w.knows(pod); bearing == KubeletAgrees {
			known++
		} else {
			w.say(bearing, "pod %s: %s", facts.PodName(pod), text)
		}
	}
	if w.readPods() {
		w.say(KubeletAgrees, "it knows %d of the %d pods as the objects show them", known, len(traces))
	}
	w.hear(s)
	return w.said
}

// hear adds what does not depend on a single pod.
func (w *witness) hear(s *snapshot.Snapshot) {
	if w.readPods() {
		w.leftovers(s)
	}
	for _, plugin := range w.mounters(pluginOf) {
		w.counts(plugin)
		w.failures(plugin)
	}
	for _, driver := range w.mounters(driverOf) {
		w.calls(driver)
		w.registration(driver)
	}
	w.totals()
}

// KubeletAnswered reports whether the kubelet was asked and told all that it was asked
// for.
func (t *Trace) KubeletAnswered() bool {
	return t.Kubelet != nil && !slices.ContainsFunc(t.Gaps, func(g snapshot.Gap) bool { return g.Kind == KubeletPods || g.Kind == KubeletMetrics })
}

// witness is one kubelet that is being heard about pods of its node.
type witness struct {
	traces []*Trace
	view   *KubeletView
	said   []KubeletStatement
}

// volumes are the volumes of the traces.
func (w *witness) volumes() iter.Seq2[*Trace, VolumeTrace] {
	return func(yield func(*Trace, VolumeTrace) bool) {
		for _, t := range w.traces {
			for _, v := range t.Volumes {
				if !yield(t, v) {
					return
				}
			}
		}
	}
}

// goes reports whether volumes of one of the pods go into the direction.
func (w *witness) goes(d Direction) bool {
	return slices.ContainsFunc(w.traces, func(t *Trace) bool { return t.Direction == d })
}

// readPods reports whether the kubelet told which pods it has.
func (w *witness) readPods() bool {
	return !slices.ContainsFunc(w.view.Gaps, func(g snapshot.Gap) bool { return g.Kind == KubeletPods })
}

func (w *witness) say(bearing KubeletBearing, format string, args ...any) {
	w.said = append(w.said, KubeletStatement{bearing, fmt.Sprintf(format, args...)})
}

// uidThere is the pod's UID as its kubelet knows it: the UID of a static pod is not
// its mirror's (GetPods leaves mirrors out).
func uidThere(pod *corev1.Pod) types.UID {
	return types.UID(cmp.Or(pod.Annotations[corev1.MirrorPodAnnotationKey], string(pod.UID)))
}

// knows compares the kubelet's own copy of the pod with the API server's.
func (w *witness) knows(pod *corev1.Pod) (KubeletBearing, string) {
	var own, namesake *corev1.Pod
	for _, p := range w.view.Pods {
		switch {
		case p.UID == uidThere(pod):
			own = p
		case p.Namespace == pod.Namespace && p.Name == pod.Name:
			namesake = p
		}
	}
	switch {
	case own == nil && namesake != nil:
		return KubeletDiffers, fmt.Sprintf("it does not know this pod, but another of the same name, with uid %s", namesake.UID)
	case own == nil:
		return KubeletDiffers, "it does not know the pod: it has not received it yet, or the pod went after the objects were read"
	case own.DeletionTimestamp == nil && pod.DeletionTimestamp != nil:
		return KubeletDiffers, "it does not know yet that the pod is to be deleted: it works with what the API server said earlier"
	case own.DeletionTimestamp != nil && pod.DeletionTimestamp == nil:
		return KubeletDiffers, "it knows the pod as one that is to be deleted, which came after the objects were read"
	case own.Status.Phase != pod.Status.Phase:
		return KubeletDiffers, fmt.Sprintf("it knows the pod in phase %s, and the API server in phase %s: one of them is behind", cmp.Or(own.Status.Phase, "none"), cmp.Or(pod.Status.Phase, "none"))
	default:
		return KubeletAgrees, fmt.Sprintf("in phase %s", cmp.Or(pod.Status.Phase, "none"))
	}
}

// leftovers are pods that use a claim of the traces', and that only the kubelet
// still has.
func (w *witness) leftovers(s *snapshot.Snapshot) {
	if !s.Complete(snapshot.Pods) {
		return
	}
	there := map[types.UID]bool{}
	for _, p := range s.Pods {
		there[uidThere(p)] = true
	}
	for _, p := range w.view.Pods {
		if there[p.UID] {
			continue
		}
		var told []string
		for t, v := range w.volumes() {
			if v.Claim != "" && p.Namespace == t.Pod.Namespace && !slices.Contains(told, v.Claim) &&
				slices.ContainsFunc(p.Spec.Volumes, func(o corev1.Volume) bool { return reconcile.ClaimName(p, &o) == v.Claim }) {
				told = append(told, v.Claim)
				w.say(KubeletAdds, "it still has pod %s (uid %s), which uses claim %s and which the API server did not list: it is new, or its volumes are being unmounted",
					facts.PodName(p), p.UID, v.Claim)
			}
		}
	}
}
