package facts

import (
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// The reasons of the controller's events about attaches (pkg/kubelet/events/event.go and
// operation_generator.go).
const (
	AttachFailedReason    = "FailedAttachVolume"
	AttachSucceededReason = "SuccessfulAttachVolume"
)

// LastEvent is the last of the pod's events that pass the test; nil where no event does.
func (p *View) LastEvent(pod *corev1.Pod, test func(*corev1.Event) bool) *corev1.Event {
	var last *corev1.Event
	for _, e := range InOrder(p.EventsOf(pod)) {
		if test(e) {
			last = e
		}
	}
	return last
}

// LastAttachEvent is the controller's last event for the pod about an attach of the volume, with
// one of the reasons; nil where there is none. volume is the PersistentVolume's name. Events from
// before the VolumeAttachment's creation do not count, nor do failures from before its deletion.
func (p *View) LastAttachEvent(pod *corev1.Pod, volume string, reasons ...string) *corev1.Event {
	began, ended := p.attachBegan(pod, volume)
	return p.LastEvent(pod, func(e *corev1.Event) bool {
		return slices.Contains(reasons, e.Reason) && strings.Contains(e.Message, `"`+volume+`"`) &&
			SaidSince(e, began) && (e.Reason == AttachSucceededReason || SaidSince(e, ended))
	})
}

// AttachSucceeded is the controller's last event for the pod that the volume was attached; nil
// where there is none.
func (p *View) AttachSucceeded(pod *corev1.Pod, volume string) *corev1.Event {
	return p.LastAttachEvent(pod, volume, AttachSucceededReason)
}

// attachWords finds the volume's name in an event about its attach.
var attachWords = regexp.MustCompile(`for volume "([^"]+)"`)

var keptAttachEvents Kept[sets.Set[string]]

// AttachEvents reports whether any event about an attach names the volume. volume is the PV's
// name or the unique name.
func (p *View) AttachEvents(volume string) bool {
	return keptAttachEvents.Of(p, func(p *View) sets.Set[string] {
		names := sets.New[string]()
		for _, e := range p.Snapshot.Events {
			if e.Reason == AttachFailedReason || e.Reason == AttachSucceededReason {
				for _, m := range attachWords.FindAllStringSubmatch(e.Message, -1) {
					names.Insert(m[1])
				}
			}
		}
		return names
	}).Has(volume)
}

var keptOldestEvent Kept[metav1.Time]

// OldestEvent is when the oldest event was last written: no event that was written later has
// been dropped. It is zero where there are no events, or where not all could be read.
func (p *View) OldestEvent() metav1.Time {
	return keptOldestEvent.Of(p, func(p *View) metav1.Time {
		if !p.Snapshot.Complete(snapshot.Events) || len(p.Snapshot.Events) == 0 {
			return metav1.Time{}
		}
		oldest := snapshot.EventTime(p.Snapshot.Events[0])
		for _, e := range p.Snapshot.Events {
			if at := snapshot.EventTime(e); at.Before(&oldest) {
				oldest = at
			}
		}
		return oldest
	})
}
