package timing

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/kubernetes/pkg/util/goroutinemap/exponentialbackoff"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// TestVerifySync: what is wanted is attached anew, what is not is forgotten,
// and what the controller has no spec of is not verified.
func TestVerifySync(t *testing.T) {
	t.Parallel()
	const every = time.Second // of which the model says a minute
	wanted, unfinished, fine := on("n1", "wanted"), on("n1", "unfinished"), on("n1", "fine")
	ended, unknown := on("n1", "ended"), on("n1", "unknown")
	names := []corev1.UniqueVolumeName{wanted.Volume, unfinished.Volume, fine.Volume, ended.Volume, unknown.Volume}
	objects := []runtime.Object{
		node("n1", lists(names...), uses(names...)),
		pod("p1", "n1", "wanted"), pod("p2", "n1", "unfinished"), pod("p3", "n1", "fine"), pod("p4", "n1", "ended"),
		attachment("fine", "n1"), attachment("unfinished", "n1", func(va *storagev1.VolumeAttachment) { va.Status.Attached = false }),
	}
	objects[4].(*corev1.Pod).Status.Phase = corev1.PodFailed // gives its volume's spec, and no more
	for _, name := range []string{"wanted", "unfinished", "fine", "ended"} {
		objects = append(objects, disk(name)...)
	}
	s := play(t, Settings{VerifyEvery: every}, objects...)
	if rows := s.predicted(wanted, reconcile.Keep, "VerifySync: Attach"); rows[0].After != time.Minute {
		t.Error(rows)
	}
	s.predicted(unfinished, reconcile.Keep, "VerifySync: Attach")
	s.predicted(fine, reconcile.Keep)
	s.predicted(ended, reconcile.Wait, "Unmount: Detach", "VerifySync: ")
	s.predicted(unknown, reconcile.Wait, "Unmount: Detach")

	s.notBefore(s.awaitStep(wanted, reconcile.Attach), every)
	s.notBefore(s.awaitStep(unfinished, reconcile.Attach), every)
	s.await("ended is off the node's status", func() bool {
		n, err := s.Client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
		return err == nil && !listed(n, ended.Volume)
	})
	before := len(s.Of(ended))
	s.stays(fine, reconcile.Keep)
	s.stays(unknown, reconcile.Wait)
	if after := len(s.Of(ended)); after > before+1 {
		t.Errorf("%d passes over what is forgotten", after-before)
	}
	s.never(ended, reconcile.Detach, reconcile.ForceDetach)
}

func listed(n *corev1.Node, name corev1.UniqueVolumeName) bool {
	for _, v := range n.Status.VolumesAttached {
		if v.Name == name {
			return true
		}
	}
	return false
}

// TestMultiAttachEndsWithItsHolder: with the holder's own wait, or its pod.
func TestMultiAttachEndsWithItsHolder(t *testing.T) {
	const wait = 700 * time.Millisecond
	waiter, holder := on("n1", "a"), on("n2", "a")
	for name, how := range map[string]Detaching{"detached by force": Works, "detach refused": Refuses} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := play(t, Settings{MaxWaitForUnmount: wait, Detaching: how}, append(disk("a"), pod("p", "n1", "a"), attachment("a", "n2"),
				node("n1"), node("n2", lost, lists(holder.Volume), uses(holder.Volume)))...)
			if rows := s.predicted(waiter, reconcile.MultiAttach, "HolderLeaves: Attach"); rows[0].Bound != wait+2*time.Minute {
				t.Error(rows)
			}
			ends := s.predicted(holder, reconcile.Wait, "Unmount: Detach", "MaxWaitForUnmount: ForceDetach")[1]
			s.awaitStep(waiter, reconcile.MultiAttach)
			attach := s.awaitStep(waiter, reconcile.Attach)
			s.notBefore(attach, ends.After)
			if detach := s.awaitStep(holder, reconcile.ForceDetach); attach.At.Before(detach.At) {
				t.Error("attached before the holder was detached")
			}
			s.await("VolumeAttachments", func() bool {
				return len(s.attachments()) == map[Detaching]int{Works: 1, Refuses: 2}[how]
			})
		})
	}
	t.Run("the holder's pod goes", func(t *testing.T) {
		t.Parallel()
		s := play(t, Settings{}, append(disk("a"), pod("old", "n2", "a"), pod("new", "n1", "a"), attachment("a", "n2"),
			node("n1"), node("n2", lists(holder.Volume), uses(holder.Volume)))...)
		s.predicted(waiter, reconcile.MultiAttach, "HolderLeaves: Attach")
		s.predicted(holder, reconcile.Keep)
		s.stays(holder, reconcile.Keep)
		if err := s.Client.CoreV1().Pods("default").Delete(t.Context(), "old", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		s.awaitStep(holder, reconcile.Wait)
		s.never(waiter, reconcile.Attach)
		s.write("n2", uses())
		detach := s.awaitStep(holder, reconcile.Detach)
		if attach := s.awaitStep(waiter, reconcile.Attach); attach.At.Before(detach.At) {
			t.Error("attached before the holder was detached")
		}
	})
}

// TestBlockedUntilTheOperationEnds, however long that takes.
func TestBlockedUntilTheOperationEnds(t *testing.T) {
	t.Parallel()
	waiter, holder := on("n1", "a"), on("n2", "a")
	s := play(t, Settings{Detaching: Hangs}, append(disk("a"), pod("p", "n1", "a"), attachment("a", "n2"),
		node("n1"), node("n2", lists(holder.Volume)))...)
	if rows := s.predicted(waiter, reconcile.Blocked, "OperationEnds: Attach"); rows[0].Bound != 2*time.Minute {
		t.Error(rows)
	}
	s.awaitStep(holder, reconcile.Detach)
	s.await("passes in which the attach is blocked", func() bool { return len(s.Of(waiter, reconcile.Blocked)) > many })
	s.never(waiter, reconcile.Attach)
	if err := s.FinishDetach(reconcile.VolumeAttachmentName("a", driver, "n2")); err != nil {
		t.Fatal(err)
	}
	s.awaitStep(waiter, reconcile.Attach)
}

// TestOneOfTwoIsServed: the other one waits for it, and then for its pod.
func TestOneOfTwoIsServed(t *testing.T) {
	t.Parallel()
	first, second := on("n1", "a"), on("n2", "a")
	s := play(t, Settings{}, append(disk("a"), pod("p1", "n1", "a"), pod("p2", "n2", "a"), node("n1"), node("n2"))...)
	s.predicted(first, reconcile.Attach, "OperationEnds: MultiAttach")
	s.predicted(second, reconcile.Attach, "OperationEnds: MultiAttach")
	s.await("one attached and the other one told of it", func() bool {
		return len(s.Of(first, reconcile.MultiAttach))+len(s.Of(second, reconcile.MultiAttach)) == 1
	})
	if len(s.Of(second, reconcile.MultiAttach)) == 0 {
		first, second = second, first
	}
	s.awaitStep(first, reconcile.Keep)
	s.never(second, reconcile.Attach)
}

// TestBlockedForGood: the controller tries in every pass and never succeeds.
func TestBlockedForGood(t *testing.T) {
	t.Parallel()
	for _, name := range []corev1.UniqueVolumeName{"kubernetes.io/aws-ebs/x", "garbage"} {
		pair := Pair{Volume: name, Node: "n1"}
		s := play(t, Settings{MaxWaitForUnmount: loop}, node("n1", lists(name)))
		s.predicted(pair, reconcile.Blocked)
		s.stays(pair, reconcile.Blocked)
		s.stays(pair, reconcile.Blocked)
		t.Logf("%s: %d passes, %d writes to the node's status", name, len(s.Of(pair)), writes(s))
	}
}

func writes(s *scene) int {
	n := 0
	for _, action := range s.Client.Actions() {
		if _, ok := action.(clienttesting.PatchAction); ok && action.GetResource().Resource == "nodes" {
			n++
		}
	}
	return n
}

// TestBackoff: what fails at once is tried again after half a second, and then
// after twice as long.
func TestBackoff(t *testing.T) {
	now := metav1.Now()
	for name, test := range map[string]struct {
		pair    Pair
		verb    reconcile.Verb
		objects []runtime.Object
		rows    []string // after the Backoff
	}{
		"attach of what is being deleted": {on("n1", "a"), reconcile.Attach, append(disk("a"), node("n1"), pod("p", "n1", "a"),
			attachment("a", "n1", func(va *storagev1.VolumeAttachment) { va.DeletionTimestamp = &now })), nil},
		"detach of a name that cannot be read": {on("n1", "a^b"), reconcile.Detach, []runtime.Object{node("n1", lists(on("n1", "a^b").Volume))},
			[]string{"MaxWaitForUnmount: ForceDetach"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := play(t, Settings{}, test.objects...)
			row := s.predicted(test.pair, test.verb, append([]string{"Backoff: " + string(test.verb)}, test.rows...)...)[0]
			if first, last := pauses(t); row.After != first || row.Bound != last {
				t.Errorf("the model says from %s to %s, upstream from %s to %s", row.After, row.Bound, first, last)
			}
			pause := row.After
			s.await("three tries", func() bool { return len(s.Of(test.pair, test.verb)) >= 3 })
			tries := s.Of(test.pair, test.verb)
			for i := range 2 {
				if took := tries[i+1].At.Sub(tries[i].At); took < pause<<i {
					t.Errorf("try %d after %s, not before %s", i+2, took, pause<<i)
				}
			}
		})
	}
}

// pauses are the shortest and the longest of upstream's backoff, which tells
// them in its message alone.
func pauses(t *testing.T) (first, last time.Duration) {
	t.Helper()
	failed, backoff := errors.New("failed"), exponentialbackoff.ExponentialBackoff{}
	for range many {
		backoff.Update(&failed)
		_, text, _ := strings.Cut(backoff.GenerateNoRetriesPermittedMsg("x"), "(durationBeforeRetry ")
		text, _, _ = strings.Cut(text, ")")
		pause, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		if first == 0 {
			first = pause
		}
		last = pause
	}
	return first, last
}
