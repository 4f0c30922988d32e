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

// failedDown is the volume's last failed operation on the way down in the kubelet's log, where no
// later try can have failed before the objects were read. A kubelet that has restarted since, by its
// log or its metrics, has forgotten the pause. For a volume that no pod has any more, any pod's failure counts.
func (t *tracer) failedDown(v *tracedVolume) (f controllerlog.KubeletFailure, ok bool) {
	if t.heard == nil {
		return f, false
	}
	for _, f := range slices.Backward(t.heard.Failures) {
		if t.isMeant(v, f.Volume) && (f.Pod == "" || t.pod.Name == "" || f.Pod == uidThere(t.pod)) {
			up := strings.HasPrefix(f.Message, kubeletwords.Mounting) || strings.HasPrefix(f.Message, kubeletwords.Mapping)
			started := t.heard.started()
			ended := !atStart(f.Volume) && f.At.Add(f.Pause+facts.RetrySaid).Before(t.Snapshot.TakenAt)
			return f, !up && !f.Before && (started.IsZero() || f.At.After(started.Add(facts.StartRounded))) && !ended
		}
	}
	return f, false
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

// hearDown adds the log's failure to a stage of the way down that is not done. An operation on
// the device comes after the unmount.
func (t *tracer) hearDown(s *Stage, v *tracedVolume) {
	f, ok := t.failedDown(v)
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
