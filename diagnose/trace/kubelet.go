package trace

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/kubeletwords"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// The minor releases from which the kubelet's messages differ.
const (
	// sortedLists is the first release whose failed wait has sorted lists, lists only volumes
	// that are not attached as "unattached", and has "failed to process" (kubernetes pull request
	// 112719).
	sortedLists facts.KubeletRelease = 26
	// attachCheckedOnce is the first release whose kubelet looks at a VolumeAttachment once and
	// reports what it finds; earlier ones waited up to 10 min for it (126961).
	attachCheckedOnce facts.KubeletRelease = 32
)

// waitWords is the parsed message of a failed wait.
type waitWords struct {
	unmounted, unattached, unprocessed []string
	cause                              string
}

func parseWait(message string) (waitWords, bool) {
	m := kubeletwords.WaitFailed.FindStringSubmatch(message)
	if m == nil {
		return waitWords{}, false
	}
	return waitWords{strings.Fields(m[1]), strings.Fields(m[2]), strings.Fields(m[3]), m[4]}, true
}

// means is the meaning of a failed wait's lists for the volume, in the kubelet's release.
func (w waitWords) means(volume string, k facts.KubeletRelease) string {
	lists := w.listsMean(volume, k)
	why := meaningOf(w.cause, kubeletwords.WaitWords)
	switch {
	case why == "" || !slices.Contains(w.unmounted, volume):
		return lists
	case lists == notTakenUp: // and the cause shows the fault
		return why + "; the kubelet has not taken the volume up, and no mount was tried"
	default:
		return why + "; " + lists
	}
}

// notTakenUp is the meaning of a volume that a kubelet has not processed.
const notTakenUp = "the kubelet could not take the volume up at all: its claim, its PV or its plugin is wrong, and no mount was tried"

func (w waitWords) listsMean(volume string, k facts.KubeletRelease) string {
	switch {
	case !k.Known():
		return "how to read the lists depends on the kubelet's release, which is not known; \"unmounted\" names what is waited for in all of them"
	case !slices.Contains(w.unmounted, volume):
		return "this volume was mounted; the wait was for " + strings.Join(w.unmounted, ", ")
	case k < sortedLists:
		return fmt.Sprintf("a kubelet of 1.%d lists every volume of the pod as unattached, in any order: only \"unmounted\" tells", k)
	case slices.Contains(w.unprocessed, volume):
		return notTakenUp
	case slices.Contains(w.unattached, volume):
		return "the volume was not attached as the kubelet sees it: in volumesInUse and volumesAttached of the node"
	case k >= facts.SilentTimeout:
		return fmt.Sprintf("attached but not mounted; a kubelet of 1.%d writes this only where a volume has an error of its own, never for a mere time-out", k)
	default:
		return "attached, but not mounted within 2m3s"
	}
}

// mountFailures are the failed mounts of the volume, oldest first, without those that pass by
// themselves. Without any for this pod, they are those of other pods that wait for the volume on
// the node. The kubelet runs one operation at a time on a volume, in the name of one pod, and
// pauses for all pods once it fails (MountVolume,
// pkg/volume/util/operationexecutor/operation_executor.go).
func (t *tracer) mountFailures(v *tracedVolume) []facts.MountFailure {
	own := slices.DeleteFunc(t.MountFailuresIn(t.events, t.pod, v.specName(), v.Name), func(f facts.MountFailure) bool {
		return f.Passing() || t.attachedSince(f, v) || t.beforeList(f, v)
	})
	if len(own) > 0 {
		return own
	}
	return t.sharedFailures(v)
}

// attachedSince reports whether the kubelet failed to find the volume attached, and it is attached now.
func (t *tracer) attachedSince(f facts.MountFailure, v *tracedVolume) bool {
	va := t.attachmentOf(v)
	return va != nil && facts.Holds(va) && f.QuotesAttach()
}

// beforeList reports whether the kubelet has stopped to try that mount, and the node's list lacks the
// volume: one that has restarted looks for the entry again.
func (t *tracer) beforeList(f facts.MountFailure, v *tracedVolume) bool {
	return v.attachable && t.node != nil && !facts.Lists(t.node, v.Volume) && t.Age(snapshot.EventTime(f.Event)) > facts.MountRetries
}

// sharedFailures are the failed mounts of other pods that wait for the volume on the node, oldest
// first.
func (t *tracer) sharedFailures(v *tracedVolume) (shared []facts.MountFailure) {
	var list []facts.MountFailure
	switch {
	case v.pv == nil:
	case v.pv.Spec.Local != nil && v.claim != nil:
		list = t.localFailures(v)
	case (v.Driver != "" || v.attachable) && t.userOnNode(v) == nil: // otherwise it is staged by now
		list = failuresThere(t.View, volumeCalled{v.pair, v.specName()})
	}
	for _, f := range list {
		if of := f.Event.InvolvedObject.UID; of != t.pod.UID && of != uidThere(t.pod) {
			shared = append(shared, f)
		}
	}
	return shared
}

// localFailures are the failed mounts of a local volume that any pod would meet, oldest first.
// Nothing attaches it, but the kubelet still runs one operation at a time on it. Once a pod has
// it mounted, there are none.
func (t *tracer) localFailures(v *tracedVolume) (list []facts.MountFailure) {
	for _, pod := range t.ClaimUsers(v.claim) {
		switch {
		case pod.Spec.NodeName != t.pod.Spec.NodeName:
		case facts.Mounted(pod):
			return nil
		default:
			list = append(list, slices.DeleteFunc(t.MountFailures(pod, v.specName()), func(f facts.MountFailure) bool { return !f.Stages() })...)
		}
	}
	return oldestFirst(list)
}

func oldestFirst(list []facts.MountFailure) []facts.MountFailure {
	slices.SortStableFunc(list, func(a, b facts.MountFailure) int {
		return snapshot.EventTime(a.Event).Compare(snapshot.EventTime(b.Event).Time)
	})
	return list
}

// use is the state of one volume on one node, from all pods there that use it.
type use struct {
	mounted []*corev1.Pod // at most two, of different UIDs: of two, one is not the pod that asks
	// failing are the pods with a failed mount, by the kubelet's name for the volume: thousands
	// of PersistentVolumes may be one disk.
	failing map[string][]*corev1.Pod
}

// volumeCalled is a volume on a node, with one of the kubelet's names for it.
type volumeCalled struct {
	reconcile.VolumeNode
	name string
}

var keptFailures facts.KeptBy[volumeCalled, []facts.MountFailure]

// failuresThere are the failed mounts that any pod with the volume would have, oldest first.
func failuresThere(view *facts.View, v volumeCalled) []facts.MountFailure {
	return keptFailures.Of(view, v, func(view *facts.View, v volumeCalled) (list []facts.MountFailure) {
		for _, pod := range useOf(view, v.VolumeNode).failing[v.name] {
			list = append(list, slices.DeleteFunc(view.MountFailures(pod, v.name), func(f facts.MountFailure) bool { return !ofVolume(f) })...)
		}
		return oldestFirst(list)
	})
}

// keptUses is the use of each volume on each node: thousands of pods may share it.
var keptUses facts.KeptBy[reconcile.VolumeNode, *use]

func useOf(view *facts.View, pair reconcile.VolumeNode) *use {
	return keptUses.Of(view, pair, findUse)
}

func findUse(view *facts.View, pair reconcile.VolumeNode) *use {
	found := &use{failing: map[string][]*corev1.Pod{}}
	for _, pod := range view.World.LivePods(pair) {
		if n := len(found.mounted); facts.Mounted(pod) && (n == 0 || n == 1 && found.mounted[0] != pod) {
			found.mounted = append(found.mounted, pod)
		}
		for _, e := range view.EventsOf(pod) {
			if m := kubeletwords.Failed.FindStringSubmatch(e.Message); m != nil {
				if of := found.failing[m[2]]; len(of) == 0 || of[len(of)-1] != pod {
					found.failing[m[2]] = append(of, pod)
				}
			}
		}
	}
	return found
}

// ofVolume reports whether any pod that uses the volume would have the same failure.
func ofVolume(f facts.MountFailure) bool {
	kind, _ := facts.MissingObject(f.Reason)
	return stagesVolume(f) || kind != "" || kubeletwords.DriverAnswered(f.Reason)
}

// stagesVolume reports whether the step is done once on a node for all pods that use
// the volume (GenerateMountVolumeFunc and GenerateMapVolumeFunc).
func stagesVolume(f facts.MountFailure) bool {
	return strings.Contains(f.Step, "MountDevice") || strings.Contains(f.Step, "SetUpDevice")
}

// passing is the volume's last failed mount that passes by itself.
func (t *tracer) passing(v *tracedVolume) (facts.MountFailure, bool) {
	for _, f := range slices.Backward(t.MountFailuresIn(t.events, t.pod, v.specName(), v.Name)) {
		if f.Passing() {
			return f, true
		}
	}
	return facts.MountFailure{}, false
}

// waitFailure is the last failed wait that names the volume, since its present claim and
// PersistentVolume were made.
func (t *tracer) waitFailure(v *tracedVolume) (*corev1.Event, waitWords, bool) {
	var changed []metav1.Time
	if v.claim != nil {
		changed = append(changed, v.claim.CreationTimestamp)
	}
	if v.pv != nil {
		changed = append(changed, v.pv.CreationTimestamp)
	}
	for _, e := range slices.Backward(t.events) {
		if w, ok := parseWait(e.Message); ok && e.Reason == "FailedMount" && slices.Contains(w.unmounted, v.Name) && facts.SaidSince(e, changed...) {
			return e, w, true
		}
	}
	return nil, waitWords{}, false
}

// mountedThen reports whether the kubelet's last failed wait, later than any other sign about
// this volume, named only other volumes of the pod. It names all volumes that are not mounted
// (getUnmountedVolumes, pkg/kubelet/volumemanager/volume_manager.go), and a mounted one stays
// mounted while the pod has not run.
func (t *tracer) mountedThen(v *tracedVolume) bool {
	if !v.Referenced || v.pv == nil || t.node == nil {
		return false
	}
	changed := []metav1.Time{waitsSince(t.pod), v.pv.CreationTimestamp, t.node.CreationTimestamp}
	if c := facts.ReadyCondition(t.node); c != nil {
		changed = append(changed, c.LastTransitionTime)
	}
	if v.claim != nil {
		changed = append(changed, v.claim.CreationTimestamp)
	}
	if va := t.attachmentOf(v); va != nil {
		changed = append(changed, va.CreationTimestamp)
	}
	for _, f := range t.MountFailuresIn(t.events, t.pod, v.specName(), v.Name) {
		changed = append(changed, snapshot.EventTime(f.Event))
	}
	for _, e := range slices.Backward(t.events) {
		if w, ok := parseWait(e.Message); ok && e.Reason == "FailedMount" {
			return !slices.Contains(w.unmounted, v.Name) && facts.SaidSince(e, changed...) &&
				slices.ContainsFunc(t.pod.Spec.Volumes, func(other corev1.Volume) bool { return slices.Contains(w.unmounted, other.Name) })
		}
	}
	return false
}

// mountWaitFailure is waitFailure since the volume was attached, when the wait for the mount
// begins.
func (t *tracer) mountWaitFailure(v *tracedVolume) (*corev1.Event, waitWords, bool) {
	e, w, ok := t.waitFailure(v)
	if va := t.attachmentOf(v); ok && va != nil && !facts.SaidSince(e, va.CreationTimestamp) {
		return nil, waitWords{}, false
	}
	return e, w, ok
}

// lastEvent is the last event of the pod with one of the reasons; nil where
// there is none.
func (t *tracer) lastEvent(reasons ...string) *corev1.Event {
	return facts.LastOf(t.events, reasons...)
}

func quote(e *corev1.Event, means string) Said {
	by := facts.Reporter(e)
	if e.Source.Component != kubeletLog {
		by += ", event " + e.Reason
	}
	return Said{By: by, At: new(snapshot.EventTime(e)), Text: e.Message, Means: means, count: facts.TimesSeen(e)}
}

// spamBurst is how many events about an object a recorder sends before it pauses
// (defaultSpamBurst, client-go tools/record/events_cache.go).
const spamBurst = 25

// recorderPauses reports whether so many events about the pod were sent that the kubelet's
// recorder may drop others.
func recorderPauses(p *facts.View, pod *corev1.Pod) bool {
	sent := int32(0)
	for _, e := range p.Snapshot.EventsOfPod(pod) {
		sent += max(1, e.Count)
	}
	return sent >= spamBurst
}

// notRepeated reports whether the kubelet has tried the mount again since its last failure,
// without a new event: the volume is mounted, or the call hangs. failures are of one volume, at
// least one; they may be told of other pods that share it.
func notRepeated(p *facts.View, failures []facts.MountFailure) bool {
	event := failures[len(failures)-1].Event
	last := snapshot.EventTime(event)
	if pod := p.Snapshot.Pod(types.NamespacedName{Namespace: event.Namespace, Name: event.InvolvedObject.Name}); pod != nil && recorderPauses(p, pod) {
		return p.Age(last) > facts.EventRepeats
	}
	first := last
	for _, f := range failures {
		if at := facts.FirstTime(f.Event); at.Before(&first) {
			first = at
		}
	}
	// Each pause is as long as all pauses before it together, and the first one.
	pause := min(last.Sub(first.Time)+reconcile.BackoffFirst, reconcile.BackoffLast)
	return p.Age(last) > pause+facts.RetrySaid
}
