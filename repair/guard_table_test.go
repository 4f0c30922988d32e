package repair

import (
	"slices"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// blind is the view without the objects of the kind. It has no report.
func blind(v *View, kind snapshot.Kind, settings reconcile.Options) *View {
	objects := v.Snapshot.Objects
	switch kind {
	case snapshot.Pods:
		objects.Pods = nil
	case snapshot.Nodes:
		objects.Nodes = nil
	case snapshot.Claims:
		objects.Claims = nil
	case snapshot.Volumes:
		objects.Volumes = nil
	case snapshot.VolumeAttachments:
		objects.VolumeAttachments = nil
	case snapshot.CSINodes:
		objects.CSINodes = nil
	case snapshot.CSIDrivers:
		objects.CSIDrivers = nil
	case snapshot.StorageClasses:
		objects.StorageClasses = nil
	case snapshot.Leases:
		objects.Leases = nil
	case snapshot.Events:
		objects.Events = nil
	case snapshot.Deployments:
		objects.Deployments = nil
	default:
		panic("no list of " + kind)
	}
	s := v.Snapshot.With(objects)
	if !snapshot.ResourceOf(kind).Optional {
		s.Gaps = append(s.Gaps, snapshot.Gap{Kind: kind, Reason: snapshot.ReasonForbidden})
	}
	world := reconcile.NewWorld(s, settings)
	plan := world.Reconcile()
	return &View{Snapshot: s, World: world, Plan: plan, Facts: facts.NewView(s, world, plan), Report: &finding.Report{}, Consent: v.Consent}
}

// undeclared are the kinds on which the guard's answer depends and which it does not name.
// The guard of the finding is left out: its kinds are those that the check needs, which the
// checks' own tests cover.
func undeclared(v *View, blinded map[snapshot.Kind]*View, g Guard, r *Repair) (kinds []snapshot.Kind) {
	if g.Name == GuardFinding || g.Name == GuardComplete {
		return nil
	}
	for _, res := range snapshot.Resources() {
		if slices.Contains(g.Kinds, res.Kind) {
			continue
		}
		if (g.Check(v, r) == nil) != (g.Check(blinded[res.Kind], r) == nil) {
			kinds = append(kinds, res.Kind)
		}
	}
	return kinds
}

// TestGuardsNameTheirKinds: over the corpus no guard of any repair that fits a finding answers
// otherwise without the objects of a kind that it does not name. guardsAlone, in package apply,
// shows that a guard which names too few kinds is caught.
func TestGuardsNameTheirKinds(t *testing.T) {
	cases, err := testcases.All()
	if err != nil {
		t.Fatal(err)
	}
	asked := map[string]int{}
	for i, c := range cases {
		if testing.Short() && i%4 > 0 {
			continue
		}
		s, err := c.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		v := Look(s, diagnose.Options{Reconcile: c.Settings}, Consent{})
		var blinded map[snapshot.Kind]*View
		for _, f := range v.Report.Findings {
			for _, a := range actions() {
				r, err := a.repair(v, f)
				if !slices.Contains(a.codes, f.Code) || err != nil {
					continue
				}
				if blinded == nil {
					blinded = map[snapshot.Kind]*View{}
					for _, res := range snapshot.Resources() {
						blinded[res.Kind] = blind(v, res.Kind, c.Settings)
					}
				}
				guards := r.Guards
				if r.Next != nil {
					guards = slices.Concat(guards, withdrawGuards)
				}
				for _, g := range guards {
					asked[g.Name]++
					if kinds := undeclared(v, blinded, g, &r); len(kinds) > 0 {
						t.Errorf("%s: guard %s of %s rests on %v, and names only %v", c.Name, g.Name, a.kind, kinds, g.Kinds)
					}
				}
			}
		}
	}
	if !testing.Short() {
		for _, a := range actions() {
			for _, g := range a.guards {
				if asked[g.Name] == 0 {
					t.Errorf("no case asks guard %s of %s", g.Name, a.kind)
				}
			}
		}
	}
}
