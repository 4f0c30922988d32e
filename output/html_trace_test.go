package output

import (
	"bytes"
	"strings"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/preflight"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/long"

	"k8s.io/apimachinery/pkg/types"
)

const evil = "</main><script src=http://evil.test>\u202e"

// TestTraceAndPreflightPages checks over the corpus that the pages of a trace and of a preflight
// show what their tables show, and obey the rules for all pages, even if a driver chose the text.
func TestTraceAndPreflightPages(t *testing.T) {
	long.Test(t)
	traces, preflights := 0, 0
	eachCase(t, func(t *testing.T, c corpusCase) {
		options := diagnose.Options{Reconcile: c.settings}
		for _, w := range c.report.Waiting {
			namespace, name, _ := strings.Cut(w.Pod, "/")
			pod := c.read.Pod(types.NamespacedName{Namespace: namespace, Name: name})
			if pod == nil {
				continue
			}
			document := diagnose.TracePod(c.read, pod, options)
			traces++
			shown := checkTracePage(t, document)
			wants := []string{document.Verdict.Message}
			for _, v := range document.Volumes {
				wants = append(wants, v.Name, v.Claim)
				for _, s := range v.Stages {
					if s.Stage == v.Broken {
						wants = append(wants, s.Detail, s.On, s.Ends)
					}
				}
			}
			for _, want := range wants {
				if !strings.Contains(shown, plain(visible(want))) {
					t.Errorf("trace of %s: does not show %q", w.Pod, want)
				}
			}
			if len(document.Volumes) > 0 {
				document.Verdict.Message, document.Volumes[0].Name = evil, evil
				document.Volumes[0].Stages[0].Detail = evil
				checkTracePage(t, document)
			}
		}
		for _, node := range c.read.Nodes[:min(1, len(c.read.Nodes))] {
			document := diagnose.PreflightNode(c.read, types.NodeName(node.Name), options)
			preflights++
			shown := checkPreflightPage(t, document)
			for _, scenario := range []preflight.Scenario{document.Drain, document.Loss} {
				for _, w := range scenario.Waits {
					if !strings.Contains(shown, plain(visible(w.Pod))) || !strings.Contains(shown, plain(visible(w.Because))) {
						t.Errorf("preflight of %s: does not show %s: %s", node.Name, w.Pod, w.Because)
					}
				}
				for _, h := range scenario.Hangs {
					if !strings.Contains(shown, plain(visible(h.Because))) {
						t.Errorf("preflight of %s: does not show that %s", node.Name, h.Because)
					}
				}
			}
			document.Stranded = append(document.Stranded, evil)
			document.Drain.Waits = append(document.Drain.Waits, preflight.Wait{Pod: evil, PersistentVolume: evil, For: evil, Because: evil})
			checkPreflightPage(t, document)
		}
	})
	if traces < 300 || preflights < 300 {
		t.Errorf("%d traces and %d preflights", traces, preflights)
	}
}

func checkTracePage(t *testing.T, document *trace.Trace) string {
	t.Helper()
	var b bytes.Buffer
	if err := TraceFormats.Print(&b, "html", []trace.Document{document}, Options{}); err != nil {
		t.Fatal(err)
	}
	root, _ := checkPage(t, b.Bytes())
	return plain(textOf(root))
}

func checkPreflightPage(t *testing.T, document *preflight.Preflight) string {
	t.Helper()
	var b bytes.Buffer
	if err := PreflightFormats.Print(&b, "html", document, Options{}); err != nil {
		t.Fatal(err)
	}
	root, _ := checkPage(t, b.Bytes())
	return plain(textOf(root))
}
