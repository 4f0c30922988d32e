package trace_test

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/evidence/metrics"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testworld"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

func fsGroup() *corev1.PodSecurityContext {
	group := int64(1000)
	return &corev1.PodSecurityContext{FSGroup: &group}
}

func call(method, code string, value float64) metrics.Sample {
	return testworld.Sample("csi_operations_seconds", value, "driver_name", testworld.Driver, "method_name", "/csi.v1.Node/"+method, "grpc_status_code", code)
}

func socket(state string) metrics.Sample {
	return testworld.Sample("plugin_manager_total_plugins", 1, "socket_path", "/var/lib/kubelet/plugins_registry/"+testworld.Driver+"-reg.sock", "state", state)
}

func TestCorroborate(t *testing.T) {
	deleting := func(p *corev1.Pod) { at := testworld.MinutesAgo(1); p.DeletionTimestamp = &at }
	for _, c := range []struct {
		name    string
		world   *testworld.World
		pod     func(*corev1.Pod) // nil: the kubelet has not got it
		more    []*corev1.Pod
		samples []metrics.Sample
		want    []string
		not     []string
	}{
		{name: "knows it", world: testworld.New().Pending(9), pod: func(*corev1.Pod) {}, want: []string{"agrees it knows the pod, in phase Pending"}},
		{name: "does not know it", world: testworld.New().Pending(9), want: []string{"differs it does not know the pod"}},
		{name: "knows a namesake", world: testworld.New().Pending(9), pod: func(p *corev1.Pod) { p.UID = "old" }, want: []string{"differs it does not know this pod, but another of the same name, with uid old"}},
		{name: "is behind", world: testworld.New().Stopped(9), pod: func(p *corev1.Pod) { p.DeletionTimestamp = nil }, want: []string{"differs it does not know yet that the pod is to be deleted"}},
		{name: "is ahead", world: testworld.New(), pod: deleting, want: []string{"differs it knows the pod as one that is to be deleted"}},
		{name: "another phase", world: testworld.New(), pod: func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending },
			want: []string{"differs it knows the pod in phase Pending, and the API server in phase Running"}},
		{name: "static pod", world: testworld.With(testworld.New(), func(w *testworld.World) { w.Pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "hash"} }),
			pod: func(p *corev1.Pod) { p.UID = "hash" }, want: []string{"agrees it knows the pod, in phase Running"}},
		{name: "a leftover uses the claim", world: testworld.New().Pending(9), pod: func(*corev1.Pod) {}, more: []*corev1.Pod{testworld.NewPod("gone", "n1")},
			want: []string{"adds it still has pod default/gone (uid uid-gone), which uses claim data"}},

		{name: "one waits", world: testworld.New().Pending(9), samples: testworld.Counts(3, 2), want: []string{"agrees of " + testworld.Plugin + " it wants 3 mounted and has 2, in all its pods: at least one waits"}},
		{name: "one of another pod waits", world: testworld.New(), samples: testworld.Counts(3, 2), want: []string{"adds of " + testworld.Plugin + " it wants 3 mounted and has 2"}},
		{name: "none seems to wait", world: testworld.New().Pending(9), samples: testworld.Counts(2, 2), want: []string{"adds of " + testworld.Plugin + " it wants 2 mounted and has 2, in all its pods: the counts show none that waits"}},
		{name: "all mounted", world: testworld.New(), samples: testworld.Counts(2, 2), want: []string{"agrees of " + testworld.Plugin + " it wants 2 mounted and has 2, in all its pods"}},
		{name: "unmount waits", world: testworld.New().Stopped(9), samples: testworld.Counts(1, 2), want: []string{"agrees of " + testworld.Plugin + " it wants 1 mounted and has 2, in all its pods: at least one is still to be unmounted"}},
		{name: "no series is none", world: testworld.New().Pending(9), samples: testworld.Counts(1, 0)[2:], want: []string{"it wants 0 mounted and has 0"}},
		{name: "no family is nothing", world: testworld.New().Pending(9), not: []string{"mounted and has", "registered"}},

		{name: "mounts fail", world: testworld.New().Pending(9), samples: []metrics.Sample{testworld.Operation("volume_mount", "fail-unknown", testworld.Plugin, 3),
			testworld.Operation("volume_mount", "success", testworld.Plugin, 4), testworld.Operation("volume_mount", "fail-unknown", "kubernetes.io/csi:other", 7), testworld.Operation("volume_unmount", "fail-unknown", testworld.Plugin, 5)},
			want: []string{"adds 3 of 7 operations volume_mount of " + testworld.Plugin + " have failed since it started"}, not: []string{"volume_unmount"}},
		{name: "unmounts fail without a word", world: testworld.New().Stopped(9), samples: []metrics.Sample{testworld.Operation("volume_unmount", "fail-unknown", testworld.Plugin, 5),
			testworld.Operation("unmount_device", "fail-unknown", "kubernetes.io/csi", 2), testworld.Operation("volume_mount", "fail-unknown", testworld.Plugin, 3), call("NodeUnpublishVolume", "DeadlineExceeded", 2), call("NodeUnpublishVolume", "OK", 6)},
			want: []string{"adds 5 of 5 operations volume_unmount", "adds 2 of 2 operations unmount_device",
				"adds of 8 calls NodeUnpublishVolume to " + testworld.Driver + " since it started have failed: 2 with DeadlineExceeded"}, not: []string{"volume_mount "}},
		{name: "calls succeed", world: testworld.New().Pending(9), samples: []metrics.Sample{call("NodeStageVolume", "OK", 6)}, not: []string{"NodeStageVolume"}},

		{name: "registered", world: testworld.New().Pending(9), samples: []metrics.Sample{socket("desired_state_of_world"), socket("actual_state_of_world")},
			want: []string{"agrees " + testworld.Driver + " is registered with it"}},
		{name: "CSINode left behind", world: testworld.New().Pending(9), samples: []metrics.Sample{socket("desired_state_of_world")},
			want: []string{"differs it sees a socket of " + testworld.Driver + " that is not registered, though the CSINode lists the driver"}},
		{name: "registration fails", world: testworld.With(testworld.New().Pending(9), func(w *testworld.World) { w.CSINodes[0].Spec.Drivers = nil }),
			samples: []metrics.Sample{socket("desired_state_of_world")}, want: []string{"agrees it sees a socket of " + testworld.Driver + " that is not registered: the registration fails"}},
		{name: "counts as registered in an old release", world: testworld.With(testworld.New().Pending(9), func(w *testworld.World) {
			w.CSINodes[0].Spec.Drivers, w.Node.Status.NodeInfo.KubeletVersion = nil, "v1.35.4"
		}), samples: []metrics.Sample{socket("desired_state_of_world"), socket("actual_state_of_world")},
			want: []string{"adds it counts " + testworld.Driver + " as registered; a kubelet of 1.35 does so even where the registration failed"}},
		{name: "no socket", world: testworld.With(testworld.New().Pending(9), func(w *testworld.World) { w.CSINodes[0].Spec.Drivers = nil }),
			samples: []metrics.Sample{testworld.Sample("plugin_manager_total_plugins", 1, "socket_path", "/other.sock", "state", "desired_state_of_world")},
			want:    []string{"agrees it sees no socket named after " + testworld.Driver}},

		{name: "labels", world: testworld.New().Pending(9), samples: []metrics.Sample{testworld.Sample("volume_manager_selinux_pod_context_mismatch_errors_total", 2, "access_mode", "RWOP")},
			want: []string{"adds it has counted 2 conflicts between SELinux labels"}},
		{name: "leftovers on disk", world: testworld.New().Stopped(9), samples: []metrics.Sample{testworld.Sample("reconstruct_volume_operations_errors_total", 2),
			testworld.Sample("force_cleaned_failed_volume_operation_errors_total", 1), testworld.Sample("kubelet_orphan_pod_cleaned_volumes_errors", 4)},
			want: []string{"adds 2 volumes that it found on disk when it started", "and 1 of them", "adds at its last sweep 4 volumes"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.world.Node.Status.NodeInfo.KubeletVersion == "" {
				c.world.Node.Status.NodeInfo.KubeletVersion = "v1.36.3"
			}
			s := c.world.Snapshot()
			before := diagnose.TracePod(s, c.world.Pod, diagnose.Options{}).Verdict
			view := trace.KubeletView{Samples: c.samples, Pods: c.more}
			if c.pod != nil {
				own := c.world.Pod.DeepCopy()
				c.pod(own)
				view.Pods = append(view.Pods, own)
			}
			doc := diagnose.TracePod(s, c.world.Pod, diagnose.Options{Kubelet: &view})
			var lines []string
			for _, said := range doc.Kubelet.Statements {
				lines = append(lines, string(said.Bearing)+" "+said.Text)
			}
			text := strings.Join(lines, "\n")
			for _, want := range c.want {
				if !strings.Contains(text, want) {
					t.Errorf("lacks %q:\n%s", want, text)
				}
			}
			for _, not := range c.not {
				if strings.Contains(text, not) {
					t.Errorf("has %q:\n%s", not, text)
				}
			}
			if !reflect.DeepEqual(doc.Verdict, before) || !doc.KubeletAnswered() || !doc.Complete {
				t.Errorf("the verdict changed, or it did not answer: %+v", doc)
			}
		})
	}
}

// TestCorroborateGaps: a kubelet that does not answer is a gap, and proves nothing.
func TestCorroborateGaps(t *testing.T) {
	w := testworld.New().Pending(9)
	s := w.Snapshot()
	for _, gaps := range [][]snapshot.Kind{{trace.KubeletPods}, {trace.KubeletMetrics}, {trace.KubeletPods, trace.KubeletMetrics}} {
		var view trace.KubeletView
		for _, kind := range gaps {
			view.Gaps = append(view.Gaps, snapshot.Gap{Kind: kind, Reason: snapshot.ReasonForbidden})
		}
		doc := diagnose.TracePod(s, w.Pod, diagnose.Options{Kubelet: &view})
		if doc.Complete || doc.KubeletAnswered() || len(doc.Gaps) != len(gaps) {
			t.Errorf("%v: complete %v, gaps %v", gaps, doc.Complete, doc.Gaps)
		}
		said := len(doc.Kubelet.Statements)
		if want := gaps[0] != trace.KubeletPods; (said > 0) != want {
			t.Errorf("%v: %+v", gaps, doc.Kubelet.Statements)
		}
	}
	if len(s.Gaps) > 0 {
		t.Errorf("the snapshot got gaps: %v", s.Gaps)
	}
	// Without a list of pods.
	less := testworld.New().Pending(9).Without(snapshot.Pods)
	gone := testworld.NewPod("gone", "n1")
	gone.UID = types.UID("gone")
	doc := diagnose.TracePod(less.Snapshot(), less.Pod, diagnose.Options{Kubelet: &trace.KubeletView{Pods: []*corev1.Pod{gone}}})
	for _, said := range doc.Kubelet.Statements {
		if strings.Contains(said.Text, "still has pod") {
			t.Errorf("without all pods it cannot be said that %s", said.Text)
		}
	}
}
