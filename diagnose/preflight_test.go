package diagnose_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/preflight"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/long"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// owned gives the pod a controller.
func (w *world) owned(kind string) *world {
	yes := true
	w.pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: "app", UID: "uid-owner", Controller: &yes}}
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
			fmt.Fprintf(&b, "%s %s %s %s never=%t\n", s.name, w.PersistentVolume, w.For, w.AtMost, w.Never)
		}
		for _, h := range s.Hangs {
			fmt.Fprintf(&b, "%s hangs %s: %s\n", s.name, h.PersistentVolume, h.Because)
		}
	}
	for _, r := range p.Room {
		fmt.Fprintf(&b, "room %s moving=%d free=%d unlimited=%t lacking=%d\n", r.Driver, r.Moving, r.Free, r.Unlimited, r.Lacking)
	}
	return b.String()
}

func TestPreflightWaits(t *testing.T) {
	for _, c := range []struct {
		name    string
		world   *world
		options reconcile.Options
		want    []string
	}{
		{name: "deployment", world: newWorld().owned("ReplicaSet"), want: []string{"drain pv-data Unmount 2m40s never=false", "loss pv-data Pod  never=true"}},
		{name: "long grace", world: with(newWorld().owned("ReplicaSet"), func(w *world) {
			seconds := int64(300)
			w.pod.Spec.TerminationGracePeriodSeconds = &seconds
		}), want: []string{"drain pv-data Unmount 7m10s never=false"}},
		{name: "statefulSet", world: newWorld().owned("StatefulSet"), want: []string{"drain pv-data Unmount 2m40s never=false", "loss pv-data Pod  never=true"}},
		{name: "no container runs", world: newWorld().pending(1).owned("ReplicaSet"), want: []string{"loss pv-data ForceDetach 13m50s never=false"}},
		{name: "no forced detach", world: newWorld().pending(1).owned("ReplicaSet"), options: reconcile.Options{DisableForceDetachOnTimeout: true},
			want: []string{"loss pv-data ForceDetach  never=true"}},
		{name: "tolerates shortly", world: with(newWorld().pending(1).owned("ReplicaSet"), func(w *world) {
			seconds := int64(10)
			w.pod.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists,
				Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds}}
		}), want: []string{"loss pv-data ForceDetach 9m0s never=false"}},
		{name: "tolerates for ever", world: with(newWorld().owned("ReplicaSet"), func(w *world) {
			w.pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		}), want: []string{"loss pv-data Pod  never=true"}},
		{name: "many nodes", world: with(newWorld().owned("ReplicaSet"), func(w *world) {
			w.Volumes[0].Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
		}), want: []string{"drain pv-data Nothing  never=false", "loss pv-data Nothing 5m50s never=false"}},
		{name: "nobody makes it anew", world: newWorld(), want: []string{"drain pv-data Pod  never=true", "loss pv-data Pod  never=true"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := diagnose.PreflightNode(c.world.snapshot(), "n1", diagnose.Options{Reconcile: c.options})
			text := preflightText(p)
			for _, want := range c.want {
				if !strings.Contains(text, want) {
					t.Errorf("lacks %q:\n%s", want, text)
				}
			}
			if p.Hangs() || len(p.Missing) > 0 {
				t.Errorf("hangs, or has no answer:\n%s", text)
			}
			if stranded := len(p.Stranded) == 1; stranded != (metav1.GetControllerOf(c.world.pod) == nil) {
				t.Errorf("stranded: %v", p.Stranded)
			}
		})
	}
	if p := diagnose.PreflightNode(newWorld().owned("DaemonSet").snapshot(), "n1", diagnose.Options{}); len(p.Drain.Waits)+len(p.Stranded) > 0 {
		t.Errorf("a DaemonSet's pod moves: %+v", p.Drain)
	}
	old := newWorld().pending(1).owned("ReplicaSet").snapshot()
	old.Source.ServerVersion = "v1.31.4"
	if text := preflightText(diagnose.PreflightNode(old, "n1", diagnose.Options{})); !strings.Contains(text, "ForceDetach 13m40s") {
		t.Errorf("1.31 takes a node for lost sooner:\n%s", text)
	}
}

func TestPreflightHangs(t *testing.T) {
	leftover := func(w *world) { w.Pods = nil }
	for _, c := range []struct {
		name  string
		world *world
		want  []string
		not   []string
	}{
		{name: "stage-only leftover", world: with(newWorld(), leftover), want: []string{"drain hangs pv-data: no pod on the node uses it any more"}, not: []string{"loss hangs"}},
		{name: "detach fails", world: with(newWorld().owned("ReplicaSet"), func(w *world) {
			deleted := minutesAgo(2)
			w.VolumeAttachments[0].DeletionTimestamp = &deleted
			w.VolumeAttachments[0].Status.DetachError = &storagev1.VolumeError{Message: "no permission", Time: minutesAgo(1)}
		}), want: []string{`drain hangs pv-data: its detach fails already: "no permission"`, "loss hangs pv-data: its detach fails"}},
		{name: "detach without an answer", world: with(newWorld().owned("ReplicaSet"), func(w *world) {
			deleted := minutesAgo(9)
			w.VolumeAttachments[0].DeletionTimestamp = &deleted
		}), want: []string{"has been under way since 2026-11-20T09:51:00Z"}},
		{name: "attacher silent", world: with(newWorld().owned("ReplicaSet"), func(w *world) {
			w.Leases = append(w.Leases, newLease("kube-system", "external-attacher-leader-ebs-csi-aws-com", minutesAgo(99), minutesAgo(30)))
		}), want: []string{"has not renewed its lease since 2026-11-20T09:30:00Z"}},
		{name: "foreign finalizer", world: with(newWorld().owned("ReplicaSet"), func(w *world) {
			w.VolumeAttachments[0].Finalizers = append(w.VolumeAttachments[0].Finalizers, "example.com/hold")
		}), want: []string{"example.com/hold"}},
		{name: "driver gone", world: with(newWorld().owned("ReplicaSet"), func(w *world) { w.CSINodes[0].Spec.Drivers = nil }),
			want: []string{"drain hangs pv-data: ebs.csi.aws.com is not registered on the node"}, not: []string{"loss hangs"}},
		{name: "node not ready", world: with(newWorld().owned("ReplicaSet"), func(w *world) { w.node.Status.Conditions[0].Status = corev1.ConditionUnknown }),
			want: []string{"drain hangs pv-data: the node is not Ready"}, not: []string{"loss hangs"}},
		{name: "pod does not go", world: newWorld().stopped(9).owned("ReplicaSet"), want: []string{"drain hangs"}},
		{name: "tied to the node", world: with(newWorld().owned("ReplicaSet"), func(w *world) {
			w.node.Labels = map[string]string{"zone": "a"}
			w.Volumes[0].Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}}}}}}
		}), want: []string{"drain pv-data Node  never=true", "drain hangs pv-data: its node affinity", "loss hangs pv-data: its node affinity"}},
		{name: "no other node", world: with(newWorld().owned("ReplicaSet"), func(w *world) { w.Nodes[1].Spec.Unschedulable = true }),
			want: []string{"no other node is Ready and takes pods"}},
		{name: "a name nobody can read", world: with(newWorld().owned("ReplicaSet"), func(w *world) {
			w.Volumes[0].Spec.CSI.VolumeHandle = "vol^1"
			w.node.Status.VolumesAttached = []corev1.AttachedVolume{{Name: "kubernetes.io/csi/ebs.csi.aws.com^vol^1"}}
		}), want: []string{`which has a "^" in its handle`}},
		{name: "no room", world: limited(1), want: []string{"room ebs.csi.aws.com moving=1 free=0 unlimited=false lacking=1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := diagnose.PreflightNode(c.world.snapshot(), "n1", diagnose.Options{})
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
			if !p.Hangs() {
				t.Errorf("nothing hangs:\n%s", text)
			}
		})
	}
	p := diagnose.PreflightNode(limited(2).snapshot(), "n1", diagnose.Options{})
	if text := preflightText(p); p.Hangs() || !strings.Contains(text, "free=1 unlimited=false lacking=0") {
		t.Errorf("there is room:\n%s", text)
	}
}

// limited is a second node with one volume of its own and such a limit.
func limited(limit int32) *world {
	w := newWorld().owned("ReplicaSet")
	w.CSINodes[1].Spec.Drivers[0].Allocatable = &storagev1.VolumeNodeResources{Count: &limit}
	other := newAttachment("n2")
	pv := w.Volumes[0].DeepCopy()
	pv.Name, pv.Spec.CSI.VolumeHandle, pv.Spec.ClaimRef = "pv-other", "vol-2", nil
	w.Volumes = append(w.Volumes, pv)
	other.Spec.Source.PersistentVolumeName = &pv.Name
	w.VolumeAttachments = append(w.VolumeAttachments, other)
	return w
}

func TestPreflightGaps(t *testing.T) {
	for _, kind := range snapshot.Kinds() {
		p := diagnose.PreflightNode(newWorld().owned("ReplicaSet").without(kind).snapshot(), "n1", diagnose.Options{})
		want := kind != snapshot.Events && kind != snapshot.StorageClasses
		if got := len(p.Missing) > 0; got != want {
			t.Errorf("without %s: no answer %v", kind, got)
		}
		if len(p.Missing) > 0 && len(p.Room) > 0 {
			t.Errorf("without %s: room %+v", kind, p.Room)
		}
	}
}

// Every node of the corpus has an answer that says something, and a healthy
// cluster's nodes would let go of what they have.
func TestPreflightCorpus(t *testing.T) {
	long.Test(t)
	for _, c := range corpus(t) {
		s := mounting(c.snapshot(t))
		for _, node := range s.Nodes {
			p := diagnose.PreflightNode(s, types.NodeName(node.Name), diagnose.Options{Reconcile: c.settings})
			for _, h := range append(p.Drain.Hangs, p.Loss.Hangs...) {
				if h.Because == "" || h.Volume == "" && h.PersistentVolume == "" {
					t.Errorf("%s: %s: %+v", c.name, node.Name, h)
				}
				if c.healthy() && !strings.Contains(h.Because, "takes pods") {
					t.Errorf("%s: %s: %s: %s", c.name, node.Name, h.PersistentVolume, h.Because)
				}
			}
		}
	}
}
