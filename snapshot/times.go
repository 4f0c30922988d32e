package snapshot

import (
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClockTolerance is how far the objects may be ahead of "now": the clocks of a
// cluster's machines differ by seconds, and lists are read one after the other.
const ClockTolerance = 2 * time.Minute

// ClockContradicted returns an error if an object shows a time more than ClockTolerance after
// s.TakenAt. Nobody can have read the object before that time, so TakenAt and every age computed
// from it are wrong. It returns nil if no object contradicts TakenAt.
func ClockContradicted(s *Snapshot) error {
	what, at := NewestEvidence(s)
	return contradicted(s.TakenAt, what, at)
}

func contradicted(now time.Time, what string, at time.Time) error {
	if !at.After(now.Add(ClockTolerance)) {
		return nil
	}
	return fmt.Errorf("the time %s is contradicted: %s is %s, which is %s later",
		now.UTC().Format(time.RFC3339), what, at.UTC().Format(time.RFC3339), at.Sub(now).Round(time.Second))
}

// NewestEvidence returns the latest time that any object shows, and the field that shows it, such
// as "spec.renewTime of Lease kube-node-lease/n1". The snapshot cannot be older than that. The zero
// time means that no object shows a time. For the fields that count, see newestTime; those of a node
// whose clock is ahead of all others do not.
func NewestEvidence(s *Snapshot) (what string, at time.Time) {
	var clock fileClock
	for _, r := range resources {
		for object := range r.all(&s.Objects) {
			clock.add(evidenceOf(r, object))
		}
	}
	believed := clock.believed()
	if len(believed) == 0 {
		return "", time.Time{}
	}
	return believed[0].String(), believed[0].at
}

// evidenceOf returns the latest time that the object shows.
func evidenceOf(r *row, object apiObject) evidence {
	e := newestTime(object)
	e.resource, e.of, e.machine = r, identity{r.Kind, object.GetNamespace(), object.GetName()}, machineOf(object, e.field)
	return e
}

// evidence is the latest time that a field of an object shows, with the second latest time of the
// same object.
type evidence struct {
	at       time.Time
	field    string
	second   time.Time
	of       identity
	resource *row
	// machine is the node whose clock the field shows; "" for the API server's, or a controller's.
	machine string
}

func (e evidence) String() string {
	if e.resource == nil {
		return ""
	}
	return e.field + " of " + e.resource.Object + " " + e.of.String()
}

func (e *evidence) note(field string, t metav1.Time) {
	switch {
	case t.After(e.at):
		e.second, e.at, e.field = e.at, t.Time, field
	case t.After(e.second):
		e.second = t.Time
	}
}

func (e *evidence) notePointer(field string, t *metav1.Time) {
	if t != nil {
		e.note(field, *t)
	}
}

func (e *evidence) noteMicro(field string, t metav1.MicroTime) {
	e.note(field, metav1.Time(t))
}

// machineOf returns the node whose kubelet writes the field of the object by its own clock; "" for a
// field that another clock dates.
func machineOf(object apiObject, field string) string {
	if strings.HasPrefix(field, "metadata.") || strings.HasPrefix(field, "spec.taints.") {
		return ""
	}
	switch o := object.(type) {
	case *coordinationv1.Lease:
		if o.Namespace == corev1.NamespaceNodeLease {
			return o.Name
		}
	case *corev1.Node, *storagev1.CSINode:
		return o.GetName()
	case *corev1.Pod:
		return o.Spec.NodeName
	case *corev1.Event:
		return o.Source.Host
	}
	return ""
}

// newestTime returns the latest time at which a component of the cluster wrote
// to the object, by the object's own fields. Two kinds of times do not count:
//   - those that may lie in the future: a deletionTimestamp is the end of a grace
//     period, not its beginning;
//   - those that any user of a namespace may set: the spec of an object, and with
//     it the leases outside the system's own namespaces.
func newestTime(object apiObject) evidence {
	var e evidence
	e.note("metadata.creationTimestamp", object.GetCreationTimestamp())
	managed := object.GetManagedFields()
	for i := range managed {
		e.notePointer("metadata.managedFields.time", managed[i].Time)
	}
	switch o := object.(type) {
	case *coordinationv1.Lease:
		if !strings.HasPrefix(o.Namespace, "kube-") {
			break
		}
		if o.Spec.AcquireTime != nil {
			e.noteMicro("spec.acquireTime", *o.Spec.AcquireTime)
		}
		if o.Spec.RenewTime != nil {
			e.noteMicro("spec.renewTime", *o.Spec.RenewTime)
		}
	case *corev1.Event:
		e.note("firstTimestamp", o.FirstTimestamp)
		e.note("lastTimestamp", o.LastTimestamp)
		e.noteMicro("eventTime", o.EventTime)
		if o.Series != nil {
			e.noteMicro("series.lastObservedTime", o.Series.LastObservedTime)
		}
	case *corev1.Node:
		for i := range o.Status.Conditions {
			e.note("status.conditions.lastTransitionTime", o.Status.Conditions[i].LastTransitionTime)
			e.note("status.conditions.lastHeartbeatTime", o.Status.Conditions[i].LastHeartbeatTime)
		}
		for i := range o.Spec.Taints {
			e.notePointer("spec.taints.timeAdded", o.Spec.Taints[i].TimeAdded)
		}
	case *corev1.Pod:
		e.notePod(&o.Status)
	case *corev1.PersistentVolume:
		e.notePointer("status.lastPhaseTransitionTime", o.Status.LastPhaseTransitionTime)
	case *corev1.PersistentVolumeClaim:
		for i := range o.Status.Conditions {
			e.note("status.conditions.lastTransitionTime", o.Status.Conditions[i].LastTransitionTime)
			e.note("status.conditions.lastProbeTime", o.Status.Conditions[i].LastProbeTime)
		}
		if health := o.Status.HealthStatus; health != nil {
			e.note("status.healthStatus.lastTransitionTime", health.LastTransitionTime)
		}
	case *storagev1.CSINode:
		for _, health := range o.Status.StorageHealth {
			for i := range health.HealthConditions {
				e.note("status.storageHealth.healthConditions.lastTransitionTime", health.HealthConditions[i].LastTransitionTime)
			}
		}
	case *storagev1.VolumeAttachment:
		if err := o.Status.AttachError; err != nil {
			e.note("status.attachError.time", err.Time)
		}
		if err := o.Status.DetachError; err != nil {
			e.note("status.detachError.time", err.Time)
		}
	case *appsv1.Deployment:
		for i := range o.Status.Conditions {
			e.note("status.conditions.lastTransitionTime", o.Status.Conditions[i].LastTransitionTime)
			e.note("status.conditions.lastUpdateTime", o.Status.Conditions[i].LastUpdateTime)
		}
	}
	return e
}

func (e *evidence) notePod(status *corev1.PodStatus) {
	e.notePointer("status.startTime", status.StartTime)
	for i := range status.Conditions {
		e.note("status.conditions.lastTransitionTime", status.Conditions[i].LastTransitionTime)
		e.note("status.conditions.lastProbeTime", status.Conditions[i].LastProbeTime)
	}
	for i := range status.VolumeHealth {
		e.note("status.volumeHealth.lastTransitionTime", status.VolumeHealth[i].LastTransitionTime)
	}
	for _, list := range [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses} {
		for i := range list {
			e.noteState(&list[i].State, "status.containerStatuses.state.running.startedAt", "status.containerStatuses.state.terminated")
			e.noteState(&list[i].LastTerminationState, "status.containerStatuses.lastState.running.startedAt", "status.containerStatuses.lastState.terminated")
		}
	}
}

func (e *evidence) noteState(state *corev1.ContainerState, running, terminated string) {
	if state.Running != nil {
		e.note(running, state.Running.StartedAt)
	}
	if t := state.Terminated; t != nil {
		e.note(terminated+".startedAt", t.StartedAt)
		e.note(terminated+".finishedAt", t.FinishedAt)
	}
}

// EventTime is when the event was last seen.
func EventTime(e *corev1.Event) metav1.Time {
	switch {
	case e.Series != nil && !e.Series.LastObservedTime.IsZero():
		return metav1.NewTime(e.Series.LastObservedTime.Time)
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp
	case !e.EventTime.IsZero():
		return metav1.NewTime(e.EventTime.Time)
	default:
		return e.CreationTimestamp
	}
}
