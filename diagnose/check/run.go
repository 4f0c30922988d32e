package check

import (
	"cmp"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
)

// Run is one run of one check.
type Run struct {
	*facts.View
	Check    Check
	Findings []finding.Finding
}

// Report records a finding of the check that runs.
func (r *Run) Report(f finding.Finding) {
	f.Code, f.Check = r.Check.Code, r.Check.Name
	f.Default(r.Check.Severity)
	if f.Since != nil && f.Since.IsZero() {
		f.Since = nil // the object has no creationTimestamp: hand-made files leave it out
	}
	f.Never = cmp.Or(f.Never, r.Check.Never)
	f.Fingerprint = finding.Fingerprint(f)
	nameUpstreamBug(r.View, &f)
	r.Findings = append(r.Findings, f)
}

// Suspect makes a finding of this check suspected, before it is reported.
func (r *Run) Suspect(f *finding.Finding, certain, otherwise string) {
	f.Severity = cmp.Or(f.Severity, r.Check.Severity)
	f.Suspect(certain, otherwise)
}
