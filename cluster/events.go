package cluster

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

const (
	// eventWindow is the time in which a lasting finding gets one event: an API server
	// forgets events after an hour, by default (--event-ttl).
	eventWindow = time.Hour
	// eventMessage is the longest note of an event (the API's validation).
	eventMessage = 1024
)

// Recorder writes events about findings. Its zero value with a Cluster is ready.
type Recorder struct {
	Cluster *Cluster
	// written are the names of the events that exist, with their times.
	written map[string]time.Time
}

// Record writes an event about each finding's subject, one for a fingerprint in each hour:
// the event's name is made of both, so that the API server itself refuses a second one,
// whoever writes it. Record does not ask twice. It returns the errors of the events that were
// not written.
func (w *Recorder) Record(ctx context.Context, r *finding.Report) []error {
	if w.written == nil {
		w.written = map[string]time.Time{}
	}
	maps.DeleteFunc(w.written, func(_ string, at time.Time) bool { return r.TakenAt.Sub(at) > eventWindow })
	c := w.Cluster
	var errs []error
	for _, f := range r.Findings {
		event := eventOf(f, r.TakenAt.Time)
		if _, there := w.written[event.Name]; there {
			continue
		}
		err := c.createEvent(ctx, event)
		switch {
		case err == nil, apierrors.IsAlreadyExists(err):
			w.written[event.Name] = r.TakenAt.Time
		case ctx.Err() != nil:
			return append(errs, c.Explain(context.Cause(ctx)))
		case isStatus(err):
			errs = append(errs, fmt.Errorf("write the event about %s: %w", f.Subject, c.Explain(err)))
		default: // the server is gone, for the other events too
			return append(errs, c.Explain(err))
		}
	}
	return errs
}

func (c *Cluster) createEvent(ctx context.Context, event *corev1.Event) error {
	return c.client[corev1.GroupName].Post().Namespace(event.Namespace).Resource(string(snapshot.Events)).
		VersionedParams(&metav1.CreateOptions{FieldManager: repair.FieldManager}, scheme.ParameterCodec).Body(event).Do(ctx).Error()
}

func eventOf(f finding.Finding, now time.Time) *corev1.Event {
	namespace := f.Subject.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault // the namespace for events about objects without one
	}
	kind := corev1.EventTypeWarning
	if f.Severity == finding.Info {
		kind = corev1.EventTypeNormal
	}
	do := ""
	if next := f.Next(); next.Kind != "" {
		do = clipped("; to do: "+next.Line(), eventMessage/2)
	}
	message := clipped(fmt.Sprintf("%s: %s", f.Check, f.Line()), eventMessage-len(do)) + do
	at := metav1.NewTime(now)
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Name:      fmt.Sprintf("volume-doctor-%s-%d", f.Fingerprint, now.Truncate(eventWindow).Unix()),
			Namespace: namespace,
		},
		InvolvedObject: ReferenceTo(f.Subject),
		Reason:         "VolumeDoctor" + string(f.Code),
		Message:        message,
		Type:           kind,
		Source:         corev1.EventSource{Component: repair.FieldManager},
		FirstTimestamp: at, LastTimestamp: at, Count: 1,
	}
}

// clipped is the text in at most so many bytes.
func clipped(text string, most int) string {
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

// ReferenceTo is the reference to an object in events and reports.
func ReferenceTo(o finding.Object) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: apiVersion(o.Kind), Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, UID: o.UID}
}

// apiVersion is the version of the kind; for kinds that no snapshot holds it is v1, of the
// core group.
func apiVersion(kind string) string {
	for _, r := range snapshot.Resources() {
		if r.Object == kind {
			return r.Version
		}
	}
	return corev1.SchemeGroupVersion.String()
}
