package repair_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/repair/apply"
)

// TestPruneEntry: a program writes an entry into a node's list without the controller's
// knowledge, for a volume that nobody wants.
func TestPruneEntry(t *testing.T) {
	s := newStage(t)
	s.nodes("a")
	v := s.running()
	stray, err := fixture.ClaimVolume(t.Context(), s.client, s.name, "stray", v.Driver, nil)
	s.must(err)
	s.patchNode("a", types.JSONPatchType, write(t, []map[string]any{
		{"op": "add", "path": "/status/volumesAttached/0", "value": corev1.AttachedVolume{Name: stray.UniqueName()}},
	}), "status")
	before := s.nodeNow("a")

	f := s.find("attached-phantom", fewMin)
	s.mends(f, "prune-node-status")
	after := s.nodeNow("a")
	if want := []corev1.AttachedVolume{{Name: v.UniqueName()}}; !slices.Equal(after.Status.VolumesAttached, want) {
		t.Errorf("the list is %v, want %v", after.Status.VolumesAttached, want)
	}
	s.marked(after, "prune-node-status for VD302")
	s.announced(after, "Repaired", "VD302 attached-phantom")
	s.await(fixture.PodRunning(s.client, s.name, "web-0"))
	s.published(v, "a")
	s.published(stray)

	s.undo(0, "put volume")
	restored := s.nodeNow("a")
	if !slices.Equal(restored.Status.VolumesAttached, before.Status.VolumesAttached) {
		t.Errorf("undo has made the list %v of %v", restored.Status.VolumesAttached, before.Status.VolumesAttached)
	}
	s.marked(restored, "")
	s.undo(0, "nothing that could be taken back")
}

// TestReviewedPlan: a plan is saved, and carried out only as long as it matches the review.
// Between the two looks a pod may have moved to another node.
func TestReviewedPlan(t *testing.T) {
	s := newStage(t)
	s.nodes("a", "b")
	v := s.running()
	s.kubelets["a"].Stop() // volumesInUse stays, which keeps the controller from detaching
	s.must(fixture.ForceDeletePod(t.Context(), s.client, s.name, "web-0"))
	s.must(fixture.DropVolumesAttached(t.Context(), s.client, s.nodeName("a"), v.UniqueName()))
	s.pod("web-0", "a")
	s.must(s.kubelets["a"].Start(t.Context()))
	s.await(fixture.PodWaiting(s.client, s.name, "web-0"))

	f := s.find("inuse-not-attached", soon)
	s.cannotWrite(f, "patch nodes/status "+s.nodeName("a"))

	before := s.written()
	file := filepath.Join(t.TempDir(), "plan.json")
	if r := s.doctorAs(cluster.Kubeconfig, f, "--save-repairs", file); r.Code != 1 || !strings.Contains(r.Stderr, "repairs saved") {
		t.Errorf("--save-repairs: exit code %d, want 1: the finding is still there", r.Code)
	}
	s.wroteNothing(before)
	saved, err := os.Open(file)
	s.must(err)
	defer saved.Close()
	plan, err := apply.ReadApproved(saved)
	s.must(err)
	if len(plan.Repairs) != 1 || plan.Repairs[0].Kind != repair.PatchNodeStatus || plan.Repairs[0].Finding.Fingerprint != f.Fingerprint {
		t.Fatalf("the plan holds %+v", plan.Repairs)
	}

	s.pod("web-1", "b")
	s.await(fixture.Attachment(s.client, s.nodeName("b"), v, "announced", func(a fixture.AttachmentState) bool { return a.InUse }))
	s.refuses(f, "volumesInUse of node "+s.nodeName("b"), "--approved", file)
	s.must(fixture.ForceDeletePod(t.Context(), s.client, s.name, "web-1"))
	s.await(fixture.Attachment(s.client, s.nodeName("b"), v, "forgotten", func(a fixture.AttachmentState) bool { return !a.InUse }))

	before = s.written()
	s.mends(f, "patch-node-status", "--approved", file)
	patch := "patch nodes " + s.nodeName("a")
	if made := s.written()[len(before):]; !slices.Equal(made, []string{"try " + patch, patch}) {
		t.Errorf("the plan is one patch, and there were %v", made)
	}
	node := s.nodeNow("a")
	s.marked(node, "patch-node-status for VD301")
	s.announced(node, "Repaired", "VD301 inuse-not-attached")
	s.await(fixture.PodRunning(s.client, s.name, "web-0"))
	s.published(v, "a")

	before = s.written()
	if r := s.doctorAs(cluster.Kubeconfig, f, "--approved", file, "--yes"); r.Code != 0 {
		t.Errorf("a plan that has been made: exit code %d", r.Code)
	}
	s.wroteNothing(before)
}
