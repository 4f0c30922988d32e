package command_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/controlplane"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/scenario"
	"github.com/volume-doctor/kubectl-volume-doctor/output"
)

// TestPlanIsWhatTheControllerDoes: while the controller is away one pod leaves and two come;
// plan says what a controller that starts then will do, and the API server's audit log shows
// what it did.
func TestPlanIsWhatTheControllerDoes(t *testing.T) {
	w := newWorld(t, scenario.Healthy)
	client := cluster.Client()
	second, err := w.AddNode(t.Context(), w.Node+"-second")
	if err != nil {
		t.Fatal(err)
	}

	cluster.StopController()
	if err := fixture.DeletePod(t.Context(), client, w.Namespace, w.Subject.Pod); err != nil {
		t.Fatal(err)
	}
	await(t, fixture.PodGone(client, w.Namespace, w.Subject.Pod))
	await(t, w.Attachment("attached, listed, and no longer in use", func(s fixture.AttachmentState) bool {
		return s.Attached() && s.Listed && !s.InUse
	}))
	fresh, err := fixture.BoundVolume(t.Context(), client, w.Namespace, "fresh", corev1.ReadWriteOnce)
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range []*corev1.Pod{
		fixture.Pod(w.Namespace, "comes", second.Node(), fresh.Claim),
		fixture.Pod(w.Namespace, "waits", second.Node(), w.Neighbour.Volume.Claim),
	} {
		if _, err := fixture.CreatePod(t.Context(), client, pod); err != nil {
			t.Fatal(err)
		}
	}

	r := doctor(t, "plan", "node/"+w.Node, "node/"+second.Node(), "-o", "json")
	if r.Code != 0 {
		t.Fatalf("plan: exit code %d", r.Code)
	}
	plan := parse[output.Plan](t, r.Stdout)
	var verbs, promised []string
	for _, d := range plan.Decisions {
		verbs = append(verbs, fmt.Sprintf("%s %s %s", d.Verb, d.PersistentVolume, d.Node))
		switch d.Verb {
		case "Attach":
			promised = append(promised, "create "+d.VolumeAttachment)
		case "Detach", "ForceDetach":
			promised = append(promised, "delete "+d.VolumeAttachment)
		}
	}
	slices.Sort(verbs)
	want := []string{
		"Attach " + fresh.PersistentVolume + " " + second.Node(),
		"Detach " + w.Subject.Volume.PersistentVolume + " " + w.Node,
		"Keep " + w.Neighbour.Volume.PersistentVolume + " " + w.Node,
		"MultiAttach " + w.Neighbour.Volume.PersistentVolume + " " + second.Node(),
	}
	if !slices.Equal(verbs, want) {
		t.Fatalf("plan decides\n%v, want\n%v", verbs, want)
	}

	already := len(attachmentWrites(t))
	if err := cluster.StartController(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, fixture.PodRunning(client, w.Namespace, "comes"))
	await(t, fixture.Detached(client, w.Node, w.Subject.Volume))
	did := attachmentWrites(t)[already:]
	slices.Sort(did)
	slices.Sort(promised)
	if !slices.Equal(did, promised) {
		t.Errorf("the controller did\n%v, the plan said\n%v", did, promised)
	}
	for _, row := range plan.NodeStatus {
		if string(row.Node) == w.Node {
			var now []corev1.UniqueVolumeName
			for _, v := range node(t, w.Node).Status.VolumesAttached {
				now = append(now, v.Name)
			}
			if !slices.Equal(now, row.VolumesAttached) {
				t.Errorf("node %s lists %v, the plan said %v", w.Node, now, row.VolumesAttached)
			}
		}
	}
	if err := fixture.DeletePod(t.Context(), client, w.Namespace, "waits"); err != nil {
		t.Fatal(err)
	}
}

// attachmentWrites lists which VolumeAttachments the controller has created and deleted so
// far, as "create NAME" and "delete NAME".
func attachmentWrites(t *testing.T) []string {
	t.Helper()
	events, err := cluster.Writes(controlplane.UserController)
	if err != nil {
		t.Fatal(err)
	}
	var writes []string
	for _, e := range events {
		if e.ObjectRef == nil || e.ObjectRef.Resource != "volumeattachments" || e.ResponseStatus == nil || e.ResponseStatus.Code >= 300 {
			continue
		}
		writes = append(writes, e.Verb+" "+e.ObjectRef.Name)
	}
	return writes
}
