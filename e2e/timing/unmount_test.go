package timing

import (
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// heartbeat is what a kubelet writes when it has nothing to say.
func heartbeat(n *corev1.Node) { n.Status.Conditions[0].LastHeartbeatTime.Time = time.Unix(1, 0) }

// TestNodeUpdateEndsTheAssumption: an attachment known from a VolumeAttachment
// alone is detached as soon as anybody writes to its node.
func TestNodeUpdateEndsTheAssumption(t *testing.T) {
	for name, test := range map[string]struct {
		edits []func(*corev1.Node)
		rows  []string
		write func(*corev1.Node)
	}{
		"a kubelet's heartbeat": {nil, []string{"NodeUpdate: Detach"}, heartbeat},
		"a label on a lost node": {[]func(*corev1.Node){lost}, []string{"NodeUpdate: Detach", "MaxWaitForUnmount: ForceDetach"},
			func(n *corev1.Node) { n.Labels = map[string]string{"someone": "was-here"} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := play(t, Settings{}, append(disk("a"), node("n1", test.edits...), attachment("a", "n1"))...)
			pair := on("n1", "a")
			s.predicted(pair, reconcile.Wait, test.rows...)
			s.stays(pair, reconcile.Wait)
			s.write("n1", test.write)
			s.awaitStep(pair, reconcile.Detach)
			s.never(pair, reconcile.ForceDetach)
			s.await("VolumeAttachment gone", func() bool { return len(s.attachments()) == 0 })
		})
	}
}

// TestTheControllersOwnWriteEndsTheAssumption too: it takes another volume off
// the status of a node that no kubelet writes to.
func TestTheControllersOwnWriteEndsTheAssumption(t *testing.T) {
	t.Parallel()
	s := play(t, Settings{}, append(disk("a"), node("n1", lost, lists(on("n1", "b").Volume)), attachment("a", "n1"))...)
	s.predicted(on("n1", "a"), reconcile.Wait, "NodeUpdate: Detach", "MaxWaitForUnmount: ForceDetach")
	s.predicted(on("n1", "b"), reconcile.Detach)
	s.awaitStep(on("n1", "a"), reconcile.Detach)
	s.never(on("n1", "a"), reconcile.ForceDetach)
}

// TestForceAfterTheTimeout: not before, and without the look at the live node.
func TestForceAfterTheTimeout(t *testing.T) {
	const wait = 700 * time.Millisecond
	a := on("n1", "a")
	t.Run("a lost node", func(t *testing.T) {
		t.Parallel()
		s := play(t, Settings{MaxWaitForUnmount: wait}, append(disk("a"), node("n1", lost, lists(a.Volume), uses(a.Volume)), attachment("a", "n1"))...)
		rows := s.predicted(a, reconcile.Wait, "Unmount: Detach", "MaxWaitForUnmount: ForceDetach")
		s.notBefore(s.awaitStep(a, reconcile.ForceDetach), rows[1].After)
		s.never(a, reconcile.Detach)
	})
	t.Run("a lost node, seen later", func(t *testing.T) {
		t.Parallel()
		objects := append(disk("a"), node("n1", lost, lists(a.Volume), uses(a.Volume)), attachment("a", "n1"))
		s := play(t, Settings{MaxWaitForUnmount: 3 * wait}, objects...)
		s.waitsPast(a, wait)
		now, acquired := time.Now(), metav1.NewMicroTime(s.Started)
		d := reconcile.NewWorld(pictureAt(now, append(objects, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-controller-manager"},
			Spec:       coordinationv1.LeaseSpec{AcquireTime: &acquired},
		})), reconcile.Options{MaxWaitForUnmount: 3 * wait}).Reconcile().Decision(a)
		after, bound := d.Until[1].Running(*d)
		if after <= 0 || after > 2*wait || bound != 3*wait {
			t.Errorf("from %s to %s", after, bound)
		}
		took := s.awaitStep(a, reconcile.ForceDetach).At.Sub(now)
		if took < after || took > bound {
			t.Errorf("by force after %s, not between %s and %s", took, after, bound)
		}
	})
	t.Run("a node that is gone", func(t *testing.T) {
		t.Parallel()
		s := play(t, Settings{MaxWaitForUnmount: wait}, append(disk("a"), attachment("a", "n1"))...)
		rows := s.predicted(a, reconcile.Wait, "MaxWaitForUnmount: ForceDetach")
		s.notBefore(s.awaitStep(a, reconcile.ForceDetach), rows[0].After)
		s.never(a, reconcile.Detach)
	})
	t.Run("a node that returns", func(t *testing.T) {
		t.Parallel()
		s := play(t, Settings{MaxWaitForUnmount: wait}, append(disk("a"), node("n1", lost, lists(a.Volume), uses(a.Volume)), attachment("a", "n1"))...)
		s.predicted(a, reconcile.Wait, "Unmount: Detach", "MaxWaitForUnmount: ForceDetach")
		s.write("n1", func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionTrue })
		s.waitsPast(a, 2*wait)
		s.write("n1", uses())
		// Once the time is over the controller looks at no live node any more,
		// Ready or not, and counts that as forced.
		if step := s.awaitStep(a, reconcile.ForceDetach); !strings.Contains(step.Line, "maxWaitForUnmountDuration expired") {
			t.Error(step.Line)
		}
	})
	t.Run("what no plugin can detach", func(t *testing.T) {
		t.Parallel()
		gone := Pair{Volume: "kubernetes.io/aws-ebs/x", Node: "n1"}
		s := play(t, Settings{MaxWaitForUnmount: wait}, node("n1", lost, lists(gone.Volume), uses(gone.Volume)))
		rows := s.predicted(gone, reconcile.Wait, "Unmount: Blocked", "MaxWaitForUnmount: Blocked")
		s.notBefore(s.awaitStep(gone, reconcile.Blocked), rows[1].After)
		s.never(gone, reconcile.Detach, reconcile.ForceDetach)
	})
}

// waitsPast sees the pair wait until so long after the start.
func (s *scene) waitsPast(pair Pair, after time.Duration) {
	s.t.Helper()
	s.await("passes", func() bool {
		steps := s.Of(pair)
		return len(steps) > 0 && steps[len(steps)-1].At.Sub(s.Started) > after
	})
	s.stays(pair, reconcile.Wait)
}

// TestNeverWithTheFlag: --disable-force-detach-on-timeout leaves nothing but
// the unmount, and of a node that is gone not even that.
func TestNeverWithTheFlag(t *testing.T) {
	settings := Settings{MaxWaitForUnmount: 50 * time.Millisecond, DisableForce: true}
	a := on("n1", "a")
	t.Run("a lost node", func(t *testing.T) {
		t.Parallel()
		s := play(t, settings, append(disk("a"), node("n1", lost, lists(a.Volume), uses(a.Volume)), attachment("a", "n1"))...)
		s.predicted(a, reconcile.Wait, "Unmount: Detach")
		s.waitsPast(a, 20*settings.MaxWaitForUnmount)
		s.write("n1", uses())
		s.awaitStep(a, reconcile.Detach)
		s.never(a, reconcile.ForceDetach)
	})
	t.Run("a node that is gone", func(t *testing.T) {
		t.Parallel()
		s := play(t, settings, append(disk("a"), attachment("a", "n1"))...)
		s.predicted(a, reconcile.Wait)
		s.waitsPast(a, 20*settings.MaxWaitForUnmount)
	})
}

// TestUnmountHasNoBound: a Ready node is waited for beyond every time-out.
func TestUnmountHasNoBound(t *testing.T) {
	t.Parallel()
	a := on("n1", "a")
	s := play(t, Settings{MaxWaitForUnmount: 50 * time.Millisecond}, append(disk("a"), node("n1", lists(a.Volume), uses(a.Volume)), attachment("a", "n1"))...)
	if rows := s.predicted(a, reconcile.Wait, "Unmount: Detach"); rows[0].Bound != 0 {
		t.Error(rows)
	}
	s.waitsPast(a, time.Second)
	s.write("n1", uses())
	s.awaitStep(a, reconcile.ForceDetach) // see "a node that returns"
}
