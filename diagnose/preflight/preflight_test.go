package preflight_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/preflight"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/long"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testworld"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// owned gives the pod a controller.
func owned(w *testworld.World, kind string) *testworld.World {
	yes := true
	w.Pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: "app", UID: "uid-owner", Controller: &yes}}
	return w
}

// preflightText is each scenario's waits and hangs, a line each.
func preflightText(p *preflight.Preflight) string {
	var b strings.Builder
	for _, s := range []struct {
		name string
		preflight.Scenario
	}{{"drain", p.Drain}, {"loss", p.Loss}} {
		for _, w := range s.Waits {
			fmt.Fprintf(&b, "%s %s %s %s never=%t %s\n", s.name, w.PersistentVolume, w.For, w.AtMost, w.Never, w.Because)
		}
		for _, h := range s.Hangs {
			hangs := "hangs"
			if h.Perhaps {
				hangs = "may hang"
			}
			fmt.Fprintf(&b, "%s %s %s: %s\n", s.name, hangs, h.PersistentVolume, h.Because)
		}
	}
	for _, r := range p.Room {
		fmt.Fprintf(&b, "room %s moving=%d free=%d unlimited=%t lacking=%d\n", r.Driver, r.Moving, r.Free, r.Unlimited, r.Lacking)
	}
	return b.String()
}

// lost makes the kubelet of the pod's node silent so many minutes ago.
func lost(w *testworld.World, minutes float64) {
	ready := &w.Node.Status.Conditions[0]
	ready.Status, ready.LastTransitionTime = corev1.ConditionUnknown, testworld.MinutesAgo(minutes)
}

func TestPreflightWaits(t *testing.T) {
	for _, c := range []struct {
		name    string
		world   *testworld.World
		options reconcile.Options
		want    []string
		not     string
		hangs   bool
	}{
		{name: "deployment", world: owned(testworld.New(), "ReplicaSet"), want: []string{"drain pv-data Unmount 2m40s never=false", "loss pv-data Pod  never=true"}},
		{name: "long grace", world: testworld.With(owned(testworld.New(), "ReplicaSet"), func(w *testworld.World) {
			seconds := int64(300)
			w.Pod.Spec.TerminationGracePeriodSeconds = &seconds
		}), want: []string{"drain pv-data Unmount 7m10s never=false"}},
		{name: "statefulSet", world: owned(testworld.New(), "StatefulSet"), want: []string{"drain pv-data Unmount 2m40s never=false", "loss pv-data Pod  never=true"}},
		{name: "no container runs", world: owned(testworld.New().Pending(1), "ReplicaSet"), want: []string{"loss pv-data ForceDetach 13m50s never=false"}},
		{name: "no forced detach", world: owned(testworld.New().Pending(1), "ReplicaSet"), options: reconcile.Options{DisableForceDetachOnTimeout: true},
			want: []string{"loss pv-data ForceDetach  never=true"}},
		{name: "tolerates shortly", world: testworld.With(owned(testworld.New().Pending(1), "ReplicaSet"), func(w *testworld.World) {
			seconds := int64(10)
			w.Pod.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists,
				Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds}}
		}), want: []string{"loss pv-data ForceDetach 9m0s never=false"}},
		{name: "tolerates for ever", world: testworld.With(owned(testworld.New(), "ReplicaSet"), func(w *testworld.World) {
			w.Pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		}), want: []string{"loss pv-data Pod  never=true"}},
		{name: "many nodes", world: testworld.With(owned(testworld.New(), "ReplicaSet"), func(w *testworld.World) {
			w.Volumes[0].Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
		}), want: []string{"drain pv-data Nothing  never=false", "loss pv-data Nothing 5m50s never=false"}},
		{name: "attached to another node", world: testworld.With(owned(testworld.New().Pending(1).Unattached(), "ReplicaSet"), func(w *testworld.World) {
			w.VolumeAttachments, w.Node.Status.VolumesInUse = []*storagev1.VolumeAttachment{testworld.NewAttachment("n2")}, nil
		}), want: []string{"drain pv-data Nothing  never=false it is neither attached", "loss pv-data Nothing 5m50s never=false it is neither attached"}},
		{name: "lost already", world: testworld.With(owned(testworld.New(), "ReplicaSet"), func(w *testworld.World) { lost(w, 2) }),
			want: []string{"drain pv-data Pod  never=true", "loss pv-data Pod  never=true", "the successor comes after 3m,"}, hangs: true},
		{name: "lost already, and no container runs", world: testworld.With(owned(testworld.New().Pending(1), "ReplicaSet"), func(w *testworld.World) { lost(w, 2) }),
			want: []string{"loss pv-data ForceDetach 11m0s never=false", "evicted after 3m,"}, hangs: true},
		{name: "lost, and told to go", world: testworld.With(owned(testworld.New(), "ReplicaSet"), func(w *testworld.World) {
			lost(w, 40)
			told := testworld.MinutesAgo(35)
			w.Pod.DeletionTimestamp = &told
		}), want: []string{"drain pv-data Pod  never=true", "loss pv-data Pod  never=true", "the old pod is Terminating"}, not: "the successor comes", hangs: true},
		{name: "nobody makes it anew", world: testworld.New(), want: []string{"drain pv-data Pod  never=true", "loss pv-data Pod  never=true"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := diagnose.PreflightNode(c.world.Snapshot(), "n1", diagnose.Options{Reconcile: c.options})
			text := preflightText(p)
			for _, want := range c.want {
				if !strings.Contains(text, want) {
					t.Errorf("lacks %q:\n%s", want, text)
				}
			}
			if c.not != "" && strings.Contains(text, c.not) {
				t.Errorf("has %q:\n%s", c.not, text)
			}
			if p.Hangs() != c.hangs || len(p.Missing) > 0 {
				t.Errorf("hangs, or has no answer:\n%s", text)
			}
			if stranded := len(p.Stranded) == 1; stranded != (metav1.GetControllerOf(c.world.Pod) == nil) {
				t.Errorf("stranded: %v", p.Stranded)
			}
		})
	}
	if p := diagnose.PreflightNode(owned(testworld.New(), "DaemonSet").Snapshot(), "n1", diagnose.Options{}); len(p.Drain.Waits)+len(p.Stranded) > 0 {
		t.Errorf("a DaemonSet's pod moves: %+v", p.Drain)
	}
	old := owned(testworld.New().Pending(1), "ReplicaSet").Snapshot()
	old.Source.ServerVersion = "v1.31.4"
	if text := preflightText(diagnose.PreflightNode(old, "n1", diagnose.Options{})); !strings.Contains(text, "ForceDetach 13m40s") {
		t.Errorf("1.31 takes a node for lost sooner:\n%s", text)
	}
}

func TestPreflightHangs(t *testing.T) {
	leftover := func(w *testworld.World) { w.Pods = nil }
	for _, c := range []struct {
		name  string
		world *testworld.World
		want  []string
		not   []string
	}{
		{name: "stage-only leftover", world: testworld.With(testworld.New(), leftover), want: []string{"drain hangs pv-data: no pod on the node uses it any more"}, not: []string{"loss hangs"}},
		{name: "detach fails", world: testworld.With(owned(testworld.New(), "ReplicaSet"), func(w *testworld.World) {
			deleted := testworld.MinutesAgo(2)
			w.VolumeAttachments[0].DeletionTimestamp = &deleted
			w.VolumeAttachments[0].Status.DetachError = &storagev1.VolumeError{Message: "rpc error: code = Internal desc = no permission", Time: testworld.MinutesAgo(1)}
		}), want: []string{`drain hangs pv-data: its detach fails already: "no permission"`, "loss hangs pv-data: its detach fails"}},
		{name: "detach without an answer", world: testworld.With(owned(testworld.New(), "ReplicaSet"), func(w *testworld.World) {
			deleted := testworld.MinutesAgo(9)
			w.VolumeAttachments[0].DeletionTimestamp = &deleted
		}), want: []string{"has been under way since 2026-11-20T09:51:00Z"}},
		{name: "attacher silent", world: testworld.With(owned(testworld.New(), "ReplicaSet"), func(w *testworld.World) {
			w.Leases = append(w.Leases, testworld.NewLease("kube-system", "external-attacher-leader-ebs-csi-aws-com", testworld.MinutesAgo(99), testworld.MinutesAgo(30)))
		}), want: []string{"has not renewed its lease since 2026-11-20T09:30:00Z", "drain pv-data Unmount  never=false"}},
		{name: "no controller leads", world: testworld.With(owned(testworld.New(), "ReplicaSet"), func(w *testworld.World) {
			w.Leases = []*coordinationv1.Lease{testworld.NewLease("kube-system", reconcile.ControllerManager, testworld.MinutesAgo(99), testworld.MinutesAgo(30))}
		}), want: []string{"drain hangs pv-data: no kube-controller-manager leads, whose lease was last renewed at 2026-11-20T09:30:00Z", "loss hangs pv-data", "drain pv-data Unmount  never=false"}},
		{name: "another controller leads soon", world: testworld.With(owned(testworld.New(), "ReplicaSet"), func(w *testworld.World) {
			w.Leases = []*coordinationv1.Lease{testworld.NewLease("kube-system", reconcile.ControllerManager, testworld.MinutesAgo(99), testworld.MinutesAgo(0.4))}
		}), want: []string{"drain pv-data Unmount 2m40s never=false"}, not: []string{"hangs"}},
		{name: "foreign finalizer", world: testworld.With(owned(testworld.New(), "ReplicaSet"), func(w *testworld.World) {
			w.VolumeAttachments[0].Finalizers = append(w.VolumeAttachments[0].Finalizers, "example.com/hold")
		}), want: []string{"example.com/hold"}},
		{name: "driver gone", world: testworld.With(owned(testworld.New(), "ReplicaSet"), func(w *testworld.World) { w.CSINodes[0].Spec.Drivers = nil }),
			want: []string{"drain hangs pv-data: ebs.csi.aws.com is not registered on the node"}, not: []string{"loss hangs"}},
		{name: "node not ready", world: testworld.With(owned(testworld.New(), "ReplicaSet"), func(w *testworld.World) { w.Node.Status.Conditions[0].Status = corev1.ConditionUnknown }),
			want: []string{"drain hangs pv-data: the node is not Ready"}, not: []string{"loss hangs"}},
		{name: "pod does not go", world: owned(testworld.New().Stopped(9), "ReplicaSet"), want: []string{"drain hangs"}},
		{name: "tied to the node", world: testworld.With(owned(testworld.New(), "ReplicaSet"), func(w *testworld.World) {
			w.Node.Labels = map[string]string{"zone": "a"}
			w.Volumes[0].Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}}}}}}
		}), want: []string{"drain pv-data Node  never=true", "drain hangs pv-data: its node affinity", "loss hangs pv-data: its node affinity"}},
		{name: "no other node", world: testworld.With(owned(testworld.New(), "ReplicaSet"), func(w *testworld.World) { w.Nodes[1].Spec.Unschedulable = true }),
			want: []string{"no other node is Ready and takes pods"}},
		{name: "a name nobody can read", world: testworld.With(owned(testworld.New(), "ReplicaSet"), func(w *testworld.World) {
			w.Volumes[0].Spec.CSI.VolumeHandle = "vol^1"
			w.Node.Status.VolumesAttached = []corev1.AttachedVolume{{Name: "kubernetes.io/csi/ebs.csi.aws.com^vol^1"}}
		}), want: []string{`which has a "^" in its handle`}},
		{name: "driver on no other node", world: testworld.With(owned(testworld.New(), "ReplicaSet"), func(w *testworld.World) { w.CSINodes[1].Spec.Drivers = nil }),
			want: []string{"drain pv-data Node  never=true ebs.csi.aws.com is registered on no other node", "loss hangs pv-data: ebs.csi.aws.com is registered on no other node", "lacking=0"}},
		{name: "driver on one of two other nodes", world: testworld.With(owned(thirdNode(), "ReplicaSet"), func(w *testworld.World) { w.CSINodes[1].Spec.Drivers = nil }),
			want: []string{"drain pv-data Unmount 2m40s never=false"}, not: []string{"hangs"}},
		{name: "two pods share it", world: shared(owned(thirdNode(), "ReplicaSet")),
			want: []string{"drain pv-data Unmount  never=false", "drain may hang pv-data: one node at a time may have it", "loss may hang pv-data"}},
		{name: "two pods share it, and one node suits", world: shared(owned(testworld.New(), "ReplicaSet")), want: []string{"drain pv-data Unmount 2m40s never=false"}, not: []string{"hang"}},
		{name: "two pods share it, which many nodes may have", world: testworld.With(shared(owned(thirdNode(), "ReplicaSet")), func(w *testworld.World) {
			w.Volumes[0].Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
		}), want: []string{"drain pv-data Nothing"}, not: []string{"hang"}},
		{name: "two pods share it, of which one at a time may run", world: testworld.With(shared(owned(thirdNode(), "ReplicaSet")), func(w *testworld.World) {
			w.Volumes[0].Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
		}), want: []string{"drain pv-data Unmount 2m40s never=false"}, not: []string{"hang"}},
		{name: "a pod that stays shares it", world: testworld.With(shared(owned(testworld.New(), "ReplicaSet")), func(w *testworld.World) { w.Pods[1].OwnerReferences[0].Kind = "DaemonSet" }),
			want: []string{"drain hangs pv-data: pod default/other, which a drain leaves on the node, uses it, too"}, not: []string{"loss hangs"}},
		{name: "the volume is Terminating", world: testworld.With(owned(testworld.New(), "StatefulSet"), volumeGoes),
			want: []string{"drain pv-data Node  never=true the volume is Terminating", "loss pv-data Node  never=true", "drain hangs pv-data: the volume is Terminating", "loss hangs pv-data"}},
		{name: "the volume is Terminating, and nobody attaches it", world: testworld.With(testworld.With(owned(testworld.New().Unattached(), "StatefulSet"), volumeGoes), func(w *testworld.World) {
			no := false
			w.CSIDrivers[0].Spec.AttachRequired, w.VolumeAttachments, w.Node.Status.VolumesInUse = &no, nil, nil
		}), want: []string{"drain pv-data Pod 2m33s never=false a StatefulSet"}, not: []string{"hangs"}},
		{name: "the volume is Terminating, and another node has it", world: testworld.With(testworld.With(owned(testworld.New(), "ReplicaSet"), volumeGoes), func(w *testworld.World) {
			w.Volumes[0].Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
			w.VolumeAttachments = append(w.VolumeAttachments, testworld.NewAttachment("n2"))
		}), want: []string{"drain pv-data Nothing  never=false", "drain may hang pv-data: the volume is Terminating"}},
		{name: "the claim is Terminating", world: testworld.With(owned(testworld.New(), "ReplicaSet"), claimGoes),
			want: []string{"drain pv-data Unknown  never=false claim data is Terminating", "loss pv-data Unknown  never=false"}, not: []string{"hangs"}},
		{name: "no room", world: limited(1), want: []string{"room ebs.csi.aws.com moving=1 free=0 unlimited=false lacking=1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := diagnose.PreflightNode(c.world.Snapshot(), "n1", diagnose.Options{})
			text := preflightText(p)
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
			if nothing := slices.Contains(c.not, "hangs") || slices.Contains(c.not, "hang"); p.Hangs() == nothing {
				t.Errorf("hangs: %t:\n%s", p.Hangs(), text)
			}
		})
	}
	p := diagnose.PreflightNode(limited(2).Snapshot(), "n1", diagnose.Options{})
	if text := preflightText(p); p.Hangs() || !strings.Contains(text, "free=1 unlimited=false lacking=0") {
		t.Errorf("there is room:\n%s", text)
	}
}

func volumeGoes(w *testworld.World) {
	at := testworld.MinutesAgo(60)
	w.Volumes[0].DeletionTimestamp, w.Volumes[0].Finalizers = &at, []string{"kubernetes.io/pv-protection"}
}

func claimGoes(w *testworld.World) {
	at := testworld.MinutesAgo(60)
	w.Claims[0].DeletionTimestamp, w.Claims[0].Finalizers = &at, []string{"kubernetes.io/pvc-protection"}
}

// TestPreflightFindings: those about pods on the node are told as well, and none beside its cause.
func TestPreflightFindings(t *testing.T) {
	for _, c := range []struct{ file, node, want string }{
		{"vd201-two-writers", "n1", "[VD201]"},
		{"vd201-two-writers", "n2", "[VD201]"},
		{"vd201-two-writers", "n3", "[]"},
		{"vd307-mount-fails", "n1", "[VD307]"},
	} {
		loaded, err := testcases.Load(c.file)
		if err != nil {
			t.Fatal(err)
		}
		s, err := loaded.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		codes := []finding.Code{}
		for _, f := range diagnose.PreflightNode(s, types.NodeName(c.node), diagnose.Options{Reconcile: loaded.Settings}).Findings {
			codes = append(codes, f.Code)
		}
		if got := fmt.Sprint(codes); got != c.want {
			t.Errorf("%s: %s has %s, not %s", c.file, c.node, got, c.want)
		}
	}
}

// thirdNode is the cluster with one more node.
func thirdNode() *testworld.World {
	w := testworld.New()
	w.Nodes, w.CSINodes = append(w.Nodes, testworld.NewNode("n3")), append(w.CSINodes, testworld.NewCSINode("n3"))
	return w
}

// shared gives the claim of the pod to another pod on its node as well.
func shared(w *testworld.World) *testworld.World {
	other := w.Pod.DeepCopy()
	other.Name, other.UID = "other", "uid-other"
	w.Pods = append(w.Pods, other)
	return w
}

// TestPreflightControllers: the only attacher of a driver is named where it runs on the node, and no
// bound is given for a detach that waits for its successor.
func TestPreflightControllers(t *testing.T) {
	attacher := func(name, node string) *corev1.Pod {
		pod := testworld.NewPod(name, node)
		pod.Namespace, pod.Spec.Volumes = "kube-system", nil
		pod.Spec.Containers = []corev1.Container{{Name: "csi-attacher"}}
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
		yes := true
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "ebs", UID: "uid-ebs", Controller: &yes}}
		return pod
	}
	run := func(pods ...*corev1.Pod) *testworld.World {
		w := owned(testworld.New(), "ReplicaSet")
		w.Pods = append(w.Pods, pods...)
		lease, holder := testworld.NewLease("kube-system", "external-attacher-leader-ebs-csi-aws-com", testworld.MinutesAgo(99), testworld.MinutesAgo(0.1)), "ebs-0"
		lease.Spec.HolderIdentity = &holder
		w.Leases = append(w.Leases, lease)
		return w
	}
	unready := attacher("ebs-1", "n2")
	unready.Status.Conditions = unready.Status.Conditions[:2]
	for name, c := range map[string]struct {
		world *testworld.World
		away  string // of the driver; "" where the node's loss takes none from it
	}{
		"the only one":            {run(attacher("ebs-0", "n1")), "on a loss that is after 5m50s at the soonest"},
		"its stand-in is not up":  {run(attacher("ebs-0", "n1"), unready), "until its successor runs"},
		"a stand-in elsewhere":    {run(attacher("ebs-0", "n1"), attacher("ebs-1", "n2")), ""},
		"it runs on another node": {run(attacher("ebs-0", "n2")), ""},
		"nothing names its pod":   {run(attacher("ebs-7", "n1")), ""},
		"not all pods were read":  {run(attacher("ebs-0", "n1")).Without(snapshot.Pods), ""},
		"a pod of a StatefulSet":  {testworld.With(run(attacher("ebs-0", "n1")), func(w *testworld.World) { w.Pods[1].OwnerReferences[0].Kind = "StatefulSet" }), "on a loss that is not before"},
		"it tolerates a lost node": {testworld.With(run(attacher("ebs-0", "n1")), func(w *testworld.World) {
			w.Pods[1].Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		}), "nothing evicts it"},
		"it has the machine's name": {testworld.With(run(attacher("ebs-0", "n1")), func(w *testworld.World) {
			w.Pods[1].Spec.HostNetwork, *w.Leases[len(w.Leases)-1].Spec.HolderIdentity = true, "n1"
		}), "until its successor runs"},
		"it has a network of its own": {testworld.With(run(attacher("ebs-0", "n1")), func(w *testworld.World) {
			*w.Leases[len(w.Leases)-1].Spec.HolderIdentity = "n1"
		}), ""},
	} {
		p := diagnose.PreflightNode(c.world.Snapshot(), "n1", diagnose.Options{})
		text := preflightText(p)
		switch {
		case c.away == "":
			if len(p.Controllers) > 0 || strings.Contains(text, "only attacher") {
				t.Errorf("%s: %+v\n%s", name, p.Controllers, text)
			}
		case len(p.Controllers) != 1 || p.Controllers[0].Pod != "kube-system/ebs-0" || p.Controllers[0].Perhaps || !strings.Contains(p.Controllers[0].Away, c.away):
			t.Errorf("%s: %+v", name, p.Controllers)
		case !strings.Contains(text, "drain pv-data Unmount  never=false") || !strings.Contains(text, "pod kube-system/ebs-0, leaves the node, too"):
			t.Errorf("%s: the detach has a bound:\n%s", name, text)
		}
	}
}

// TestPreflightAttacherWithoutLease: where no lease shows for which driver an attacher on the node works,
// no bound is given for a detach.
func TestPreflightAttacherWithoutLease(t *testing.T) {
	run := func(nodes ...string) *preflight.Preflight {
		w := owned(testworld.New(), "ReplicaSet")
		for _, node := range nodes {
			pod := testworld.NewPod("ebs-"+node, node)
			pod.Namespace, pod.Spec.Volumes, pod.Spec.Containers = "kube-system", nil, []corev1.Container{{Name: "csi-attacher"}}
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "ebs", UID: "uid-ebs", Controller: new(true)}}
			w.Pods = append(w.Pods, pod)
		}
		return diagnose.PreflightNode(w.Snapshot(), "n1", diagnose.Options{})
	}
	alone := run("n1")
	if len(alone.Controllers) != 1 || !alone.Controllers[0].Perhaps || !strings.Contains(preflightText(alone), "may be the driver's only attacher (no lease shows it)") {
		t.Errorf("%+v\n%s", alone.Controllers, preflightText(alone))
	}
	for _, nodes := range [][]string{{"n2"}, {"n1", "n2"}} {
		if p := run(nodes...); len(p.Controllers) > 0 || strings.Contains(preflightText(p), "only attacher") {
			t.Errorf("on %v: %+v", nodes, p.Controllers)
		}
	}
}

// TestPreflightNobodyTakesUp: where no attacher has touched an attachment of the driver, none would be
// asked to detach.
func TestPreflightNobodyTakesUp(t *testing.T) {
	run := func(minutes float64) string {
		w := owned(testworld.New(), "ReplicaSet")
		left := testworld.NewAttachment("n2")
		left.Status, left.Finalizers, left.CreationTimestamp = storagev1.VolumeAttachmentStatus{}, nil, testworld.MinutesAgo(minutes)
		w.VolumeAttachments = append(w.VolumeAttachments, left)
		return preflightText(diagnose.PreflightNode(w.Snapshot(), "n1", diagnose.Options{}))
	}
	const says = "nobody would ask the driver to detach it"
	if text := run(20); !strings.Contains(text, says) {
		t.Error(text)
	}
	if text := run(2); strings.Contains(text, says) {
		t.Error(text)
	}
}

// limited is a second node with one volume of its own and such a limit.
func limited(limit int32) *testworld.World {
	w := owned(testworld.New(), "ReplicaSet")
	w.CSINodes[1].Spec.Drivers[0].Allocatable = &storagev1.VolumeNodeResources{Count: &limit}
	other := testworld.NewAttachment("n2")
	pv := w.Volumes[0].DeepCopy()
	pv.Name, pv.Spec.CSI.VolumeHandle, pv.Spec.ClaimRef = "pv-other", "vol-2", nil
	w.Volumes = append(w.Volumes, pv)
	other.Spec.Source.PersistentVolumeName = &pv.Name
	w.VolumeAttachments = append(w.VolumeAttachments, other)
	return w
}

// TestPreflightDeletes: a disk that goes with the claim is named, and one that stays is not.
func TestPreflightDeletes(t *testing.T) {
	policy := func(policy corev1.PersistentVolumeReclaimPolicy) func(*testworld.World) {
		return func(w *testworld.World) { w.Volumes[0].Spec.PersistentVolumeReclaimPolicy = policy }
	}
	deletes := policy(corev1.PersistentVolumeReclaimDelete)
	for name, c := range map[string]struct {
		changes []func(*testworld.World)
		want    int
	}{
		"claim goes":               {[]func(*testworld.World){deletes, claimGoes}, 1},
		"claim stays":              {[]func(*testworld.World){deletes}, 0},
		"disk is kept":             {[]func(*testworld.World){policy(corev1.PersistentVolumeReclaimRetain), claimGoes}, 0},
		"used on another node":     {[]func(*testworld.World){deletes, claimGoes, usedElsewhere}, 0},
		"a DaemonSet's pod has it": {[]func(*testworld.World){deletes, claimGoes, func(w *testworld.World) { owned(w, "DaemonSet") }}, 0},
	} {
		w := owned(testworld.New(), "StatefulSet")
		for _, change := range c.changes {
			change(w)
		}
		if p := diagnose.PreflightNode(w.Snapshot(), "n1", diagnose.Options{}); len(p.Deletes) != c.want || c.want > 0 && p.Deletes[0].PersistentVolume != "pv-data" {
			t.Errorf("%s: %+v", name, p.Deletes)
		}
	}
}

// usedElsewhere gives the claim of the pod to a pod on another node as well.
func usedElsewhere(w *testworld.World) {
	other := w.Pod.DeepCopy()
	other.Name, other.UID, other.Spec.NodeName = "other", "uid-other", "n2"
	w.Pods = append(w.Pods, other)
}

func TestPreflightGaps(t *testing.T) {
	for _, kind := range snapshot.Kinds() {
		p := diagnose.PreflightNode(owned(testworld.New(), "ReplicaSet").Without(kind).Snapshot(), "n1", diagnose.Options{})
		want := kind != snapshot.Events && kind != snapshot.StorageClasses
		if got := len(p.Missing) > 0; got != want {
			t.Errorf("without %s: no answer %v", kind, got)
		}
		if needed := kind != snapshot.StorageClasses; p.Incomplete() != needed || p.Complete == needed || len(p.Gaps) > 0 != needed {
			t.Errorf("without %s: incomplete %v, gaps %v", kind, p.Incomplete(), p.Gaps)
		}
		if len(p.Missing) > 0 && len(p.Room) > 0 {
			t.Errorf("without %s: room %+v", kind, p.Room)
		}
	}
	for _, whole := range []bool{true, false} { // a VolumeAttachment that was not read may show an attacher at work
		w := owned(testworld.New(), "ReplicaSet")
		w.Leases = append(w.Leases, testworld.NewLease("kube-system", "external-attacher-leader-ebs-csi-aws-com", testworld.MinutesAgo(90), testworld.MinutesAgo(15)))
		if !whole {
			w.Without(snapshot.VolumeAttachments)
		}
		p := diagnose.PreflightNode(w.Snapshot(), "n1", diagnose.Options{})
		if hangs := slices.ContainsFunc(p.Drain.Hangs, func(h preflight.Hang) bool { return strings.Contains(h.Because, "has not renewed its lease") }); hangs != whole {
			t.Errorf("all VolumeAttachments were read: %v: %+v", whole, p.Drain.Hangs)
		}
		w.Volumes[0].DeletionTimestamp = new(testworld.MinutesAgo(9)) // one may show that another node has it already
		p = diagnose.PreflightNode(w.Snapshot(), "n1", diagnose.Options{})
		if unknown := p.Drain.Waits[0].For == preflight.WaitsForUnknown; unknown == whole {
			t.Errorf("all VolumeAttachments were read: %v: %+v", whole, p.Drain.Waits)
		}
	}
}

// Every node of the corpus has an answer that says something, and a healthy
// cluster's nodes would let go of what they have.
func TestPreflightCorpus(t *testing.T) {
	long.Test(t)
	cases, err := testcases.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		s, err := c.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		s = testworld.Mounting(s)
		for _, node := range s.Nodes {
			p := diagnose.PreflightNode(s, types.NodeName(node.Name), diagnose.Options{Reconcile: c.Settings})
			for _, s := range []preflight.Scenario{p.Drain, p.Loss} {
				for _, w := range s.Waits {
					if h := s.HangOf(w); h != nil && w.AtMost != "" {
						t.Errorf("%s: %s: pod %s waits at most %s, and yet %s", c.Name, node.Name, w.Pod, w.AtMost, h.Because)
					}
				}
			}
			for _, h := range slices.Concat(p.Drain.Hangs, p.Loss.Hangs) {
				if h.Because == "" || h.Volume == "" && h.PersistentVolume == "" {
					t.Errorf("%s: %s: %+v", c.Name, node.Name, h)
				}
				if strings.HasPrefix(c.Name, "healthy-") && !strings.Contains(h.Because, "takes pods") {
					t.Errorf("%s: %s: %s: %s", c.Name, node.Name, h.PersistentVolume, h.Because)
				}
			}
		}
	}
}
