package facts

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
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
