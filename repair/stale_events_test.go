package repair

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// changedBefore is when the object that the event is about last changed; zero where no
// object shows that.
func changedBefore(s *snapshot.Snapshot, e *corev1.Event) metav1.Time {
	for _, pod := range s.Pods {
		if pod.UID == e.InvolvedObject.UID {
			return podChanged(s, pod, e)
		}
	}
	for _, claim := range s.Claims {
		if claim.UID == e.InvolvedObject.UID {
			return claim.CreationTimestamp
		}
	}
	var last metav1.Time
	for _, va := range s.VolumeAttachments {
		if e.InvolvedObject.Kind == "Node" && e.InvolvedObject.Name == va.Spec.NodeName {
			last = facts.Latest(last, va.CreationTimestamp)
		}
	}
	return last
}

// podChanged is the last change that an event about a pod may be older than: when the pod
// came to its node, when the node and each volume that the event names were created, and when
// the pod's end was asked for.
func podChanged(s *snapshot.Snapshot, pod *corev1.Pod, e *corev1.Event) metav1.Time {
	last := facts.Latest(pod.CreationTimestamp, facts.BoundAt(pod))
	if e.Source.Component == "attachdetach-controller" {
		last = pod.CreationTimestamp // that it speaks of the pod shows that the pod has a node; a kubelet writes PodScheduled later, where none has bound it
	}
	if node := s.Node(types.NodeName(pod.Spec.NodeName)); node != nil {
		last = facts.Latest(last, node.CreationTimestamp)
	}
	for _, pv := range s.Volumes {
		if !strings.Contains(e.Message, `"`+pv.Name+`"`) {
			continue
		}
		last = facts.Latest(last, pv.CreationTimestamp)
		for _, va := range s.VolumeAttachments {
			if name := va.Spec.Source.PersistentVolumeName; name != nil && *name == pv.Name && va.Spec.NodeName == pod.Spec.NodeName && va.Name == attachmentOfPV(pv, pod.Spec.NodeName) {
				last = facts.Latest(last, va.CreationTimestamp)
			}
		}
	}
	if pod.DeletionTimestamp != nil && e.Reason == "FailedKillPod" && pod.DeletionGracePeriodSeconds != nil {
		asked := pod.DeletionTimestamp.Add(-time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second)
		last = facts.Latest(last, metav1.NewTime(asked))
	}
	return last
}

func attachmentOfPV(pv *corev1.PersistentVolume, node string) string {
	if pv.Spec.CSI == nil {
		return ""
	}
	return reconcile.VolumeAttachmentName(pv.Spec.CSI.VolumeHandle, pv.Spec.CSI.Driver, types.NodeName(node))
}

// withEvents is the snapshot with only the events for which keep is true.
func withEvents(s *snapshot.Snapshot, keep func(e *corev1.Event) bool) *snapshot.Snapshot {
	o := testcases.Copy(s.Objects)
	events := o.Events
	o.Events = nil
	for _, e := range events {
		if keep(e) {
			o.Events = append(o.Events, e)
		}
	}
	made := snapshot.New(s.TakenAt, s.Source, o, s.Gaps)
	made.Backends = s.Backends
	return made
}

// older moves the event so that it ends at the moment, with the same duration.
func older(e *corev1.Event, end metav1.Time) {
	by := snapshot.EventTime(e).Sub(end.Time)
	if e.Series != nil {
		e.Series.LastObservedTime = metav1.NewMicroTime(e.Series.LastObservedTime.Add(-by))
	}
	if !e.LastTimestamp.IsZero() {
		e.LastTimestamp = metav1.NewTime(e.LastTimestamp.Add(-by))
	}
	if !e.FirstTimestamp.IsZero() {
		e.FirstTimestamp = metav1.NewTime(e.FirstTimestamp.Add(-by))
	}
	if !e.EventTime.IsZero() {
		e.EventTime = metav1.NewMicroTime(e.EventTime.Add(-by))
	}
	e.CreationTimestamp = metav1.NewTime(e.CreationTimestamp.Add(-by))
}

// TestStaleEventsAreNoEvidence: in no cluster of the corpus does a certain finding, or a
// repair that would be made, rest on an event that is older than the objects that it is
// about. Nor does a trace or a finding quote such an event, or such an error of a
// VolumeAttachment.
func TestStaleEventsAreNoEvidence(t *testing.T) {
	cases, err := testcases.All()
	if err != nil {
		t.Fatal(err)
	}
	aged := 0
	for _, c := range cases {
		s, err := c.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		stale := sets.New[string]()
		old := withEvents(s, func(e *corev1.Event) bool {
			last := changedBefore(s, e)
			if last.IsZero() {
				return false
			}
			aged++
			older(e, metav1.NewTime(last.Add(-time.Second)))
			stale.Insert(e.Message)
			return true
		})
		if len(old.Events) > 0 {
			options := diagnose.Options{Reconcile: c.Settings}
			none := withEvents(s, func(*corev1.Event) bool { return false })
			findings, repairs := certainOf(old, options)
			f, r := certainOf(none, options)
			if findings, repairs = findings.Difference(f), repairs.Difference(r); len(findings)+len(repairs) > 0 {
				t.Errorf("%s: findings %v, repairs %v", c.Name, sets.List(findings), sets.List(repairs))
			}
		}
		old = withErrors(old, func(e *storagev1.VolumeError, changed []metav1.Time) *storagev1.VolumeError {
			e.Time = metav1.NewTime(facts.Latest(changed...).Add(-time.Second))
			stale.Insert(e.Message)
			return e
		})
		if stale.Len() == 0 {
			continue
		}
		silent := withErrors(withEvents(old, func(*corev1.Event) bool { return false }), func(*storagev1.VolumeError, []metav1.Time) *storagev1.VolumeError { return nil })
		for _, quoted := range sets.List(quotes(old, c, stale).Difference(quotes(silent, c, stale))) {
			t.Errorf("%s: %s", c.Name, quoted)
		}
	}
	if aged < 70 {
		t.Errorf("%d events were aged: this shows little", aged)
	}
	t.Logf("%d events", aged)
}

// quotes are the places in the report, and in the traces of the pods, that have one of the
// messages.
func quotes(s *snapshot.Snapshot, c *testcases.Case, messages sets.Set[string]) sets.Set[string] {
	view := Look(s, diagnose.Options{Reconcile: c.Settings}, Consent{})
	found := sets.New[string]()
	look := func(where, text string) {
		for m := range messages {
			if m != "" && strings.Contains(text, m) {
				found.Insert(where + " quotes " + m)
			}
		}
	}
	for _, f := range view.Report.Findings {
		look(string(f.Code), strings.Join([]string{f.Line(), f.Headline, f.Cause, f.Advice, f.ByHand, f.SelfHeals.Because}, "\n"))
		for _, e := range f.Evidence {
			look(string(f.Code)+" "+e.Object+" "+e.Field, e.Value)
		}
	}
	for _, pod := range s.Pods {
		traced := trace.OfPod(view.Facts, pod, nil)
		look("the verdict on "+facts.PodName(pod), traced.Verdict.Message+"\n"+traced.Verdict.Said)
		for _, v := range traced.Volumes {
			for _, stage := range v.Stages {
				look("stage "+string(stage.Stage)+" of "+facts.PodName(pod), stage.Detail)
				for _, said := range stage.Said {
					look("stage "+string(stage.Stage)+" of "+facts.PodName(pod), said.Text)
				}
			}
		}
	}
	return found
}
