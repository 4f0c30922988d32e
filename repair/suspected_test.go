package repair

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
)

// TestSuspectedFindingsAreNotRepaired: while the cause of a finding is only suspected, no
// repair is proposed for it and no command is shown.
func TestSuspectedFindingsAreNotRepaired(t *testing.T) {
	cases, err := testcases.All()
	if err != nil {
		t.Fatal(err)
	}
	certain, refused := 0, 0
	for _, c := range cases {
		s, err := c.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		view := Look(s, diagnose.Options{Reconcile: c.Settings}, Consent{})
		certain += len(propose(view))
		for i := range view.Report.Findings {
			f := &view.Report.Findings[i]
			f.Confidence, f.Settles = finding.Suspected, &finding.Settles{At: metav1.NewTime(s.TakenAt), If: "nothing changes"}
		}
		if repairs := propose(view); len(repairs) > 0 {
			t.Errorf("%s: %s would be made", c.Name, repairs[0].Summary)
		}
		for _, f := range view.Report.Findings {
			if f.Repair == nil {
				continue
			}
			if len(f.Repair.Commands) > 0 || f.Repair.BlockedBy == "" {
				t.Errorf("%s: %s: %+v", c.Name, f.Code, f.Repair)
			}
			if strings.HasPrefix(f.Repair.BlockedBy, guardCertain+": ") {
				refused++
			}
		}
	}
	if certain < 50 || refused < 50 {
		t.Errorf("%d repairs of certain findings, %d refused because they are not: this shows little", certain, refused)
	}
}
