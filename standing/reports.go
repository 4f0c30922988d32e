package standing

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/cluster"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

const (
	// mostResults and longestMessage, in bytes, keep an object under the 1.5 MiB that
	// etcd takes.
	mostResults    = 500
	longestMessage = 1024
	// refresh is how often an object whose findings stay the same is written again, because
	// its texts mention ages, and how often the objects are listed.
	refresh = 10 * time.Minute
	// reportPause is how long nothing is written after a write has failed.
	reportPause = time.Minute
)

// openReports are the reports about the standing findings and about what could not be read,
// by the namespace of the findings' subjects. Subjects without a namespace are in the report
// of "". They belong to the serve whose Lease is in the namespace serve.
func openReports(l *look, serve string) map[string]*OpenReport {
	reports := map[string]*OpenReport{}
	add := func(namespace string, r OpenReportResult) {
		o := reports[namespace]
		if o == nil {
			o = &OpenReport{Source: reportName}
			o.Namespace, o.Labels = namespace, reportLabels(serve)
			reports[namespace] = o
		}
		addResult(o, r)
	}
	for _, g := range l.report.Gaps {
		add("", OpenReportResult{Policy: "reading", Rule: string(g.Kind), Result: "error", Message: bounded(unreadText(g))})
	}
	for _, s := range slices.SortedStableFunc(slices.Values(l.standing), worst) {
		add(s.Subject.Namespace, resultOf(s))
	}
	for _, o := range reports {
		if more := len(o.Results) - mostResults; more > 0 {
			o.Results = o.Results[:mostResults:mostResults]
			addResult(o, OpenReportResult{Policy: "more", Result: "skip", Message: fmt.Sprintf("%d more are counted and not listed", more)})
		}
	}
	return reports
}

// addResult adds a result to an object, and counts it there.
func addResult(o *OpenReport, r OpenReportResult) {
	r.Source, r.Category = reportName, "volumes"
	switch r.Result {
	case "fail":
		o.Summary.Fail++
	case "warn":
		o.Summary.Warn++
	case "error":
		o.Summary.Error++
	case "skip":
		o.Summary.Skip++
	}
	o.Results = append(o.Results, r)
}

func unreadText(g snapshot.Gap) string {
	return fmt.Sprintf("%s could not be read (%s), so that something may be missing here: %s", g.Kind, g.Reason, g.Detail)
}

// worst orders results: errors first, and equal ones in an order that stays the same.
func worst(a, b finding.Standing) int {
	return cmp.Or(
		cmp.Compare(b.Severity.Rank(), a.Severity.Rank()), cmp.Compare(a.Code, b.Code),
		cmp.Compare(a.Subject.Namespace, b.Subject.Namespace), cmp.Compare(a.Subject.Name, b.Subject.Name), cmp.Compare(a.Fingerprint, b.Fingerprint),
	)
}

func resultOf(s finding.Standing) OpenReportResult {
	r := OpenReportResult{
		Policy: string(s.Code), Rule: s.Check, Scored: true,
		Timestamp: metav1.Timestamp{Seconds: s.Began().Unix()},
		Resources: []corev1.ObjectReference{cluster.ReferenceTo(s.Subject)},
		Message:   bounded(s.Line()),
		Properties: map[string]string{
			"fingerprint": s.Fingerprint,
			"explain":     "kubectl volume-doctor explain " + string(s.Code),
		},
	}
	r.Result, r.Severity = "warn", map[finding.Severity]string{finding.Error: "high", finding.Warning: "medium", finding.Info: "info"}[s.Severity]
	if s.Severity == finding.Error {
		r.Result = "fail"
	}
	if s.Confidence == finding.Suspected { // it may come to nothing
		r.Scored = false
		r.Result, r.Properties["confidence"] = "warn", string(s.Confidence)
	}
	if next := s.Next(); next.Kind != "" {
		r.Properties["action"], r.Properties["do"] = string(next.Kind), bounded(next.Line())
	}
	for name, value := range map[string]string{"node": string(s.Node), "volume": string(volumeOf(s.Finding)), "causedBy": s.CausedBy} {
		if value != "" {
			r.Properties[name] = value
		}
	}
	return r
}

func bounded(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), longestMessage)], "")
}

// store reads and writes OpenReports.
type store interface {
	OpenReports(ctx context.Context, serve string) (map[string]metav1.ObjectMeta, error)
	WriteOpenReport(context.Context, *OpenReport, *metav1.ObjectMeta) (metav1.ObjectMeta, error)
	DeleteOpenReport(context.Context, *metav1.ObjectMeta) error
}

// reportWriter keeps the OpenReports in agreement with the last look.
type reportWriter struct {
	store
	serve string
	logf  func(format string, args ...any)
	// listed is when the existing objects were listed; zero before the first time.
	listed time.Time
	there  map[string]*written
	// foreign are the namespaces in which somebody else's object has our name.
	foreign map[string]bool
	pause   time.Time
	said    string
}

// written is an existing object.
type written struct {
	metav1.ObjectMeta
	// text is its content, and shape identifies the findings in it; "" for an object that
	// another process has written.
	text, shape string
	at          time.Time
	// doubtful reports whether it may have had findings that nobody can see for now.
	doubtful bool
}

// write brings the objects into agreement with the look. It writes an object only where its
// findings have changed, or its texts are old.
func (w *reportWriter) write(ctx context.Context, l *look, now time.Time) {
	if now.Before(w.pause) {
		return
	}
	err := w.try(ctx, l, now)
	if err == nil || ctx.Err() != nil {
		w.said = ""
		return
	}
	w.pause = now.Add(reportPause)
	if text := err.Error(); text != w.said { // once while the error stays the same
		w.said = text
		w.logf("OpenReports were not written: %s", text)
	}
}

func (w *reportWriter) try(ctx context.Context, l *look, now time.Time) error {
	if w.listed.IsZero() || now.Sub(w.listed) >= refresh {
		if err := w.list(ctx); err != nil {
			return err
		}
		w.listed = now
	}
	wanted := openReports(l, w.serve)
	for _, namespace := range slices.Sorted(maps.Keys(wanted)) {
		if err := w.put(ctx, wanted[namespace], l.report.Complete, now); err != nil {
			return err
		}
	}
	for _, namespace := range slices.Sorted(maps.Keys(w.there)) {
		// It is unknown whether the findings of another process have healed, or cannot be
		// seen for now.
		if wanted[namespace] != nil || w.doubts(namespace) && !l.report.Complete {
			continue
		}
		if err := w.changed(w.DeleteOpenReport(ctx, &w.there[namespace].ObjectMeta)); err != nil {
			return err
		}
		delete(w.there, namespace)
	}
	return nil
}

// doubts reports whether the object of the namespace has, or had, findings of another
// process.
func (w *reportWriter) doubts(namespace string) bool {
	there := w.there[namespace]
	return there != nil && (there.text == "" || there.doubtful)
}

// list finds out which objects exist. One that is not in the state in which it was written is
// written again.
func (w *reportWriter) list(ctx context.Context) error {
	list, err := w.OpenReports(ctx, w.serve)
	if err != nil {
		return err
	}
	before := w.there
	w.there, w.foreign = map[string]*written{}, map[string]bool{}
	for namespace, o := range list {
		w.there[namespace] = &written{ObjectMeta: o}
		if b := before[namespace]; b != nil && b.UID == o.UID && b.ResourceVersion == o.ResourceVersion {
			w.there[namespace] = b
		}
	}
	return nil
}

// put writes the object, unless it stands in the cluster as it is or was written a moment ago.
func (w *reportWriter) put(ctx context.Context, o *OpenReport, complete bool, now time.Time) error {
	if w.foreign[o.Namespace] {
		return nil
	}
	doubtful := !complete && w.doubts(o.Namespace)
	if doubtful { // it replaces another process's object
		addResult(o, OpenReportResult{
			Policy: "reading", Result: "error", Message: "something cannot be read (see the ClusterReport): what stood here before may be missing",
		})
	}
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	next, there := written{text: string(text), shape: shapeOf(o), at: now, doubtful: doubtful}, w.there[o.Namespace]
	var meta *metav1.ObjectMeta
	if there != nil {
		if there.text == next.text || there.shape == next.shape && now.Sub(there.at) < refresh {
			return nil
		}
		meta = &there.ObjectMeta
	}
	next.ObjectMeta, err = w.WriteOpenReport(ctx, o, meta)
	switch {
	case err == nil:
		w.there[o.Namespace] = &next
		return nil
	case there == nil && apierrors.IsAlreadyExists(err):
		w.foreign[o.Namespace] = true
		w.logf("the OpenReport %s in namespace %q is somebody else's, and is left alone", reportName, o.Namespace)
		return nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause), there == nil && o.Namespace != "" && apierrors.IsNotFound(err):
		return nil // the namespace is being deleted, with everything in it
	}
	return w.changed(err)
}

// changed ignores the error of a write where somebody has changed or deleted the object
// meanwhile: the next look lists the objects again.
func (w *reportWriter) changed(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		w.listed = time.Time{}
		return nil
	}
	return err
}

// shapeOf is the content of an object without its texts.
func shapeOf(o *OpenReport) string {
	var b strings.Builder
	fmt.Fprint(&b, o.Summary)
	for _, r := range o.Results {
		fmt.Fprint(&b, " ", r.Policy, r.Rule, r.Result, r.Properties["fingerprint"])
	}
	return b.String()
}
