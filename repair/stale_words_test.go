package repair

import (
	"testing"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"pgregory.net/rapid"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// changed are the moments at which the objects that an error of the VolumeAttachment is about
// last changed: for an attach error and for a detach error.
func changed(s *snapshot.Snapshot, va *storagev1.VolumeAttachment) (attach, detach []metav1.Time) {
	both := []metav1.Time{va.CreationTimestamp}
	if node := s.Node(types.NodeName(va.Spec.NodeName)); node != nil {
		both = append(both, node.CreationTimestamp)
	}
	attach = both
	if pv := s.Volume(facts.VolumeName(va)); pv != nil {
		both = append(both, pv.CreationTimestamp)
		attach = both
		if pv.DeletionTimestamp != nil {
			attach = append(both[:len(both):len(both)], *pv.DeletionTimestamp)
		}
	}
	detach = both
	if va.DeletionTimestamp != nil {
		detach = append(both[:len(both):len(both)], *va.DeletionTimestamp)
	}
	return attach, detach
}

// certainOf are the fingerprints of the certain findings, and of those whose repair no guard
// refuses to a user who consents to everything.
func certainOf(s *snapshot.Snapshot, options diagnose.Options) (certain, repaired sets.Set[string]) {
	view := Look(s, options, Consent{Allow: Kinds(), Fenced: allNodes(s)})
	certain, repaired = sets.New[string](), sets.New[string]()
	for _, r := range propose(view) {
		repaired.Insert(r.Finding.Fingerprint)
	}
	for _, f := range view.Report.Findings {
		// VD409, which says that nothing explains why a pod is stuck, does not depend on
		// messages.
		if f.Confidence != finding.Suspected && f.Code != "VD409" {
			certain.Insert(string(f.Code) + " " + f.Fingerprint)
		}
	}
	return certain, repaired
}

// withErrors is the snapshot with each error of a VolumeAttachment replaced by the result of
// become, which gets the error and the moments at which its objects changed.
func withErrors(s *snapshot.Snapshot, become func(e *storagev1.VolumeError, changed []metav1.Time) *storagev1.VolumeError) *snapshot.Snapshot {
	o := testcases.Copy(s.Objects)
	for _, va := range o.VolumeAttachments {
		attach, detach := changed(s, va)
		if va.Status.AttachError != nil {
			va.Status.AttachError = become(va.Status.AttachError, attach)
		}
		if va.Status.DetachError != nil {
			va.Status.DetachError = become(va.Status.DetachError, detach)
		}
	}
	made := snapshot.New(s.TakenAt, s.Source, o, s.Gaps)
	made.Backends = s.Backends
	return made
}

// restsOnStaleWords are the certain findings, and the repairs, that appear with errors older
// than the objects that they are about and do not appear without errors.
func restsOnStaleWords(s *snapshot.Snapshot, options diagnose.Options) (aged int, findings, repairs []string) {
	old := withErrors(s, func(e *storagev1.VolumeError, changed []metav1.Time) *storagev1.VolumeError {
		last := changed[0]
		for _, at := range changed {
			if at.After(last.Time) {
				last = at
			}
		}
		aged++
		e.Time = metav1.NewTime(last.Add(-time.Second))
		return e
	})
	if aged == 0 {
		return 0, nil, nil
	}
	// The comparison is with no error at all, and with an error without a message: its presence
	// shows that an attacher was at work.
	certain, repaired := certainOf(old, options)
	for _, instead := range []*storagev1.VolumeError{nil, {}} {
		if len(certain) > 0 || len(repaired) > 0 {
			c, r := certainOf(withErrors(s, func(*storagev1.VolumeError, []metav1.Time) *storagev1.VolumeError { return instead.DeepCopy() }), options)
			certain, repaired = certain.Difference(c), repaired.Difference(r)
		}
	}
	return aged, sets.List(certain), sets.List(repaired)
}

// TestStaleWordsAreNoEvidence: in no cluster of the corpus does a certain finding, or a
// repair that would be made, rest on an error that is older than the objects that it is
// about.
func TestStaleWordsAreNoEvidence(t *testing.T) {
	cases, err := testcases.All()
	if err != nil {
		t.Fatal(err)
	}
	aged := 0
	for _, c := range cases {
		s, err := c.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		n, findings, repairs := restsOnStaleWords(s, diagnose.Options{Reconcile: c.Settings})
		aged += n
		if len(findings) > 0 || len(repairs) > 0 {
			t.Errorf("%s: findings %v, repairs %v", c.Name, findings, repairs)
		}
	}
	if aged < 100 {
		t.Errorf("%d errors were aged: this shows little", aged)
	}
	t.Logf("%d errors", aged)
}

// TestStaleWordsOfRandomClusters: the same holds for clusters that are crossed from two of
// the corpus.
func TestStaleWordsOfRandomClusters(t *testing.T) {
	cases, err := testcases.All()
	if err != nil {
		t.Fatal(err)
	}
	var spoken []*testcases.Case
	for _, c := range cases {
		if s, err := c.Snapshot(); err == nil && saysAnything(s) {
			spoken = append(spoken, c)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		s, err := rapid.SampledFrom(spoken).Draw(t, "case").Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		minutes := func(what string) time.Duration {
			return time.Duration(rapid.IntRange(0, 30).Draw(t, what)) * time.Minute
		}
		messages := rapid.SampledFrom(words(spoken))
		for _, va := range s.VolumeAttachments {
			if rapid.Bool().Draw(t, "younger") {
				va.CreationTimestamp = metav1.NewTime(s.TakenAt.Add(-minutes("created")))
			}
			if va.DeletionTimestamp == nil && rapid.IntRange(0, 4).Draw(t, "delete") == 0 {
				va.DeletionTimestamp = &metav1.Time{Time: s.TakenAt.Add(-minutes("deleted"))}
			}
			e := &storagev1.VolumeError{Message: messages.Draw(t, "says"), Time: metav1.NewTime(s.TakenAt)}
			if va.DeletionTimestamp != nil {
				va.Status.DetachError = e
			} else if !va.Status.Attached {
				va.Status.AttachError = e
			}
		}
		for _, node := range s.Nodes {
			if rapid.IntRange(0, 3).Draw(t, "new node") == 0 {
				node.CreationTimestamp = metav1.NewTime(s.TakenAt.Add(-minutes("node created")))
			}
		}
		if _, findings, repairs := restsOnStaleWords(s, diagnose.Options{}); len(findings) > 0 || len(repairs) > 0 {
			t.Errorf("findings %v, repairs %v", findings, repairs)
		}
	})
}

func saysAnything(s *snapshot.Snapshot) bool {
	for _, va := range s.VolumeAttachments {
		if va.Status.AttachError != nil || va.Status.DetachError != nil {
			return true
		}
	}
	return false
}

// words are the messages of the drivers in the cases.
func words(cases []*testcases.Case) []string {
	said := sets.New[string]()
	for _, c := range cases {
		s, err := c.Snapshot()
		if err != nil {
			continue
		}
		for _, va := range s.VolumeAttachments {
			for _, e := range []*storagev1.VolumeError{va.Status.AttachError, va.Status.DetachError} {
				if e != nil {
					said.Insert(e.Message)
				}
			}
		}
	}
	return sets.List(said)
}

func allNodes(s *snapshot.Snapshot) []types.NodeName {
	var names []types.NodeName
	for _, n := range s.Nodes {
		names = append(names, facts.NodeName(n))
	}
	for _, va := range s.VolumeAttachments {
		names = append(names, types.NodeName(va.Spec.NodeName))
	}
	return names
}
