package diagnose_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/long"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// cloned is a deep copy: the cases are shared.
func cloned(o snapshot.Objects) snapshot.Objects {
	return testcases.Copy(o)
}

func corpusSnapshots(t *testing.T) []*snapshot.Snapshot {
	var snapshots []*snapshot.Snapshot
	for _, c := range corpus(t) {
		if s := c.snapshot(t); len(s.Gaps) == 0 {
			snapshots = append(snapshots, s)
		}
	}
	return snapshots
}

func drawSettings(t *rapid.T) diagnose.Options {
	return diagnose.Options{Reconcile: reconcile.Options{DisableForceDetachOnTimeout: rapid.Bool().Draw(t, "no force")}}
}

// TestGapsOfRandomClusters: reading less of any kinds never shows more, for any check and on
// any cluster.
func TestGapsOfRandomClusters(t *testing.T) {
	long.Test(t)
	cases := corpusSnapshots(t)
	found := map[finding.Code]int{}
	property := func(t *rapid.T) {
		s, settings := testcases.Draw(t, cases), drawSettings(t)
		kinds := rapid.SliceOfNDistinct(rapid.SampledFrom(append(snapshot.Kinds(), snapshot.Deployments)), 1, 3, rapid.ID).Draw(t, "kinds")
		if slices.Contains(kinds, snapshot.Events) {
			s = withoutSilencingEvents(s)
		}
		whole := diagnose.Diagnose(s, settings)
		for _, f := range whole.Findings {
			found[f.Code]++
		}
		less := s
		for _, kind := range kinds {
			if kind == snapshot.CSIDrivers && testcases.ChangedItsMind(s) {
				continue // see invariant 8 in docs/invariants.md
			}
			keep := none
			if rapid.Bool().Draw(t, "in part") {
				kept := rapid.SliceOfN(rapid.Bool(), 16, 16).Draw(t, string(kind))
				keep = func(i int) bool { return kept[i%len(kept)] }
			}
			less = fewer(less, kind, keep)
		}
		subset(t, "random cluster", whole, diagnose.Diagnose(less, settings))
	}
	for range 20 {
		rapid.Check(t, property)
	}
	t.Logf("findings: %v", found)
	if checks := len(diagnose.Checks()); len(found) < checks*3/4 {
		t.Errorf("the random clusters have %d failure modes of %d", len(found), checks)
	}
}

// withoutSilencingEvents removes events that can keep a check silent although no check needs
// them: VD301 waits as long as an attach goes on failing and, where it cannot see that, for 10
// minutes (AttachGraceUnseen).
func withoutSilencingEvents(s *snapshot.Snapshot) *snapshot.Snapshot {
	o := s.Objects
	o.Events = slices.DeleteFunc(slices.Clone(o.Events), func(e *corev1.Event) bool { return e.Reason == facts.AttachFailedReason })
	return remade(s, o, s.Gaps)
}

// TestFingerprintsOfRandomClusters: each finding of a report has its own fingerprint, and keeps
// it after every object was written to.
func TestFingerprintsOfRandomClusters(t *testing.T) {
	cases := corpusSnapshots(t)
	rapid.Check(t, func(t *rapid.T) {
		s, settings := testcases.Draw(t, cases), drawSettings(t)
		before := fingerprintSet(t, diagnose.Diagnose(s, settings))
		o := cloned(s.Objects)
		lists := reflect.ValueOf(o)
		for i := range lists.NumField() {
			for j := range lists.Field(i).Len() {
				object := lists.Field(i).Index(j).Interface().(metav1.Object)
				object.SetResourceVersion(fmt.Sprint(1000*i + j))
				object.SetGeneration(object.GetGeneration() + 1)
			}
		}
		after := fingerprintSet(t, diagnose.Diagnose(remade(s, o, s.Gaps), settings))
		if !reflect.DeepEqual(before, after) {
			t.Errorf("%v became %v", before, after)
		}
	})
}

func fingerprintSet(t *rapid.T, r *finding.Report) map[string]finding.Code {
	set := map[string]finding.Code{}
	for _, f := range r.Findings {
		if code, twice := set[f.Fingerprint]; twice || f.Fingerprint == "" {
			t.Errorf("%s and %s share the fingerprint %q: %s", code, f.Code, f.Fingerprint, f.Message)
		}
		set[f.Fingerprint] = f.Code
	}
	return set
}

// TestRandomClustersAreNotWrittenTo: a diagnosis does not change its snapshot.
func TestRandomClustersAreNotWrittenTo(t *testing.T) {
	cases := corpusSnapshots(t)
	rapid.Check(t, func(t *rapid.T) {
		s, settings := testcases.Draw(t, cases), drawSettings(t)
		before := cloned(s.Objects)
		diagnose.Diagnose(s, settings)
		if !reflect.DeepEqual(before, cloned(s.Objects)) {
			t.Error("the objects have changed")
		}
	})
}
