package repair_test

import (
	"encoding/json"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
)

// TestAddedEntryLasts: a repair promises no more than the release's controller keeps, and its
// entry is later recognised as its own.
func TestAddedEntryLasts(t *testing.T) {
	const restart = "restart the kube-controller-manager leader"
	for _, test := range []struct{ name, release, lasts string }{
		{"vd301-backoff-drop", "v1.22.3", "it may last only until the next attach or detach on n1; " + restart + " to make it last"},
		{"vd301-backoff-drop", "v1.25.0", "it may last only until the next attach or detach on n1; " + restart + " to make it last"},
		{"vd301-backoff-drop", "v1.25.1", ""},
		{"vd301-backoff-drop", "v1.37.2", ""},
		{"vd301-release-unknown", "", "it may last only until the next attach or detach on n1; " + restart + " to make it last"},
		{"vd301-taken-off-again", "v1.22.3", "it lasts until the next attach or detach on n1; " + restart + " to make it last"},
		{"vd301-taken-off-again", "v1.37.2", "it lasts until the next attach or detach on n1; " + restart + " to make it last"},
		{"vd301-clobbered", "v1.37.2", `it may last only until "node-problem-detector" writes the list again; find out why that writes it`},
		{"vd301-clobbered-old-release", "v1.25.0", `it may last only until the next attach or detach on n1, or until "node-problem-detector" writes the list again; ` +
			restart + " to make it last, and find out why that writes it"},
		{"vd301-after-own-write", "v1.37.2", ""},
	} {
		c, err := testcases.Load(test.name)
		if err != nil {
			t.Fatal(err)
		}
		s, err := c.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		s.Source.ServerVersion = test.release
		_, repairs := repair.Examine(s, reconcile.Options{}, repair.Consent{}, diagnose.Request{})
		if len(repairs) != 1 || repairs[0].Kind != repair.PatchNodeStatus {
			t.Errorf("%s on %q: %+v", test.name, test.release, repairs)
			continue
		}
		r := repairs[0]
		if r.Lasts != test.lasts {
			t.Errorf("%s on %q: %q, want %q", test.name, test.release, r.Lasts, test.lasts)
		}
		if surelyNot := strings.HasPrefix(r.Lasts, "it lasts until"); surelyNot != strings.Contains(r.Finding.Advice, "restart the kube-controller-manager leader") {
			t.Errorf("%s on %q: %q, but the advice is %q", test.name, test.release, r.Lasts, r.Finding.Advice)
		}

		node := written(t, s.Node(r.Finding.Node), r.Do)
		if writer, _ := facts.VolumesAttachedWriter(node); writer != repair.FieldManager && facts.AddedByRepair(node, r.Finding.Volume) {
			t.Errorf("%s: the entry is taken for our own although %+v wrote the list", test.name, node.ManagedFields)
		}
		node.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: repair.FieldManager, Time: new(metav1.NewTime(s.TakenAt)),
			FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:volumesAttached":{}}}`)}}
		for _, entry := range node.Status.VolumesAttached {
			if ours := facts.AddedByRepair(node, entry.Name); ours != (entry.Name == r.Finding.Volume) {
				t.Errorf("%s: entry %s is taken for our own: %t", test.name, entry.Name, ours)
			}
		}
	}
}

// written is the node after the patch.
func written(t *testing.T, node *corev1.Node, do repair.Operation) *corev1.Node {
	t.Helper()
	patch, err := jsonpatch.DecodePatch(do.Patch)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(node)
	if err != nil {
		t.Fatal(err)
	}
	if text, err = patch.Apply(text); err != nil {
		t.Fatal(err)
	}
	after := &corev1.Node{}
	if err := json.Unmarshal(text, after); err != nil {
		t.Fatal(err)
	}
	return after
}
