package repair_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/csidriver"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/kubelet"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/load"
)

var long = flag.Bool("long", false, "also wait out what an ordinary run has the clock moved on for")

// TestCreateAttachment: while kube-controller-manager is away, the finalizer is removed from
// a VolumeAttachment, and the object is deleted; then the pod is made again.
//
// The other tests must not see the controller go away: this one is over before any other
// begins.
func TestCreateAttachment(t *testing.T) {
	s := stageOf(t, "createattachment")
	s.nodes("a", "witness")
	v := s.running()
	s.kubelets["a"].Stop() // volumesInUse stays, from which the controller concludes that the volume is attached
	s.must(fixture.ForceDeletePod(t.Context(), s.client, s.name, "web-0"))
	cluster.StopController()
	attachments, name := s.client.StorageV1().VolumeAttachments(), v.AttachmentName(s.nodeName("a"))
	_, err := attachments.Patch(t.Context(), name, types.MergePatchType, noFinalizers, metav1.PatchOptions{})
	s.must(err)
	s.must(attachments.Delete(t.Context(), name, metav1.DeleteOptions{}))
	s.must(cluster.StartController(t.Context()))
	// The controller acts on a pod that comes now only after it has rebuilt its worlds.
	other, err := fixture.ClaimVolume(t.Context(), s.client, s.name, "witness", csidriver.Name, nil)
	s.must(err)
	_, err = fixture.CreatePod(t.Context(), s.client, fixture.Pod(s.name, "witness", s.nodeName("witness"), other.Claim))
	s.must(err)
	s.await(fixture.PodRunning(s.client, s.name, "witness"))
	s.pod("web-0", "a")
	s.must(s.kubelets["a"].Start(t.Context()))
	s.await(fixture.PodWaiting(s.client, s.name, "web-0"))
	t.Parallel()

	f := s.find("attached-phantom", fewMin)
	s.cannotWrite(f, "create volumeattachments.storage.k8s.io")
	s.await(fixture.PodWaiting(s.client, s.name, "web-0"))
	s.mends(f, "create-attachment")
	s.await(fixture.PodRunning(s.client, s.name, "web-0"))
	s.await(fixture.Attached(s.client, s.nodeName("a"), v))
	s.published(v, "a")
	va := s.attachment("a", v)
	s.marked(va, "create-attachment for VD302")
	s.announced(va, "Repaired", "VD302 attached-phantom")

	s.undo(3, "uses the volume")
	s.await(fixture.Attached(s.client, s.nodeName("a"), v))
	// The controller treats the new object as its own.
	s.deletePod("web-0")
	s.await(fixture.Detached(s.client, s.nodeName("a"), v))
	s.published(v)
	s.undo(0, "gone already")
}

// TestRepublish: a late detach takes the volume from the node again, before the kubelet has
// mounted it, and no component of the cluster learns of it.
func TestRepublish(t *testing.T) {
	s := newStage(t)
	s.node("a", kubelet.Options{Backend: cluster.Driver})
	v := s.volume()
	s.kubelets["a"].Stop()
	s.pod("web-0", "a")
	s.await(fixture.Attachment(s.client, s.nodeName("a"), v, "attached and listed", func(a fixture.AttachmentState) bool { return a.Attached() && a.Listed }))
	cluster.Driver.DetachByHand(v.Handle, s.nodeName("a"))
	s.must(s.kubelets["a"].Start(t.Context()))
	s.await(fixture.PodWaiting(s.client, s.name, "web-0"))
	s.mountFails("web-0", v)

	f := s.find("attached-true-but-not", fewMin)
	s.refuses(f, "--allow=re-publish")
	s.published(v)
	s.mends(f, "re-publish", "--allow", "re-publish")
	s.await(fixture.PodRunning(s.client, s.name, "web-0"))
	s.await(fixture.Attached(s.client, s.nodeName("a"), v))
	s.published(v, "a")
	s.announced(s.attachment("a", v), "Repaired", "VD308 attached-true-but-not")
	s.undo(3, "re-publish cannot be taken back")
	s.published(v, "a")
}

// mountFails writes the event of a mount that keeps failing, as a kubelet does, again after
// every 30 s, until the test is over: the stand-in writes none.
func (s *stage) mountFails(name string, v fixture.Volume) {
	s.Helper()
	pod, err := s.client.CoreV1().Pods(s.name).Get(s.Context(), name, metav1.GetOptions{})
	s.must(err)
	events := s.client.CoreV1().Events(s.name)
	event, err := events.Create(s.Context(), &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{GenerateName: name + "-"},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: s.name, Name: name, UID: pod.UID},
		Reason:         "FailedMount", Type: corev1.EventTypeWarning, Count: 1,
		Message:        `MountVolume.MountDevice failed for volume "` + v.PersistentVolume + `" : rpc error: code = NotFound desc = device not found`,
		Source:         corev1.EventSource{Component: "kubelet", Host: pod.Spec.NodeName},
		FirstTimestamp: metav1.Now(), LastTimestamp: metav1.Now(),
	}, metav1.CreateOptions{})
	s.must(err)
	go func() {
		for {
			select {
			case <-s.Context().Done():
				return
			case <-time.After(30 * time.Second):
			}
			now, err := s.client.CoreV1().Pods(s.name).Get(s.Context(), name, metav1.GetOptions{})
			if err != nil || now.Status.Phase == corev1.PodRunning {
				return
			}
			event.Count++
			event.LastTimestamp = metav1.Now()
			if updated, err := events.Update(s.Context(), event, metav1.UpdateOptions{}); err == nil {
				event = updated
			}
		}
	}()
}

// older is how much older a test that cannot wait makes its objects: the driver's last
// refusal must still be as young as the checks require.
const older = 9 * time.Minute

// refusedTwice is the longest time in which the attacher here is refused twice.
const refusedTwice = 30 * time.Second

// TestUnpublishOrphan: the storage system has the volume on a node without any record in the
// cluster, and refuses it to the node of a pod. The check waits for 15 min; here the
// VolumeAttachment is made older than it is.
func TestUnpublishOrphan(t *testing.T) {
	s := newStage(t)
	s.unpublishOrphan(func(v fixture.Volume) {
		s.must(load.Backdate(t.Context(), cluster.EtcdURL(), v.AttachmentName(s.nodeName("a")), oldEnough))
	})
}

// TestOrphanWaitedOut is TestUnpublishOrphan with a real wait of 15 min.
func TestOrphanWaitedOut(t *testing.T) {
	if !*long {
		t.Skip("NOT RUN: TestUnpublishOrphan is the same with an older VolumeAttachment; make e2e-long waits the 15 min of VD404 out")
	}
	s := newStage(t)
	// before that age the check only suspects it, since the pod waits
	s.unpublishOrphan(func(fixture.Volume) { time.Sleep(oldEnough) })
}

func (s *stage) unpublishOrphan(age func(fixture.Volume)) {
	s.nodes("a", "b")
	v := s.volume()
	cluster.Driver.AttachByHand(v.Handle, s.nodeName("b"))
	cluster.Driver.FailPublish(status.Errorf(codes.FailedPrecondition, "the volume is already attached to node %s", s.nodeName("b")), v.Handle)
	s.pod("web-0", "a")
	go func() { // a proper storage system gives the volume as soon as it is free
		for s.Context().Err() == nil && len(cluster.Driver.PublishedOn(v.Handle)) > 0 {
			time.Sleep(50 * time.Millisecond)
		}
		cluster.Driver.FailPublish(nil, v.Handle)
	}()

	s.await(fixture.Condition{What: "the attach is refused", Check: func(ctx context.Context) (bool, []runtime.Object, error) {
		va, err := s.client.StorageV1().VolumeAttachments().Get(ctx, v.AttachmentName(s.nodeName("a")), metav1.GetOptions{})
		return err == nil && va.Status.AttachError != nil, nil, nil
	}})
	age(v)

	f := s.suspects("orphan-backend-attachment", quarter)
	if f.Settles == nil {
		s.Errorf("after one look the finding is certain: %s", f.Cause)
	}
	if string(f.Holder) != s.nodeName("b") || string(f.Node) != s.nodeName("a") {
		s.Fatalf("the finding is about nodes %q and %q", f.Holder, f.Node)
	}
	// A run that has not seen the refusal writes nothing, whatever the user allows.
	s.refuses(f, "suspected", "--allow", "unpublish-orphan")
	s.refuses(f, "--allow=unpublish-orphan", "--for", refusedTwice.String())
	s.await(fixture.PodWaiting(s.client, s.name, "web-0"))
	s.published(v, "b")
	before := s.written()
	s.mends(f, "unpublish-orphan", "--allow", "unpublish-orphan", "--for", refusedTwice.String())
	name := "volumeattachments " + v.AttachmentName(s.nodeName("b"))
	// The dry run of a deletion is not in the log, and the attacher may write in between.
	made := slices.Compact(s.written()[len(before):])
	if want := []string{"try create " + name, "create " + name, "delete " + name}; !slices.Equal(made, want) {
		s.Errorf("the writes are %v, want %v", made, want)
	}
	s.noAttachment("b", v)
	s.await(fixture.PodRunning(s.client, s.name, "web-0"))
	s.await(fixture.Attached(s.client, s.nodeName("a"), v))
	s.published(v, "a")
	s.undo(3, "unpublish-orphan cannot be taken back")
	s.await(fixture.Attached(s.client, s.nodeName("a"), v))
	s.published(v, "a")
}

// suspects diagnoses until the check suspects a fault of this stage.
func (s *stage) suspects(check string, within time.Duration) finding.Finding {
	s.Helper()
	for end := time.Now().Add(within); ; time.Sleep(10 * time.Second) {
		report := parse[finding.Report](s.T, s.doctor("diagnose", "-o", "json", "--check", check).Stdout)
		if i := slices.IndexFunc(report.Findings, func(f finding.Finding) bool { return s.isAbout(f) && f.Confidence == finding.Suspected }); i >= 0 {
			return report.Findings[i]
		}
		if time.Now().After(end) {
			s.Fatalf("nothing suspected by %s within %v; there are %v", check, within, report.Findings)
		}
	}
}

// TestReplacedAttachment: somebody makes a VolumeAttachment under a name of their own, and
// between review and repair makes another of the same name.
func TestReplacedAttachment(t *testing.T) {
	s := newStage(t)
	s.nodes("a")
	v := s.volume()
	attachments, name := s.client.StorageV1().VolumeAttachments(), "by-hand-"+s.name
	create := func() types.UID {
		va, err := attachments.Create(t.Context(), &storagev1.VolumeAttachment{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: storagev1.VolumeAttachmentSpec{
				Attacher: csidriver.Name, NodeName: s.nodeName("a"),
				Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &v.PersistentVolume},
			},
		}, metav1.CreateOptions{})
		s.must(err)
		s.await(s.isPublished(v, "a"))
		return va.UID
	}
	create()

	f := s.find("foreign-va", soon)
	s.refuses(f, "--allow=delete-attachment")
	s.cannotWrite(f, "delete volumeattachments.storage.k8s.io "+name, "--allow", "delete-attachment")
	before := s.written()
	file := filepath.Join(t.TempDir(), "plan.json")
	if r := s.doctorAs(cluster.Kubeconfig, f, "--allow", "delete-attachment", "--save-plan", file); r.Code != 1 {
		t.Errorf("--save-plan: exit code %d", r.Code)
	}
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), `"kind": "delete-attachment"`) {
		t.Fatalf("the plan: %v\n%s", err, text)
	}
	// A plan is no consent: the consent must be given again.
	if r := s.doctorAs(cluster.Kubeconfig, f, "--plan", file, "--yes"); r.Code != 3 || !strings.Contains(r.Stderr, "--allow delete-attachment") {
		t.Errorf("--plan without the consent: exit code %d", r.Code)
	}
	s.wroteNothing(before)

	s.must(attachments.Delete(t.Context(), name, metav1.DeleteOptions{}))
	s.await(gone("the VolumeAttachment "+name, func(ctx context.Context) (runtime.Object, error) {
		return attachments.Get(ctx, name, metav1.GetOptions{})
	}))
	s.published(v)
	uid := create()
	f = s.find("foreign-va", soon)
	if f.Subject.UID != uid {
		t.Fatalf("the finding is about %s, not %s", f.Subject.UID, uid)
	}
	s.refuses(f, "nothing was written", "--plan", file, "--allow", "delete-attachment")
	s.published(v, "a")

	s.mends(f, "delete-attachment", "--allow", "delete-attachment")
	s.await(s.isPublished(v))
	s.undo(3, "delete-attachment cannot be taken back")
}

// isPublished is the condition of published, for a state that takes time.
func (s *stage) isPublished(v fixture.Volume, nodes ...string) fixture.Condition {
	var names []string
	for _, node := range nodes {
		names = append(names, s.nodeName(node))
	}
	return condition("volume "+v.Handle+" is published on the nodes "+strings.Join(nodes, " "), func(context.Context) bool {
		return slices.Equal(s.driver.PublishedOn(v.Handle), names)
	})
}
