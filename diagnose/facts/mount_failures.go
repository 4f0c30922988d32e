package facts

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/kubeletwords"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// MountFailure is an event in which the kubelet reports that one volume cannot
// be mounted.
type MountFailure struct {
	Event *corev1.Event
	// Step is the kubelet's step that failed, such as "MountVolume.SetUp failed".
	Step string
	// Reason is the error of that step.
	Reason string
}

// InOrder returns the events, oldest first.
func InOrder(events []*corev1.Event) []*corev1.Event {
	return slices.SortedStableFunc(slices.Values(events), func(a, b *corev1.Event) int {
		at, bt := snapshot.EventTime(a), snapshot.EventTime(b)
		return cmp.Or(at.Compare(bt.Time), cmp.Compare(a.Name, b.Name))
	})
}

// MountFailuresIn returns the failed mounts of the pod's volume among the events, in their order.
// The kubelet calls the volume by one of the names. A failure from before the present attachment
// does not count, nor does one of the same second to find the volume attached. Nor does a directory
// of the volume that was gone once, or beside another failure: the kubelet cleaned up after another
// pod with the volume, or after its own try that failed a moment before, and makes it again.
func (p *View) MountFailuresIn(events []*corev1.Event, pod *corev1.Pod, names ...string) []MountFailure {
	var list []MountFailure
	var began []metav1.Time
	for _, name := range names {
		began = append(began, p.mountBegan(pod, name))
	}
	for _, e := range events {
		if e.Reason != "FailedMount" && e.Reason != "FailedMapVolume" {
			continue
		}
		m := kubeletwords.Failed.FindStringSubmatch(e.Message)
		if m == nil || !slices.Contains(names, m[2]) || !SaidSince(e, began...) {
			continue
		}
		if at := snapshot.EventTime(e); strings.Contains(m[1], "WaitForAttach") && at.Equal(new(Latest(began...))) {
			continue
		}
		list = append(list, MountFailure{e, m[1], m[3]})
	}
	all := slices.Clone(list)
	return slices.DeleteFunc(list, func(f MountFailure) bool { return f.cleanedUp(all) })
}

// cleanedUp reports whether only the directory of the volume was gone: once, or beside another of the
// failures.
func (f MountFailure) cleanedUp(all []MountFailure) bool {
	gone := func(f MountFailure) bool { return kubeletwords.DirectoryGone.MatchString(f.Reason) }
	first, last := FirstTime(f.Event), snapshot.EventTime(f.Event)
	return gone(f) && (!first.Before(&last) || slices.ContainsFunc(all, func(other MountFailure) bool {
		at := snapshot.EventTime(other.Event)
		return !gone(other) && !at.Before(&first)
	}))
}

// FailingSince is when the step that failed last failed for the first time. failures must not
// be empty.
func FailingSince(failures []MountFailure) metav1.Time {
	last := failures[len(failures)-1]
	since := FirstTime(last.Event)
	for _, f := range failures {
		if first := FirstTime(f.Event); f.Step == last.Step && first.Before(&since) {
			since = first
		}
	}
	return since
}

// Passing reports whether the mount failed for a reason that ends by itself, without a further
// event: the kubelet did not yet know what the pod needs (Get in
// pkg/kubelet/util/manager/watch_based_manager.go), or did not reach the API server.
//
// An object is "not registered" until the kubelet has begun with the pod: the volumes come first
// where it waits for the node's network (SyncPod). Messages about empty caches count for
// cachesFill only. A kubelet that did not reach the API server has reached it since, or its node
// stops being Ready.
func (f MountFailure) Passing() bool {
	return ContainsAny(f.Reason, kubeletwords.NotRegistered) || ServerUnreached(f.Reason) ||
		ContainsAny(f.Reason, kubeletwords.CachesEmpty, kubeletwords.NotPermitted) && snapshot.EventTime(f.Event).Sub(FirstTime(f.Event).Time) < cachesFill
}

// QuotesAttach reports whether the kubelet quotes the error of the attach, which the VolumeAttachment
// showed then, and did not call the CSI driver (csiAttacher.WaitForAttach,
// pkg/volume/csi/csi_attacher.go). Once the volume is attached, the kubelet's next try passes this
// step. Words of the kubelet's own, such as that it does not see the VolumeAttachment, may last.
func (f MountFailure) QuotesAttach() bool {
	return strings.Contains(f.Step, "WaitForAttach") && !ContainsAny(f.Reason, kubeletwords.BeingDetached, kubeletwords.NotAttached,
		kubeletwords.OfAttachment, kubeletwords.OfAttacher, kubeletwords.AttachTimeout)
}

// ServerUnreached reports whether the mount failed because the kubelet did not reach the API
// server, or lost its answer. A driver's message about its storage, which may read the same,
// does not count.
func ServerUnreached(reason string) bool {
	if ContainsAny(reason, kubeletwords.AttachmentUnread) {
		return !kubeletwords.AttachmentAnswered.MatchString(reason)
	}
	return ContainsAny(reason, kubeletwords.ServerUnreached, kubeletwords.TokenUnreached, kubeletwords.AnswerCutOff) && !ContainsAny(reason, kubeletwords.CallFailed, kubeletwords.CallCode)
}

// Stages reports whether the step comes before the volume is published to the pod: a failure of
// a later step proves that this one succeeded.
func (f MountFailure) Stages() bool {
	return slices.ContainsFunc(kubeletwords.StagingSteps, func(step string) bool { return strings.Contains(f.Step, step) })
}

// KubeletName is the kubelet's name for the pod's volume: the name of its PersistentVolume
// where it has one, else the pod's.
func (p *View) KubeletName(pod *corev1.Pod, v *corev1.Volume) string {
	claim := p.ClaimOf(pod, v)
	// a volume that its claim has lost stays mounted
	if claim != nil && claim.Spec.VolumeName != "" && (claim.Status.Phase == corev1.ClaimBound || claim.Status.Phase == corev1.ClaimLost) {
		return claim.Spec.VolumeName
	}
	return v.Name
}

// MissingObject is the kind and the name of the Secret or ConfigMap that a mount
// needs and that does not exist; empty where the reason names none.
func MissingObject(reason string) (kind, name string) {
	m := kubeletwords.MissingObject.FindStringSubmatch(reason)
	switch {
	case m == nil:
		return "", ""
	case strings.EqualFold(m[1], "secret"):
		return "Secret", m[2]
	default:
		return "ConfigMap", m[2]
	}
}
