package cluster

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
)

func TestEventOf(t *testing.T) {
	at := time.Date(2026, 11, 20, 10, 59, 59, 0, time.UTC)
	f := finding.Finding{
		Code: "VD301", Check: "inuse-not-attached", Severity: finding.Error, Message: strings.Repeat("ü", 600), Fingerprint: "0123",
		Subject: finding.Object{Kind: "Pod", Namespace: "shop", Name: "web-0", UID: "u"},
	}
	e := eventOf(f, at)
	if e.Namespace != "shop" || e.InvolvedObject != (corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "web-0", UID: "u"}) ||
		e.Type != corev1.EventTypeWarning || e.Reason != "VolumeDoctorVD301" || !strings.HasPrefix(e.Message, "inuse-not-attached: ü") {
		t.Errorf("%+v", e)
	}
	if len(e.Message) > eventMessage || !utf8.ValidString(e.Message) {
		t.Errorf("%d bytes: %q", len(e.Message), e.Message)
	}
	// What to do is said, however long the rest is.
	f.Actions = []finding.Action{{Kind: finding.ApplyRepair, When: finding.Now, Sentence: "add the entry again", Command: "kubectl volume-doctor diagnose pod/web-0 --apply"}}
	if told := eventOf(f, at).Message; !strings.HasSuffix(told, "; to do: add the entry again: kubectl volume-doctor diagnose pod/web-0 --apply") || len(told) > eventMessage {
		t.Errorf("%d bytes: %q", len(told), told)
	}
	// One name for a finding and an hour.
	if again := eventOf(f, at.Add(-59*time.Minute)); again.Name != e.Name {
		t.Errorf("%s and %s in one hour", again.Name, e.Name)
	}
	if later := eventOf(f, at.Add(time.Second)); later.Name == e.Name {
		t.Error("nothing is written in the next hour")
	}
	other := f
	other.Fingerprint = "4567"
	if eventOf(other, at).Name == e.Name {
		t.Error("two findings have one event")
	}
	f.Severity, f.Subject = finding.Info, finding.Object{Kind: "VolumeAttachment", Name: "csi-1"}
	if e := eventOf(f, at); e.Namespace != "default" || e.InvolvedObject.Namespace != "" || e.InvolvedObject.APIVersion != "storage.k8s.io/v1" || e.Type != corev1.EventTypeNormal {
		t.Errorf("%+v", e)
	}
}

// TestRecorderAsksOnce: a report every second writes about a finding once an hour, and
// tries again what could not be written.
func TestRecorderAsksOnce(t *testing.T) {
	const path = "/api/v1/namespaces/shop/events"
	a := newAPI(t)
	a.fail(path, apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "", errors.New("not yet")))
	at := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	f := finding.Finding{Code: "VD301", Check: "inuse-not-attached", Fingerprint: "0123", Subject: finding.Object{Kind: "Pod", Namespace: "shop", Name: "web-0"}}
	w := Recorder{Cluster: a.cluster(Options{})}
	record := func(after time.Duration) []error {
		return w.Record(t.Context(), &finding.Report{TakenAt: metav1.NewTime(at.Add(after)), Findings: []finding.Finding{f}})
	}
	if errs := record(0); len(errs) != 1 {
		t.Errorf("refused: %v", errs)
	}
	a.serve(path, &corev1.Event{})
	before := len(a.to(path))
	for i := range 100 {
		if errs := record(time.Duration(i) * time.Second); len(errs) > 0 {
			t.Fatal(errs)
		}
	}
	if n := len(a.to(path)) - before; n != 1 {
		t.Errorf("the API server was asked %d times in one hour", n)
	}
	record(time.Hour)
	if n := len(a.to(path)) - before; n != 2 {
		t.Errorf("the API server was asked %d times in two hours", n)
	}
	record(5 * time.Hour)
	if n := len(w.written); n != 1 {
		t.Errorf("%d events are remembered", n)
	}
	a.fail(path, apierrors.NewAlreadyExists(schema.GroupResource{Resource: "events"}, "x"))
	if errs := record(7 * time.Hour); len(errs) > 0 {
		t.Errorf("another process wrote it: %v", errs)
	}
}
