package preflight_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/preflight"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/long"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testworld"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var modelled = []string{"1.26.15", "1.27.16", "1.28.15", "1.29.15", "1.30.14", "1.31.14", "1.32.9", "1.33.5", "1.34.4", "1.35.1", "1.36.3", "1.37.0"}

// TestUpgradesOfTheCorpus holds what an upgrade says against the plans of the two
// releases, for each pair of them: a decision is named where they differ and nowhere
// else, and a pod where it is worse off.
func TestUpgradesOfTheCorpus(t *testing.T) {
	long.Test(t)
	cases, err := testcases.All()
	if err != nil {
		t.Fatal(err)
	}
	differing, worse := 0, 0
	for n, c := range cases {
		from := modelled[n%len(modelled)]
		s, err := c.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		now := *s // the case's own is shared
		now.Source.ServerVersion = from
		before := reconcile.NewWorld(&now, c.Settings)
		planBefore := before.Reconcile()
		for _, to := range modelled {
			u := preflight.OfUpgrade(&now, to, c.Settings)
			other := now
			other.Source.ServerVersion = to
			after := reconcile.NewWorld(&other, c.Settings)
			planAfter := after.Reconcile()
			if to == from && (len(u.Pods)+len(u.Decisions)+len(u.Changes)+len(u.Bugs) > 0) {
				t.Errorf("%s: %s differs from itself: %+v", c.Name, to, u)
			}
			for _, d := range planAfter.Decisions {
				was := planBefore.Decision(d.VolumeNode)
				differs := (was == nil || was.Verb != d.Verb || was.Reason != d.Reason || was.After != d.After) && known(before, was, d) && known(after, &d, d)
				named := slices.ContainsFunc(u.Decisions, func(o preflight.UpgradeDecision) bool { return o.Volume == d.Volume && o.Node == d.Node })
				if differs != named {
					t.Errorf("%s, %s to %s: %s on %s differs %t, named %t", c.Name, from, to, d.Volume, d.Node, differs, named)
				}
			}
			waited := waiting(before, planBefore)
			for pod := range waiting(after, planAfter) {
				named := slices.ContainsFunc(u.Pods, func(o preflight.UpgradePod) bool { return o.Pod == pod })
				if !waited[pod] && !named && len(u.Missing) == 0 {
					t.Errorf("%s, %s to %s: pod %s waits only then, and is not named", c.Name, from, to, pod)
				}
			}
			differing += len(u.Decisions)
			for _, pod := range u.Pods {
				worse++
				skipped := slices.ContainsFunc(after.Skipped, func(row reconcile.Skipped) bool { return row.Pod.String() == pod.Pod && row.PodVolume == pod.PodVolume })
				d := planAfter.Decision(reconcile.VolumeNode{Volume: pod.Volume, Node: pod.Node})
				waits := d != nil && d.Verb != reconcile.Keep && d.Verb != reconcile.Attach
				labels := slices.ContainsFunc(u.SELinux, func(c preflight.SELinuxConflict) bool { return c.Volume == pod.Volume && c.OnOneNode() })
				if !skipped && !waits && !labels {
					t.Errorf("%s, %s to %s: %+v neither waits, nor is skipped, nor has a label of its own", c.Name, from, to, pod)
				}
			}
		}
	}
	if differing == 0 || worse == 0 {
		t.Errorf("%d decisions differ and %d pods are worse off: nothing was tried", differing, worse)
	}
}

// known reports whether everything was read on which the decision rests that the world has, or
// lacks, about the pair of the other.
func known(w *reconcile.World, d *reconcile.Decision, other reconcile.Decision) bool {
	if d == nil {
		d = &reconcile.Decision{VolumeNode: other.VolumeNode}
	}
	return w.Unread(*d) == ""
}

// waiting are the pods of which a volume is not simply attached.
func waiting(w *reconcile.World, plan *reconcile.Plan) map[string]bool {
	pods := map[string]bool{}
	for _, d := range plan.Decisions {
		if wanted := w.Desired.Find(d.VolumeNode); wanted != nil && d.Verb != reconcile.Keep && d.Verb != reconcile.Attach {
			for _, pod := range wanted.Pods {
				pods[pod.String()] = true
			}
		}
	}
	for _, row := range w.Skipped {
		if row.Pod.Name != "" {
			pods[row.Pod.String()] = true
		}
	}
	return pods
}

// TestUpgradeNames: the behaviours and bugs that come or go between two releases.
func TestUpgradeNames(t *testing.T) {
	var names []reconcile.Behaviour
	for _, c := range reconcile.Changes("v1.30.2", "1.31") {
		names = append(names, c.Behaviour)
		if c.About == "" || c.Source == "" {
			t.Errorf("%s is not explained", c.Behaviour)
		}
	}
	want := []reconcile.Behaviour{reconcile.KeepsTerminatedPodVolumes, reconcile.MigrationAsksNode, reconcile.PortworxMigrates, reconcile.PortworxAsksNode, reconcile.InTreeRBD}
	if !slices.Equal(names, want) {
		t.Errorf("changes %v, want %v", names, want)
	}
}

// TestHealthyClustersForgetNothing: a restart of the controller is no event where nothing is
// wrong.
func TestHealthyClustersForgetNothing(t *testing.T) {
	cases, err := testcases.All()
	if err != nil {
		t.Fatal(err)
	}
	forget := 0
	for _, c := range cases {
		s, err := c.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		u := preflight.OfUpgrade(s, "1.37.0", c.Settings)
		if len(u.Forgets) > 0 {
			forget++
		}
		if strings.HasPrefix(c.Name, "healthy-") && len(u.Forgets) > 0 {
			t.Errorf("%s: %+v", c.Name, u.Forgets)
		}
	}
	t.Logf("of %d clusters %d show what may be forgotten", len(cases), forget)
}

// TestUpgradeTellsNothingUnread: what may be forgotten, and what differs, is told where everything
// was read on which it rests, and not where an object may only be missing from the files.
func TestUpgradeTellsNothingUnread(t *testing.T) {
	gone := map[snapshot.Kind]func(*testworld.World){
		snapshot.Nodes:   func(w *testworld.World) { w.Nodes = nil },
		snapshot.Volumes: func(w *testworld.World) { w.Volumes = nil },
		snapshot.Claims:  func(w *testworld.World) { w.Claims = nil },
	}
	said := func(w *testworld.World) (forgets, decisions int) {
		s := w.Snapshot()
		s.Source.ServerVersion = "v1.30.2"
		u := preflight.OfUpgrade(s, "1.31", reconcile.Options{})
		return len(u.Forgets), len(u.Decisions)
	}
	ended := func(w *testworld.World) { // the older controller keeps its volume
		w.Pod.Status.Phase = corev1.PodSucceeded
		w.Node.Annotations[reconcile.KeepTerminatedAnnotation] = "true"
	}
	if _, n := said(testworld.With(testworld.New(), ended)); n != 1 {
		t.Errorf("read in full, an ended pod's volume: %d decisions differ, want 1", n)
	}
	for kind, without := range gone {
		if n, _ := said(testworld.With(testworld.New(), without)); n != 1 {
			t.Errorf("no %s, and all were read: %d pairs may be forgotten, want 1", kind, n)
		}
		if n, _ := said(testworld.With(testworld.New(), without).Without(snapshot.Leases)); n != 1 {
			t.Errorf("no %s, and only leases were not read: %d pairs may be forgotten, want 1", kind, n)
		}
		if n, _ := said(testworld.With(testworld.New(), without).Without(kind)); n != 0 {
			t.Errorf("%s were not read: %d pairs may be forgotten, want none", kind, n)
		}
		if _, n := said(testworld.With(testworld.New(), ended).Without(kind)); n != 0 {
			t.Errorf("not all %s were read: %d decisions differ, want none", kind, n)
		}
	}
}
