package apply

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
)

// ApprovedKind is the kind of a file with repairs.
const ApprovedKind = "RepairPlan"

// Approved is the file that --save-repairs writes for somebody to review: --approved then
// makes exactly these repairs, or none.
type Approved struct {
	APIVersion string      `json:"apiVersion"` // volume-doctor/v1
	Kind       string      `json:"kind"`       // RepairPlan
	TakenAt    metav1.Time `json:"takenAt"`
	// Server is the API server for which the repairs are.
	Server string `json:"server"`
	// Consent is the consent with which the repairs were proposed. The user must give it
	// again when they are made: a node that was off may be back.
	Consent repair.Consent  `json:"consent,omitzero"`
	Repairs []repair.Repair `json:"repairs"`
}

// Save makes the file of the repairs that were proposed on the view.
func Save(v *repair.View, repairs []repair.Repair) Approved {
	return Approved{
		APIVersion: finding.APIVersion, Kind: ApprovedKind, TakenAt: metav1.NewTime(v.Snapshot.TakenAt),
		Server: v.Snapshot.Source.Server, Consent: v.Consent, Repairs: repairs,
	}
}

// Write writes the repairs as indented JSON.
func (p Approved) Write(w io.Writer) error {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(p); err != nil {
		return fmt.Errorf("encode the repairs: %w", err)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// ReadApproved reads a file with repairs, strictly: a field that this release does not know
// may have meant something to the person who reviewed it.
func ReadApproved(r io.Reader) (*Approved, error) {
	var p Approved
	decoder := json.NewDecoder(r)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&p); err != nil {
		return nil, fmt.Errorf("read the repairs: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("read the repairs: there is something after it")
	}
	if p.APIVersion != finding.APIVersion || p.Kind != ApprovedKind {
		return nil, fmt.Errorf("read the repairs: it is a %q of %q, not a %s of %s", p.Kind, p.APIVersion, ApprovedKind, finding.APIVersion)
	}
	return &p, nil
}

// ErrMoved reports that the cluster is no longer the one for which the repairs were reviewed.
var ErrMoved = errors.New("the cluster is not what was reviewed")

// Choose returns those of the repairs proposed on the view that are in the file. It leaves
// out a repair whose finding has gone. Any other difference from the review refuses the file
// as a whole: a part of it may only be safe with the rest.
func (p *Approved) Choose(v *repair.View, proposed []repair.Repair) ([]repair.Repair, error) {
	if v.Snapshot.Source.Server != p.Server {
		return nil, fmt.Errorf("%w: the repairs are for %s, and this is %s", ErrMoved, p.Server, v.Snapshot.Source.Server)
	}
	chosen := []repair.Repair{}
	var moved []string
	for i := range p.Repairs {
		reviewed := &p.Repairs[i]
		fresh := find(proposed, reviewed)
		switch {
		case find(p.Repairs[:i], reviewed) != nil:
			moved = append(moved, reviewed.Summary+": the file has it twice")
		case fresh != nil:
			if other := fresh.Differs(reviewed); other != "" {
				moved = append(moved, fmt.Sprintf("%s: it would now be to %s, with another %s than was reviewed", reviewed.Summary, fresh.Summary, other))
			}
			chosen = append(chosen, *fresh)
		case v.Finds(reviewed.Finding.Fingerprint):
			moved = append(moved, whatMoved(v, reviewed))
		case findsAnother(v, reviewed.Finding):
			moved = append(moved, fmt.Sprintf("%s: what was reviewed is gone, and another %s has its name or its finding", reviewed.Summary, reviewed.Finding.Subject.Kind))
		case v.CannotTell(reviewed.Finding.Code) != nil:
			moved = append(moved, reviewed.Summary+": "+v.CannotTell(reviewed.Finding.Code).Error())
		case !slices.Contains(repair.KindsFor(reviewed.Finding.Code), reviewed.Kind):
			moved = append(moved, reviewed.Summary+": there is no such repair of such a finding")
		}
	}
	if len(moved) == 0 && !p.Consent.Same(v.Consent) {
		moved = append(moved, fmt.Sprintf("it was reviewed with %s, and this run has %s", p.Consent, v.Consent))
	}
	if len(moved) > 0 {
		return nil, fmt.Errorf("%w: %s", ErrMoved, strings.Join(moved, "; "))
	}
	return chosen, nil
}

// findsAnother reports whether the view has the same finding about a recreated object, or
// under another fingerprint, as with a file that was changed.
func findsAnother(v *repair.View, reviewed finding.Finding) bool {
	return slices.ContainsFunc(v.Report.Findings, func(f finding.Finding) bool {
		return f.Code == reviewed.Code && f.Subject.String() == reviewed.Subject.String() &&
			(f.Subject.UID != reviewed.Subject.UID || f.Pair() == reviewed.Pair() && f.VolumeAttachment == reviewed.VolumeAttachment)
	})
}

// find returns the repair that is proposed now for the finding of the reviewed one.
func find(proposed []repair.Repair, reviewed *repair.Repair) *repair.Repair {
	for i := range proposed {
		if proposed[i].Finding.Fingerprint == reviewed.Finding.Fingerprint {
			return &proposed[i]
		}
	}
	return nil
}

// whatMoved says why a reviewed repair is no longer proposed.
func whatMoved(v *repair.View, r *repair.Repair) string {
	for _, f := range v.Report.Findings {
		if f.Fingerprint == r.Finding.Fingerprint && f.Repair != nil && f.Repair.BlockedBy != "" {
			return fmt.Sprintf("%s: it may not be made now: %s", r.Summary, f.Repair.Against())
		}
	}
	return r.Summary + ": no longer proposed"
}
