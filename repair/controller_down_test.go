package repair

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// led is the snapshot with a kube-controller-manager that last renewed its lease that long ago,
// and with another lease that is still renewed.
func led(s *snapshot.Snapshot, ago time.Duration) *snapshot.Snapshot {
	o := testcases.Copy(s.Objects)
	for _, lease := range o.Leases {
		if lease.Namespace == metav1.NamespaceSystem && lease.Name == reconcile.ControllerManager {
			lease.Spec.RenewTime = &metav1.MicroTime{Time: s.TakenAt.Add(-ago)}
		}
	}
	o.Leases = append(o.Leases, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-node-lease", Name: "another"},
		Spec:       coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: s.TakenAt}},
	})
	made := snapshot.New(s.TakenAt, s.Source, o, s.Gaps)
	made.Backends, made.Followed = s.Backends, s.Followed
	return made
}

// TestNoControllerLeads: while no kube-controller-manager leads, no repair of the corpus
// touches an object that the next leader decides by, whatever the user allows; and no finding
// claims that a controller has forgotten something.
func TestNoControllerLeads(t *testing.T) {
	cases, err := testcases.All()
	if err != nil {
		t.Fatal(err)
	}
	// No controller decides by what these write, or a person says that the object is wrong.
	harmless := map[Kind]bool{Wait: true, Nudge: true, TouchVolume: true, CyclePod: true, OutOfServiceTaint: true, RemoveOutOfServiceTaint: true}
	down, refused := 0, map[Kind]int{}
	for _, c := range cases {
		s, err := c.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		options := diagnose.Options{Reconcile: c.Settings}
		unled := led(s, time.Hour)
		consent := Consent{Allow: Kinds(), Fenced: allNodes(s)}
		for _, va := range s.VolumeAttachments {
			consent.Detached = append(consent.Detached, va.Name)
		}
		view := Look(unled, options, consent)
		if view.Facts.ControllerDown() == nil {
			continue // there is no lease, or something was written since
		}
		down++
		for _, r := range propose(view) {
			if !harmless[r.Kind] {
				t.Errorf("%s: %s for %s", c.Name, r.Kind, r.Finding.Code)
			}
		}
		for _, f := range view.Report.Findings {
			if f.Code == "VD101" {
				t.Errorf("%s: %s", c.Name, f.Message)
			}
		}
		for _, r := range propose(Look(led(s, time.Second), options, consent)) {
			if !harmless[r.Kind] {
				refused[r.Kind]++
			}
		}
	}
	if down < 500 || len(refused) < 6 {
		t.Errorf("%d clusters without a leader; one that leads lets %v be made: this shows little", down, refused)
	}
	if facts.ControllerLeaseGrace(&coordinationv1.Lease{}) > time.Hour {
		t.Error("an hour is too short")
	}
}
