package diagnose_test

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testworld"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// waitsForVolume reports whether the pod waits for a volume, and whether that is known.
func waitsForVolume(v trace.Verdict) (waits, known bool) {
	return v.State == finding.InFlight || v.State == finding.Stuck, v.State != finding.Unsure
}

// TestTraceGapsProperty: less data may remove the answer, but never reverses it.
func TestTraceGapsProperty(t *testing.T) {
	cases := corpus(t)
	snapshots := make([]*snapshot.Snapshot, len(cases))
	for i, c := range cases {
		snapshots[i] = testworld.Mounting(c.snapshot(t))
	}
	rapid.Check(t, func(t *rapid.T) {
		i := rapid.IntRange(0, len(cases)-1).Draw(t, "case")
		s := snapshots[i]
		if len(s.Pods) == 0 {
			return
		}
		pod := s.Pods[rapid.IntRange(0, len(s.Pods)-1).Draw(t, "pod")]
		opts := diagnose.Options{Reconcile: cases[i].settings, Checks: []check.Check{}}
		whole, ok := waitsForVolume(diagnose.TracePod(s, pod, opts).Verdict)
		if !ok {
			return
		}
		less := s
		for _, kind := range rapid.SliceOfDistinct(rapid.SampledFrom(snapshot.Kinds()), rapid.ID).Draw(t, "kinds") {
			if kind != snapshot.Pods {
				less = fewer(less, kind, none)
			}
		}
		doc := diagnose.TracePod(less, pod, opts)
		if got, known := waitsForVolume(doc.Verdict); known && got != whole {
			t.Errorf("%s, pod %s: waits %v with all lists and %v with less: %s", cases[i].name, pod.Name, whole, got, doc.Verdict.Message)
		}
	})
}

// blamedFor are actors that are named because an object is missing from a list.
var blamedFor = map[snapshot.Kind]string{
	snapshot.CSINodes:       "the node plugin of ",
	snapshot.StorageClasses: "whoever is to create the storage class",
}

// TestTraceCorpus: without gaps every pod gets an answer, and no pod of a healthy case is
// stuck. Every volume has stages, every wait has an actor, and a pod that is stuck has a
// finding. No actor is named because a list could not be read.
func TestTraceCorpus(t *testing.T) {
	for _, c := range corpus(t) {
		s := testworld.Mounting(c.snapshot(t))
		for _, pod := range s.Pods {
			doc := diagnose.TracePod(s, pod, diagnose.Options{Reconcile: c.settings})
			// What a silent node has last reported only shows what was so then.
			node := s.Node(types.NodeName(pod.Spec.NodeName))
			silent := node != nil && !reconcile.NodeReady(node)
			if doc.Verdict.State == finding.Unsure && len(s.Gaps) == 0 && !silent {
				t.Errorf("%s: no answer on %s: %s", c.name, pod.Name, doc.Verdict.Message)
			}
			if c.healthy() && doc.Verdict.State == finding.Stuck {
				t.Errorf("%s: %s: %s", c.name, pod.Name, doc.Verdict.Message)
			}
			if doc.Verdict.State == finding.Stuck && len(doc.Findings) == 0 {
				t.Errorf("%s: the trace of the stuck pod %s does not say what to do: %s", c.name, pod.Name, doc.Verdict.Message)
			}
			if v, waits := doc.Verdict, doc.Waits(); v.State == finding.Stuck && waits.Name != "" && v.Reason != "ContainerCreated" &&
				!slices.ContainsFunc(waits.Stages, func(s trace.Stage) bool { return s.State != trace.StageDone && s.State != trace.StageNotNeeded }) {
				t.Errorf("%s: pod %s is stuck, and all stages of volume %s are done", c.name, pod.Name, waits.Name)
			}
			for _, f := range doc.Findings {
				if slices.ContainsFunc(doc.Findings, func(cause finding.Brief) bool {
					return cause.Whole.Fingerprint == f.Whole.CausedBy && cause.Whole.Names(pod.Namespace+"/"+pod.Name)
				}) {
					t.Errorf("%s: the trace of pod %s tells %s beside its cause", c.name, pod.Name, f.Code)
				}
			}
			if v, waits := doc.Verdict, doc.Waits(); waits.Broken != "" && len(v.Volumes)+len(v.Stages) == 0 && (waits.Broken != v.Stage || doc.Stage().On != v.Actor) {
				t.Errorf("%s: pod %s waits for %q in stage %s, and its volume for %q in stage %s", c.name, pod.Name, v.Actor, v.Stage, doc.Stage().On, waits.Broken)
			}
			for kind, actor := range blamedFor {
				less := diagnose.TracePod(fewer(s, kind, none), pod, diagnose.Options{Reconcile: c.settings, Checks: []check.Check{}})
				if strings.HasPrefix(less.Verdict.Actor, actor) && less.Verdict.Actor != doc.Verdict.Actor {
					t.Errorf("%s: pod %s waits for %s without the %s, and for %q with them", c.name, pod.Name, less.Verdict.Actor, kind, doc.Verdict.Actor)
				}
			}
			for _, v := range doc.Volumes {
				if len(v.Stages) == 0 {
					t.Errorf("%s: %s: volume %s has no stages", c.name, pod.Name, v.Name)
				}
				for _, stage := range v.Stages {
					if stage.Stage == v.Broken && stage.State != trace.StageUnknown && (stage.On == "" && len(s.Gaps) == 0 || stage.Detail == "") {
						t.Errorf("%s: %s: volume %s waits on nobody: %+v", c.name, pod.Name, v.Name, stage)
					}
				}
			}
		}
	}
}
