package trace

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/evidence/controllerlog"
	"github.com/volume-doctor/kubectl-volume-doctor/evidence/metrics"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// The kinds of the gaps of a KubeletView: what a kubelet is asked for through the API server.
const (
	KubeletPods    snapshot.Kind = "nodes/proxy/pods"
	KubeletMetrics snapshot.Kind = "nodes/proxy/metrics"
	KubeletLog     snapshot.Kind = "nodes/proxy/logs"
)

// KubeletView is what the kubelet of a node itself reports.
type KubeletView struct {
	// Pods are the kubelet's own pods; static ones have their own UID, not their mirror's.
	Pods []*corev1.Pod
	// Samples are the samples of its metrics that KubeletFamilies names.
	Samples []metrics.Sample
	// Failures are the recent failures in its log, oldest first; nil where the node does not
	// give its log out.
	Failures []controllerlog.KubeletFailure
	// Gaps are the parts that could not be read.
	Gaps []snapshot.Gap
}

// KubeletFamilies are the families of metrics that a KubeletView has samples of.
func KubeletFamilies() []string {
	return []string{totalVolumes, operations, driverCalls, totalPlugins, seLinuxPods, seLinuxVolumes, reconstructFail, forceCleanFail, orphanFail, processStart}
}

// KubeletAccount is what the kubelet of the pod's node adds to the trace.
type KubeletAccount struct {
	Statements []KubeletStatement `json:"statements"`
}

// KubeletStatement is one statement of the kubelet.
type KubeletStatement struct {
	Bearing KubeletBearing `json:"bearing"`
	Text    string         `json:"text"`
}

// KubeletBearing is how a statement relates to what the objects show.
type KubeletBearing string

// The bearings.
const (
	KubeletAgrees  KubeletBearing = "agrees"
	KubeletDiffers KubeletBearing = "differs"
	KubeletAdds    KubeletBearing = "adds" // the objects do not show it
)

// corroborate adds the statements of the kubelet of the pod's node. It does not change the
// verdict: most counters are not kept by volume, and the kubelet was asked later than the API
// server.
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

// CorroborateNode are the statements of the node's kubelet about the traces of all pods there.
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

// hear adds the statements that do not depend on a single pod.
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

// KubeletAnswered reports whether the kubelet was asked and answered in full.
func (t *Trace) KubeletAnswered() bool {
	return t.Kubelet != nil && !slices.ContainsFunc(t.Gaps, func(g snapshot.Gap) bool { return g.Kind == KubeletPods || g.Kind == KubeletMetrics })
}

// witness collects the statements of one kubelet about pods of its node.
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

// goes reports whether the volumes of any of the pods go in the direction.
func (w *witness) goes(d Direction) bool {
	return slices.ContainsFunc(w.traces, func(t *Trace) bool { return t.Direction == d })
}

// readPods reports whether the kubelet's pods could be read.
func (w *witness) readPods() bool {
	return !slices.ContainsFunc(w.view.Gaps, func(g snapshot.Gap) bool { return g.Kind == KubeletPods })
}

func (w *witness) say(bearing KubeletBearing, format string, args ...any) {
	w.said = append(w.said, KubeletStatement{bearing, fmt.Sprintf(format, args...)})
}

// uidThere is the kubelet's UID for the pod: a static pod has another UID than its mirror
// (GetPods leaves mirrors out).
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

// leftovers reports pods that only the kubelet still has and that use a claim of the traces.
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
