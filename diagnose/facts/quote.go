package facts

import (
	"cmp"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// QuoteDriver quotes the driver's last answer about an attachment.
func QuoteDriver(driver string, e *storagev1.VolumeError) *finding.Quote {
	q := &finding.Quote{Text: e.Message, By: "driver " + driver}
	if !e.Time.IsZero() {
		q.At = &e.Time
	}
	return q
}

// QuoteAttach is the same about an attach, with the number of times that the controller has told a
// pod of these words.
func (p *View) QuoteAttach(driver string, e *storagev1.VolumeError, pods []*corev1.Pod) *finding.Quote {
	q := QuoteDriver(driver, e)
	for _, pod := range pods {
		if told := p.LastEvent(pod, func(event *corev1.Event) bool {
			return event.Reason == AttachFailedReason && strings.HasSuffix(event.Message, e.Message)
		}); told != nil {
			q.Count = max(q.Count, TimesSeen(told))
		}
	}
	return q
}

// FailedDetach is the evidence of a detach in which the driver failed.
func FailedDetach(va *storagev1.VolumeAttachment, e *storagev1.VolumeError) finding.Evidence {
	return finding.Evidence{Object: "volumeattachment/" + va.Name, Field: "status.detachError", Value: fmt.Sprintf("%s at %s", e.Message, Stamp(e.Time))}
}

// FailedAttach is the evidence of an attach in which the driver failed.
func FailedAttach(va *storagev1.VolumeAttachment, e *storagev1.VolumeError) finding.Evidence {
	return finding.Evidence{Object: "volumeattachment/" + va.Name, Field: "status.attachError", Value: fmt.Sprintf("%s at %s", e.Message, Stamp(e.Time))}
}

// QuoteEvent quotes the event.
func QuoteEvent(e *corev1.Event) *finding.Quote {
	q := &finding.Quote{Text: e.Message, By: Reporter(e), Count: TimesSeen(e)}
	if at := snapshot.EventTime(e); !at.IsZero() {
		q.At = &at
	}
	return q
}

// Reporter is who wrote the event, and on which node.
func Reporter(e *corev1.Event) string {
	by := cmp.Or(e.Source.Component, e.ReportingController)
	if e.Source.Host != "" {
		by += " on " + e.Source.Host
	}
	return strings.TrimSpace(by)
}

// TimesSeen is how often the event was seen; 0 where that is not recorded.
func TimesSeen(e *corev1.Event) int {
	if e.Series != nil {
		return int(e.Series.Count)
	}
	return int(e.Count)
}
