package trace

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/kubeletwords"
	"github.com/volume-doctor/kubectl-volume-doctor/evidence/controllerlog"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// kubeletLog is the reporter of an event that was made from a line of the kubelet's log.
const kubeletLog = "kubelet's log"

// logged are the failed mounts of the pod in the kubelet's log, as the kubelet's events about
// them. The log also has failures whose event the API server has dropped after an hour, or the
// recorder never sent. For each volume it is the last failure, and the last while the kubelet did
// not reach the API server.
func (k *KubeletView) logged(pod *corev1.Pod) []*corev1.Event {
	if k == nil {
		return nil
	}
	var events []*corev1.Event
	type saying struct {
		volume    corev1.UniqueVolumeName
		unreached bool
	}
	told := map[saying]bool{}
	for _, f := range slices.Backward(k.Failures) {
		reason := ""
		switch {
		case strings.HasPrefix(f.Message, kubeletwords.Mounting):
			reason = "FailedMount"
		case strings.HasPrefix(f.Message, kubeletwords.Mapping):
			reason = "FailedMapVolume"
		}
		this := saying{f.Volume, facts.ServerUnreached(f.Message)}
		if f.Pod != uidThere(pod) || told[this] || reason == "" {
			continue
		}
		told[this] = true
		events = append(events, &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name + ".log." + string(f.Volume)},
			Reason:     reason, Message: f.Message, Source: corev1.EventSource{Component: kubeletLog, Host: pod.Spec.NodeName}, Count: 1,
			// Each pause is as long as all pauses before it together.
			FirstTimestamp: metav1.NewTime(f.At.Add(-f.Pause)), LastTimestamp: metav1.NewTime(f.At),
		})
	}
	return events
}

// failedDown is the volume's last failed operation on the way down in the kubelet's log, where it
// stands. For a volume that no pod has any more, any pod's failure counts.
func (t *tracer) failedDown(v *tracedVolume) (f controllerlog.KubeletFailure, ok bool) {
	if t.heard == nil {
		return f, false
	}
	for _, f := range slices.Backward(t.heard.Failures) {
		if !isWait(f) && t.isMeant(v, f.Volume) && (f.Pod == "" || t.pod.Name == "" || f.Pod == uidThere(t.pod)) {
			return f, !isMount(f) && t.stands(f)
		}
	}
	return f, false
}

// stands reports whether no later try can have failed before the objects were read. A kubelet that
// has restarted since, by its log or its metrics, has forgotten the pause.
func (t *tracer) stands(f controllerlog.KubeletFailure) bool {
	started := t.heard.started()
	ended := (isWait(f) || !atStart(f.Volume)) && f.At.Add(f.Pause+facts.RetrySaid).Before(t.Snapshot.TakenAt)
	return !f.Before && (started.IsZero() || f.At.After(started.Add(facts.StartRounded))) && !ended
}

// isMount reports whether the operation was one on the way up.
func isMount(f controllerlog.KubeletFailure) bool {
	return strings.HasPrefix(f.Message, kubeletwords.Mounting) || strings.HasPrefix(f.Message, kubeletwords.Mapping)
}

// isWait reports whether the failure is a wait of the kubelet for the unmount of a pod's volumes.
func isWait(f controllerlog.KubeletFailure) bool {
	return strings.HasPrefix(f.Message, controllerlog.StillMounted)
}

// waitedFor is the kubelet's last failed wait for the unmount of the pod's volumes, by its log, and
// whether it was for this volume. known is false where no such wait stands, and where the wait may
// have left the volume out although it is mounted: after a failed unmount it does not count
// (VolumeMountUncertain, operation_generator.go).
func (t *tracer) waitedFor(v *tracedVolume) (wait controllerlog.KubeletFailure, is, known bool) {
	if t.heard == nil {
		return wait, false, false
	}
	for _, f := range slices.Backward(t.heard.Failures) {
		meant := f.Pod == uidThere(t.pod) && (t.isMeant(v, f.Volume) || string(f.Volume) == v.Name)
		switch {
		case meant && !isWait(f) && !isMount(f):
			return wait, is, is && known
		case isWait(f) && f.Pod == uidThere(t.pod) && t.stands(f) && (!known || f.At.Equal(wait.At)):
			wait, known, is = f, true, is || meant
		}
	}
	return wait, is, known
}

// atStart reports whether the name is one of the clean-up that a kubelet makes once, when it starts,
// of volumes that it cannot take over: it knows only their directory (cleanupMounts, reconstruct_common.go).
func atStart(name corev1.UniqueVolumeName) bool {
	return !strings.Contains(string(name), "/")
}

// isMeant reports whether the kubelet's log means the volume by the name. A volume for which the
// kubelet prepares no device has a name for each pod (GetUniqueVolumeNameFromSpecWithPod).
func (t *tracer) isMeant(v *tracedVolume, name corev1.UniqueVolumeName) bool {
	switch {
	case atStart(name):
		return v.specName() == string(name)
	case v.Volume != "":
		return name == v.Volume
	case v.pv != nil && v.pv.Spec.CSI != nil:
		return name == reconcile.CSIVolumeName(v.Driver, v.pv.Spec.CSI.VolumeHandle)
	case v.pv != nil && v.pv.Spec.Local != nil:
		return name == corev1.UniqueVolumeName("kubernetes.io/local-volume/"+v.pv.Name)
	default:
		return strings.HasSuffix(string(name), "/"+string(uidThere(t.pod))+"-"+v.specName())
	}
}

// notDeleted is the kubelet's last failed deletion of the pod object, by its log; nil where there is
// none.
func (t *tracer) notDeleted() *controllerlog.KubeletFailure {
	if t.heard == nil || t.pod.DeletionTimestamp == nil {
		return nil
	}
	asked := facts.EndAsked(t.pod).Add(-reconcile.ClocksDiffer)
	for _, f := range slices.Backward(t.heard.Failures) {
		if f.Undeleted == facts.PodName(t.pod) && f.At.After(asked) { // and not one of its name before it
			return &f
		}
	}
	return nil
}

// undeleted is the wait of an ended pod whose kubelet fails to delete its object; zero for any other
// pod, and where the log goes on without another failure.
func (t *tracer) undeleted() Stage {
	f := t.notDeleted()
	if f == nil || f.Before || f.LogEnds.Sub(f.At) > f.Pause+facts.RetrySaid {
		return Stage{}
	}
	node := t.pod.Spec.NodeName
	s := Stage{State: StageBlocked, On: kubeletOf(node), Ends: "the API server deletes the pod object for the kubelet",
		Detail: "the kubelet has unmounted the pod's volumes, asks the API server to delete the pod object, and gets an error",
		Said:   []Said{{By: kubeletLog + " on " + node, At: new(metav1.NewTime(f.At)), Text: f.Message}},
		never:  "restart the kubelet or the machine for that: they have done their part",
		do:     "{check} see why the API server does not delete the pod object for the kubelet: the message names the error"}
	if d, denied := facts.DeniedBy(f.Message); denied {
		s.On, s.Said[0].Means = kubeletwords.ClusterAdmin, "the deletion of the pod object is denied: "+d.Text()
		s.do = fmt.Sprintf("{fix} see to it that %s lets the kubelet of %s delete the pod: the kubelet tries again each 10 s", d.Actor(), node)
	}
	return t.due(s, t.endsSince(), UnmountTakes)
}

// hearDown adds the log's failure to a stage of the way down that is not done. An operation on
// the device comes after the unmount.
func (t *tracer) hearDown(s *Stage, v *tracedVolume) {
	f, ok := t.failedDown(v)
	if wait, is, known := t.waitedFor(v); !ok && known && s.Stage == StageUnmounted && (is || t.everMounted()) {
		if !is {
			*s = done(StageUnmounted, metav1.Time{}, "the kubelet's log names the volumes for whose unmount the pod's end waits, and not this one")
			return
		}
		*s = t.due(*s, t.endsSince(), UnmountTakes)
		s.State, s.On, s.follows = StageBlocked, cmp.Or(s.On, kubeletOf(t.pod.Spec.NodeName)), false
		s.Said = []Said{{By: kubeletLog + " on " + t.pod.Spec.NodeName, At: new(metav1.NewTime(wait.At)), Text: wait.Message, Means: "the kubelet has waited 2m3s for the unmount"}}
		return
	}
	switch {
	case !ok, s.Stage == StageUnstaged && f.Pod != "":
		return
	case s.Stage == StageUnmounted && f.Pod == "":
		*s = done(StageUnmounted, metav1.Time{}, "the kubelet has come to the step after it")
		return
	case s.Stage == StageUnmounted:
		*s = t.due(*s, t.endsSince(), UnmountTakes) // the objects alone may not show this wait
	}
	t.saidInLog(s, f, v.Driver)
}

// saidInLog describes in the stage a failure on the way down from the kubelet's log.
func (t *tracer) saidInLog(s *Stage, f controllerlog.KubeletFailure, driver string) {
	s.State, s.On, s.follows = StageBlocked, kubeletOf(t.pod.Spec.NodeName), false
	b := facts.BlameFor(kubeletwords.UnmountWords, f.Message, facts.Whose{Node: t.pod.Spec.NodeName, Driver: driver})
	if b.Called {
		s.On = "CSI driver " + driver + " on " + t.pod.Spec.NodeName
	}
	s.Ends = "the kubelet tries again after at most 2m2s"
	if atStart(f.Volume) {
		b.Ends = strings.TrimPrefix(b.Ends+", and then the kubelet is restarted", ", and then ")
	}
	s.take(b)
	s.Detail, _, _ = strings.Cut(f.Message, " for volume ")
	s.Said = []Said{{By: kubeletLog + " on " + t.pod.Spec.NodeName, At: new(metav1.NewTime(f.At)), Text: f.Message, Means: b.Means}}
	if facts.ContainsAny(f.Message, kubeletwords.DataLost) {
		*s, s.UsualBound = t.due(*s, metav1.Time{}, 0), ""
	}
}

// wholeMount are the calls to a CSI driver that one mount of a volume takes at most: it is staged,
// grown, published and grown.
const wholeMount = 4

// retried reports whether the kubelet has tried the mount again since it failed, and not failed: its
// log has that failure, and goes on for longer than a pause and so many calls to a CSI driver take,
// without another one of the volume.
func (t *tracer) retried(v *tracedVolume, failed metav1.Time, calls time.Duration) bool {
	if t.heard == nil || v.Driver == "" {
		return false
	}
	for _, f := range slices.Backward(t.heard.Failures) {
		if t.isMeant(v, f.Volume) {
			return isMount(f) && !failed.After(f.At.Add(facts.RetrySaid)) && f.LogEnds.Sub(f.At) > reconcile.BackoffLast+calls*reconcile.CSITimeout+facts.RetrySaid
		}
	}
	return false
}

// neverStaged is the evidence in the kubelet's counters that the volume is not staged; "" where
// they do not show this. It was attached after the kubelet started, and since then no call to
// stage a volume of its driver has succeeded. Some have failed, so the driver takes such calls.
func (t *tracer) neverStaged(v *tracedVolume) string {
	va := t.attachmentOf(v)
	if t.heard == nil || va == nil {
		return ""
	}
	started := t.heard.started()
	if started.IsZero() || va.CreationTimestamp.Sub(started) <= reconcile.ClocksDiffer {
		return ""
	}
	var failed float64
	for _, s := range t.heard.Samples {
		if s.Family != driverCalls || s.Labels["driver_name"] != v.Driver || !strings.HasSuffix(s.Labels["method_name"], "/NodeStageVolume") || s.Value == 0 {
			continue
		}
		if s.Labels["grpc_status_code"] == "OK" {
			return ""
		}
		failed += s.Value
	}
	if failed == 0 {
		return ""
	}
	return fmt.Sprintf("none of the %.0f calls NodeStageVolume to %s has succeeded since the kubelet started, which was before the volume was attached", failed, v.Driver)
}

// started is when the kubelet's process started, by its own clock; zero where the metrics do
// not show it.
func (k *KubeletView) started() time.Time {
	for _, s := range k.Samples {
		if s.Family == processStart && s.Value > 0 {
			return time.UnixMilli(int64(s.Value * 1000))
		}
	}
	return time.Time{}
}
