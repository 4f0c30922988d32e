package diagnose_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
)

func TestZZDump(t *testing.T) {
	w, _ := os.Create(os.Getenv("ZZ"))
	e := json.NewEncoder(w)
	eachReport(t, func(name string, r *finding.Report) {
		for _, f := range r.Findings {
			e.Encode(map[string]any{"case": name, "code": f.Code, "msg": f.Message, "never": f.Never, "actions": finding.ActionsOf(f, r.TakenAt.Time), "stays": f.Stays(), "cause": f.Cause, "detail": f.Detail})
		}
	})
}
