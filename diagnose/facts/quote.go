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
