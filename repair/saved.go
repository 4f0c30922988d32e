package repair

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
)

// SavedPlanKind is the kind of a saved plan.
const SavedPlanKind = "RepairPlan"

// SavedPlan is what --save-plan writes for somebody to review: exactly the
// repairs that --plan then makes, or none.
type SavedPlan struct {
	APIVersion string      `json:"apiVersion"` // volume-doctor/v1
	Kind       string      `json:"kind"`       // RepairPlan
	TakenAt    metav1.Time `json:"takenAt"`
	// Server is the API server that the plan is for.
	Server string `json:"server"`
	// Consent is what the repairs were proposed with. It must be said again when
	// they are made: a node that was off may be back.
	Consent Consent  `json:"consent,omitzero"`
	Repairs []Repair `json:"repairs"`
}

// Save makes a plan of the repairs that were proposed on the view.
func Save(v *View, repairs []Repair) SavedPlan {
	return SavedPlan{
		APIVersion: diagnose.APIVersion, Kind: SavedPlanKind, TakenAt: metav1.NewTime(v.Snapshot.TakenAt),
		Server: v.Snapshot.Source.Server, Consent: v.Consent, Repairs: repairs,
	}
}

// Write writes the plan as indented JSON.
func (p SavedPlan) Write(w io.Writer) error {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(p); err != nil {
		return fmt.Errorf("encode the plan: %w", err)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// ReadPlan reads a saved plan, strictly: a field that is not known here may
// have meant something to whoever reviewed it.
func ReadPlan(r io.Reader) (*SavedPlan, error) {
	var p SavedPlan
	decoder := json.NewDecoder(r)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&p); err != nil {
		return nil, fmt.Errorf("read the plan: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("read the plan: there is something after it")
	}
	if p.APIVersion != diagnose.APIVersion || p.Kind != SavedPlanKind {
		return nil, fmt.Errorf("read the plan: it is a %q of %q, not a %s of %s", p.Kind, p.APIVersion, SavedPlanKind, diagnose.APIVersion)
	}
	return &p, nil
}

// ErrMoved says that a cluster is no longer what a plan was made for.
var ErrMoved = errors.New("the cluster is not what was reviewed")

// Choose returns, of what is proposed on the view, the repairs of the plan. A
// repair whose finding has gone is left out. Anything else that is not as it
// was reviewed refuses the plan as a whole: part of it may only be safe with
// the rest.
func (p *SavedPlan) Choose(v *View, proposed []Repair) ([]Repair, error) {
	if v.Snapshot.Source.Server != p.Server {
		return nil, fmt.Errorf("%w: the plan is for %s, and this is %s", ErrMoved, p.Server, v.Snapshot.Source.Server)
	}
	chosen := []Repair{}
	var moved []string
	for i := range p.Repairs {
		reviewed := &p.Repairs[i]
		switch fresh := find(proposed, reviewed); {
		case fresh != nil:
			chosen = append(chosen, *fresh)
		case v.finds(reviewed.Finding.Fingerprint):
			moved = append(moved, reviewed.moved(v, proposed))
		case v.findsAnother(reviewed.Finding):
			moved = append(moved, fmt.Sprintf("%s: what was reviewed is gone, and another %s has its name", reviewed.Summary, reviewed.Finding.Subject.Kind))
		case v.skipped(reviewed.Finding.Code) != nil:
			moved = append(moved, reviewed.Summary+": "+findingGuard.Check(v, reviewed).Error())
		}
	}
	if len(moved) > 0 {
		return nil, fmt.Errorf("%w: %s", ErrMoved, strings.Join(moved, "; "))
	}
	return chosen, nil
}

// findsAnother says that the same is found of an object that was made anew.
func (v *View) findsAnother(reviewed diagnose.Finding) bool {
	return slices.ContainsFunc(v.Report.Findings, func(f diagnose.Finding) bool {
		return f.Code == reviewed.Code && f.Subject.String() == reviewed.Subject.String() && f.Subject.UID != reviewed.Subject.UID
	})
}

func find(proposed []Repair, reviewed *Repair) *Repair {
	for i := range proposed {
		if proposed[i].Same(reviewed) {
			return &proposed[i]
		}
	}
	return nil
}

// moved says what has become of a repair that is no longer proposed as it was.
func (r *Repair) moved(v *View, proposed []Repair) string {
	for _, p := range proposed {
		if p.Finding.Fingerprint == r.Finding.Fingerprint {
			return fmt.Sprintf("%s: it would now be to %s", r.Summary, p.Summary)
		}
	}
	for _, f := range v.Report.Findings {
		if f.Fingerprint == r.Finding.Fingerprint && f.Repair != nil && f.Repair.BlockedBy != "" {
			return fmt.Sprintf("%s: refused now by %s", r.Summary, f.Repair.BlockedBy)
		}
	}
	return r.Summary + ": no longer proposed"
}
