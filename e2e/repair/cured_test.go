package repair_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/command"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/load"
)

// oldEnough is longer than VD404 requires an attach to have been refused.
const oldEnough = 16 * time.Minute

// attacherPause is how long the attacher waits before it asks the driver again; an ordinary
// one waits up to 5 min. A run of the command takes far less.
const attacherPause = 30 * time.Second

// slowCall is how long a call to the driver takes once it succeeds again.
const slowCall = 4 * time.Second

// curedWithin is how long the machine may take for the whole story, however busy it is.
const curedWithin = 30 * time.Minute

// TestCuredDetach: a driver refuses to detach a volume, and so to attach it to the node of
// another pod. At a random moment it succeeds. The refusal stands beside the new state
// until the attacher has asked again, while somebody lets the command repair whatever it
// may, again and again. No volume may be published to a node where no pod wants it.
func TestCuredDetach(t *testing.T) {
	const stories = "abcdefghij"
	for i, letter := range stories {
		// By so much later than the detach the attach is tried, each time: the stories have
		// moments of all lengths between the two.
		later := (time.Duration(i)*attacherPause + rand.N(attacherPause)) / time.Duration(len(stories))
		t.Run(string(letter), func(t *testing.T) {
			t.Parallel()
			cured(t, "cured"+string(letter), later)
		})
	}
}

func cured(t *testing.T, name string, later time.Duration) {
	s := stageOf(t, name)
	s.ownDriver("--retry-interval-start="+attacherPause.String(), "--retry-interval-max="+attacherPause.String(), "--timeout="+curedWithin.String())
	s.nodes("a", "b")
	// For a volume for one node the controller would not ask before the detach has ended.
	v, err := fixture.ClaimVolume(t.Context(), s.client, s.name, "data", s.driver.Name(), func(pv *corev1.PersistentVolume) {
		pv.Spec.AccessModes = append(pv.Spec.AccessModes, corev1.ReadWriteMany)
	})
	s.must(err)
	s.driver.OneAtATime(v.Handle)
	s.pod("web-0", "a")
	s.await(fixture.PodRunning(s.client, s.name, "web-0"))
	s.await(fixture.Attached(s.client, s.nodeName("a"), v))
	s.driver.FailUnpublish(status.Error(codes.FailedPrecondition, "the volume is busy"), v.Handle)
	s.deletePod("web-0")
	s.detachFails("a", v)
	time.Sleep(later)
	s.pod("web-1", "b")
	s.await(fixture.Condition{What: "the attach is refused", Check: func(ctx context.Context) (bool, []runtime.Object, error) {
		va, err := s.client.StorageV1().VolumeAttachments().Get(ctx, v.AttachmentName(s.nodeName("b")), metav1.GetOptions{})
		if err != nil {
			return false, nil, err
		}
		return va.Status.AttachError != nil && strings.Contains(va.Status.AttachError.Message, "already attached to node"), []runtime.Object{va}, nil
	}})
	s.must(load.Backdate(t.Context(), cluster.EtcdURL(), v.AttachmentName(s.nodeName("b")), oldEnough))
	// The check considers only a pod that has waited for longer than is usual.
	aged, err := load.Age(t.Context(), cluster.EtcdURL(), oldEnough, func(o load.Object) bool {
		_, is := o.(*corev1.Pod)
		return is && o.GetNamespace() == s.name && o.GetName() == "web-1"
	})
	s.must(err)
	if aged != 1 {
		s.Fatalf("%d pods were made older, want 1", aged)
	}
	written, beside := s.written(), false
	wait := rand.N(attacherPause)
	t.Logf("the driver detaches after %v", wait)
	// The refusal stands while the next call is under way: until a run of the command, which
	// takes as long as the machine is busy, has seen it beside the new state.
	release := func() {}
	cured := make(chan struct{})
	cure := time.AfterFunc(wait, func() {
		release = s.driver.HoldPublish(v.Handle)
		s.driver.Delay(slowCall, v.Handle)
		s.driver.FailUnpublish(nil, v.Handle)
		close(cured)
	})
	defer cure.Stop()
	for end := time.Now().Add(curedWithin); ; {
		pod, err := s.client.CoreV1().Pods(s.name).Get(t.Context(), "web-1", metav1.GetOptions{})
		s.must(err)
		if pod.Status.Phase == corev1.PodRunning {
			break
		}
		if time.Now().After(end) {
			s.Fatalf("pod web-1 does not run %v after the driver was cured", curedWithin)
		}
		// A recent write to the other node's list keeps the check from reporting.
		_, err = load.Age(t.Context(), cluster.EtcdURL(), oldEnough, func(o load.Object) bool {
			_, is := o.(*corev1.Node)
			return is && o.GetName() == s.nodeName("a")
		})
		s.must(err)
		before := s.refusalStands(v)
		pause := time.Second + rand.N(3*time.Second)
		r, err := command.Run(t.Context(), command.Binary, cluster.Kubeconfig, "diagnose", "pod/web-1", "-n", s.name, "--check", "VD404",
			"--for", pause.String(), "--settle", "1s", "--journal", s.journal(), "--apply", "--yes", "--allow", "unpublish-orphan")
		s.must(err)
		if strings.Contains(r.Stdout, "VD404") {
			t.Logf("suspected:\n%s", r.Stdout)
		}
		if before && s.refusalStands(v) {
			<-cured
			release()
			beside = true
		}
	}
	if !beside {
		t.Error("no run of the command saw the refusal beside the new state: this shows nothing")
	}
	if after := s.written(); len(after) != len(written) {
		t.Errorf("the command wrote: %v", after[len(written):])
	}
	detached := false
	for _, call := range s.driver.History(v.Handle) {
		switch {
		case call.Node != s.nodeName("a"):
		case !call.Publish && call.Err == nil:
			detached = true
		case detached && call.Publish:
			t.Errorf("nobody wants the volume on node a any more, and the driver was asked: %s", call)
		}
	}
	s.published(v, "b")
	s.noViolation()
}

// refusalStands reports whether the VolumeAttachment of node b still has the refusal,
// although that of node a, because of which it was refused, is gone.
func (s *stage) refusalStands(v fixture.Volume) bool {
	s.Helper()
	all := s.client.StorageV1().VolumeAttachments()
	_, err := all.Get(s.Context(), v.AttachmentName(s.nodeName("a")), metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		s.must(err)
		return false
	}
	va, err := all.Get(s.Context(), v.AttachmentName(s.nodeName("b")), metav1.GetOptions{})
	s.must(err)
	return va.Status.AttachError != nil && strings.Contains(va.Status.AttachError.Message, "already attached to node")
}
