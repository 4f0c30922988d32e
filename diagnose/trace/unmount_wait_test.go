package trace_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/kubeletwords"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testworld"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// TestDetachBegun: once the VolumeAttachment is being deleted nobody waits for an unmount.
func TestDetachBegun(t *testing.T) {
	for _, ready := range []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionUnknown} {
		w := testworld.New().Pending(9).Unattached()
		va, deleted := testworld.NewAttachment("n2"), testworld.MinutesAgo(8)
		va.DeletionTimestamp = &deleted
		w.VolumeAttachments = []*storagev1.VolumeAttachment{va}
		w.Nodes[1].Status.VolumesInUse = []corev1.UniqueVolumeName{testworld.Volume}
		w.Nodes[1].Status.Conditions[0].Status = ready
		doc := traceOf(w)
		if doc.Verdict.Actor != "the external-attacher of ebs.csi.aws.com" || strings.Contains(traceText(doc), "waits for that") {
			t.Errorf("Ready %s: next to act is %q:\n%s", ready, doc.Verdict.Actor, traceText(doc))
		}
	}
}

// TestUnmountWithoutDriver: an unmount waits for whoever keeps the driver from registering, as the
// finding about the registration says.
func TestUnmountWithoutDriver(t *testing.T) {
	for message, actor := range map[string]string{
		`RegisterPlugin error -- admission webhook "w" denied the request: no`: kubeletwords.ClusterAdmin,
		"RegisterPlugin error -- failed to get instance metadata":              "whoever runs the platform",
		"RegisterPlugin error -- no id":                                        "the node plugin of ebs.csi.aws.com on n1",
	} {
		w := testworld.New().Stopped(9)
		w.CSINodes[0].Spec.Drivers = nil
		plugin := testworld.NewPod("plugin", "n1")
		plugin.Spec.Volumes = []corev1.Volume{{Name: "dir", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/var/lib/kubelet/plugins/ebs.csi.aws.com"}}}}
		plugin.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{Message: message, FinishedAt: testworld.MinutesAgo(1)}
		w.Pods = append(w.Pods, plugin)
		if v := traceOf(w).Verdict; v.Actor != actor || v.Stage != trace.StageUnmounted {
			t.Errorf("%s: next to act is %q in %s, want %q: %s", message, v.Actor, v.Stage, actor, v.Message)
		}
	}
}

// TestUntilUnmounted compares the description of the wait for an unmount with what the
// controller does, by node, release and setting, in all three places that have it.
func TestUntilUnmounted(t *testing.T) {
	ready := func(*corev1.Node) {}
	lost := func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }
	taint := func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}}
	}
	const limitless = "without a time limit"
	for _, c := range []struct {
		name    string
		node    func(*corev1.Node)
		release string
		options reconcile.Options
		says    string
		after   time.Duration // of a Wait; -1: no Wait
		actor   string        // on whom the wait of a pod on another node depends
	}{
		{name: "Ready", node: ready, says: "while the node is Ready the controller waits for that " + limitless, actor: "the kubelet of n2"},
		{name: "Ready, no detach by force", node: ready, options: reconcile.Options{DisableForceDetachOnTimeout: true},
			says: "while the node is Ready the controller waits for that " + limitless, actor: "the kubelet of n2"},
		{name: "Ready and out of service", node: taint, says: "detaches it immediately, because the node has the out-of-service taint", after: -1, actor: "the attach/detach controller"},
		{name: "Ready, up to 1.24.8", node: ready, release: "v1.24.8", says: "waits 6m for that, and then detaches it, mounted or not", actor: "the kubelet of n2"},
		{name: "Ready, 1.24.9", node: ready, release: "v1.24.9", says: limitless, actor: "the kubelet of n2"},
		{name: "Ready, 1.22.3 with another time-out", node: ready, release: "v1.22.3", options: reconcile.Options{MaxWaitForUnmount: 2 * time.Minute},
			says: "waits 2m for that, and then detaches it, mounted or not", actor: "the kubelet of n2"},
		{name: "lost", node: lost, says: "detaches it by force 6m after the last pod there is gone", after: 6 * time.Minute, actor: "the attach/detach controller"},
		{name: "lost, with another time-out", node: lost, options: reconcile.Options{MaxWaitForUnmount: 2 * time.Minute},
			says: "detaches it by force 2m after the last pod there is gone", after: 2 * time.Minute, actor: "the attach/detach controller"},
		{name: "lost, no detach by force", node: lost, options: reconcile.Options{DisableForceDetachOnTimeout: true},
			says: limitless + ", because it is told not to detach by force", actor: "node n2"},
		{name: "lost, a release without that switch", node: lost, release: "v1.29.1", options: reconcile.Options{DisableForceDetachOnTimeout: true},
			says: "detaches it by force 6m after", after: 6 * time.Minute, actor: "the attach/detach controller"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := testworld.New().Pending(9).Unattached()
			w.VolumeAttachments = []*storagev1.VolumeAttachment{testworld.NewAttachment("n2")}
			w.Nodes[1].Status.VolumesAttached = []corev1.AttachedVolume{{Name: testworld.Volume}}
			w.Nodes[1].Status.VolumesInUse = []corev1.UniqueVolumeName{testworld.Volume}
			c.node(w.Nodes[1])
			if c.release == "" {
				c.release = "v1.36.3"
			}
			s := snapshot.New(testworld.Now, snapshot.Source{ServerVersion: c.release}, w.Objects, nil)
			world := reconcile.NewWorld(s, c.options)
			plan := world.Reconcile()
			said := facts.NewView(s, world, plan).UntilUnmounted(w.Nodes[1])
			if !strings.Contains(said, c.says) {
				t.Errorf("says %q, want %q", said, c.says)
			}
			d := plan.Decision(reconcile.VolumeNode{Volume: testworld.Volume, Node: "n2"})
			if d == nil || (d.Verb == reconcile.Wait) != (c.after >= 0) || c.after >= 0 && d.After != c.after {
				t.Errorf("the plan has %+v", d)
			}
			doc := diagnose.TracePod(s, w.Pod, diagnose.Options{Reconcile: c.options})
			if doc.Verdict.Actor != c.actor {
				t.Errorf("next to act is %q, want %q: %s", doc.Verdict.Actor, c.actor, doc.Verdict.Message)
			}
			text := traceText(doc)
			if !strings.Contains(text, c.says) {
				t.Errorf("the trace does not say %q:\n%s", c.says, text)
			}
			if (strings.Contains(text, "without a") && strings.Contains(text, "limit")) != strings.Contains(said, limitless) {
				t.Errorf("the trace speaks of another limit:\n%s", text)
			}
			ahead := diagnose.PreflightNode(s, "n2", diagnose.Options{Reconcile: c.options})
			for _, hang := range ahead.Drain.Hangs {
				if strings.Contains(hang.Because, "no pod on the node uses it any more") && !strings.Contains(hang.Because, said) {
					t.Errorf("preflight says %q", hang.Because)
				}
			}
		})
	}
}
