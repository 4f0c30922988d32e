package diagnose

import (
	"encoding/json"
	"reflect"
	"regexp"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
)

// TestNoAgeOfWhatHasNone: objects written by hand have no creationTimestamp. No sentence counts
// from the year 1, in days or as a moment.
func TestNoAgeOfWhatHasNone(t *testing.T) {
	cases, err := testcases.All()
	if err != nil {
		t.Fatal(err)
	}
	fromYear1 := regexp.MustCompile(`106751d|2562047h|0001-01-01`)
	findings := 0
	for _, c := range cases {
		s, err := c.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		objects := reflect.ValueOf(&s.Objects).Elem()
		for i := range objects.NumField() {
			for list, j := objects.Field(i), 0; j < list.Len(); j++ {
				list.Index(j).Interface().(metav1.Object).SetCreationTimestamp(metav1.Time{})
			}
		}
		r := Diagnose(s, Options{Reconcile: c.Settings})
		findings += len(r.Findings)
		text, err := json.Marshal(struct {
			Findings []finding.Finding
			Waiting  []finding.Waiting
		}{r.Findings, r.Waiting})
		if err != nil {
			t.Fatal(err)
		}
		if at := fromYear1.FindIndex(text); at != nil {
			t.Errorf("%s: ...%s...", c.Name, text[max(0, at[0]-200):min(len(text), at[1]+50)])
		}
	}
	if findings < 500 {
		t.Errorf("only %d findings: this shows little", findings)
	}
}
