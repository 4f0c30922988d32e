package output

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/driverwords"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
)

// TestEveryMeaningSaysFromWhere checks that a finding that explains an error message says where the
// meaning comes from, in JSON and with -o wide.
func TestEveryMeaningSaysFromWhere(t *testing.T) {
	meanings := map[driverwords.Meaning]string{}
	for _, e := range driverwords.Entries() {
		about, _ := e.Meaning.About()
		meanings[e.Meaning] = facts.Clause(about.Says)
	}
	known := 0
	eachReport(t, func(t *testing.T, name string, r *finding.Report) {
		for _, f := range r.Findings {
			text := f.Text() + "; " + f.Cause
			for meaning, says := range meanings {
				if strings.Contains(text, says) && (f.KnownFrom == nil || f.KnownFrom.Meaning == "" || f.KnownFrom.Layer == "" || f.KnownFrom.Entry == "") {
					t.Errorf("%s: %s says that %q (%s), and not from where: %+v", name, f.Code, says, meaning, f.KnownFrom)
				}
			}
			if f.KnownFrom == nil {
				continue
			}
			known++
			if wide := pipe(t, "wide", alone(r, f)); !strings.Contains(words(wide), words(knownFrom(f))) {
				t.Errorf("%s: -o wide of %s lacks %q", name, f.Code, knownFrom(f))
			}
			var read finding.Finding
			data, err := json.Marshal(f)
			if err == nil {
				err = json.Unmarshal(data, &read)
			}
			if err != nil || read.KnownFrom == nil || read.KnownFrom.Meaning != f.KnownFrom.Meaning || len(read.KnownFrom.LookUps) != len(f.KnownFrom.LookUps) {
				t.Errorf("%s: the JSON of %s has %+v (%v)", name, f.Code, read.KnownFrom, err)
			}
		}
	})
	if known < 50 {
		t.Errorf("only %d findings say from where: this shows little", known)
	}
}
