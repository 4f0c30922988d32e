package repair

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
)

// ApprovedKind is the kind of a file of repairs.
const ApprovedKind = "RepairPlan"

// Approved is what --save-repairs writes for somebody to review: exactly the
// repairs that --approved then makes, or none.
type Approved struct {
	APIVersion string      `json:"apiVersion"` // volume-doctor/v1
	Kind       string      `json:"kind"`       // RepairPlan
	TakenAt    metav1.Time `json:"takenAt"`
	// Server is the API server that the repairs are for.
	Server string `json:"server"`
	// Consent is what the repairs were proposed with. It must be said again when
	// they are made: a node that was off may be back.
	Consent Consent  `json:"consent,omitzero"`
	Repairs []Repair `json:"repairs"`
}

// Save is the file of the repairs that were proposed on the view.
func Save(v *View, repairs []Repair) Approved {
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

// ReadApproved reads a file of repairs, strictly: a field that is not known here may
// have meant something to whoever reviewed it.
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

// ErrMoved says that a cluster is no longer what repairs were reviewed for.
var ErrMoved = errors.New("the cluster is not what was reviewed")

// Choose returns, of what is proposed on the view, those of the file. A
// repair whose finding has gone is left out. Anything else that is not as it
// was reviewed refuses the file as a whole: part of it may only be safe with
// the rest.
func (p *Approved) Choose(v *View, proposed []Repair) ([]Repair, error) {
	if v.Snapshot.Source.Server != p.Server {
		return nil, fmt.Errorf("%w: the repairs are for %s, and this is %s", ErrMoved, p.Server, v.Snapshot.Source.Server)
	}
	chosen := []Repair{}
	var moved []string
	for i := range p.Repairs {
		reviewed := &p.Repairs[i]
		fresh := find(proposed, reviewed)
		switch {
		case find(p.Repairs[:i], reviewed) != nil:
			moved = append(moved, reviewed.Summary+": the file has it twice")
		case fresh != nil:
			if other := fresh.differs(reviewed); other != "" {
				moved = append(moved, fmt.Sprintf("%s: it would now be to %s, with another %s than was reviewed", reviewed.Summary, fresh.Summary, other))
			}
			chosen = append(chosen, *fresh)
		case v.finds(reviewed.Finding.Fingerprint):
			moved = append(moved, reviewed.moved(v))
		case v.findsAnother(reviewed.Finding):
			moved = append(moved, fmt.Sprintf("%s: what was reviewed is gone, and another %s has its name or its finding", reviewed.Summary, reviewed.Finding.Subject.Kind))
		case v.untold(reviewed.Finding.Code) != nil:
			moved = append(moved, reviewed.Summary+": "+v.untold(reviewed.Finding.Code).Error())
		case !reviewed.known():
			moved = append(moved, reviewed.Summary+": there is no such repair of such a finding")
		}
	}
	if len(moved) == 0 && !p.Consent.same(v.Consent) {
		moved = append(moved, fmt.Sprintf("it was reviewed with %s, and this run has %s", p.Consent, v.Consent))
	}
	if len(moved) > 0 {
		return nil, fmt.Errorf("%w: %s", ErrMoved, strings.Join(moved, "; "))
	}
	return chosen, nil
}

// findsAnother says that the same is found of an object that was recreated, or
// under another fingerprint, as in a file that was changed.
func (v *View) findsAnother(reviewed finding.Finding) bool {
	return slices.ContainsFunc(v.Report.Findings, func(f finding.Finding) bool {
		return f.Code == reviewed.Code && f.Subject.String() == reviewed.Subject.String() &&
			(f.Subject.UID != reviewed.Subject.UID || f.Pair() == reviewed.Pair() && f.VolumeAttachment == reviewed.VolumeAttachment)
	})
}

// find is the repair that is proposed now for the reviewed one's finding.
func find(proposed []Repair, reviewed *Repair) *Repair {
	for i := range proposed {
		if proposed[i].Finding.Fingerprint == reviewed.Finding.Fingerprint {
			return &proposed[i]
		}
	}
	return nil
}

// known says whether the repair is of a kind that there is, for a finding that it
// can mend.
func (r *Repair) known() bool {
	action, known := actionOf(r.Kind)
	return known && slices.Contains(action.codes, r.Finding.Code)
}

// moved says what has become of a repair that is no longer proposed.
func (r *Repair) moved(v *View) string {
	for _, f := range v.Report.Findings {
		if f.Fingerprint == r.Finding.Fingerprint && f.Repair != nil && f.Repair.BlockedBy != "" {
			return fmt.Sprintf("%s: refused now by %s", r.Summary, f.Repair.BlockedBy)
		}
	}
	return r.Summary + ": no longer proposed"
}

// differs names the first thing in which two repairs, worked out at different
// times, differ; "" where they would write the same to the same object in the
// same state. It is what makes a reviewed file binding: a Repair that was read
// from a file has no guards and is never made itself, it only chooses among those
// that were proposed just now.
//
// The patch's tests are compared too: they hold the state that the reviewer
// saw. Only what changes without meaning anything is left out: resourceVersions,
// the time in a nudge's mark, an attachment's status in what is kept of it, and
// the texts about the finding and about lower kinds, which tell ages.
func (r *Repair) differs(reviewed *Repair) string {
	a, b := &r.Finding, &reviewed.Finding
	return cmp.Or(r.aimsElsewhere(reviewed), firstOther([]part{
		{"target", sameTarget(r.Do.Target, reviewed.Do.Target)},
		{"summary", r.Summary == reviewed.Summary},
		{"finding", *refTo(*a) == *refTo(*b) && a.VolumeAttachment == b.VolumeAttachment && a.Holder == b.Holder},
		{"patch", r.Do.Merge == reviewed.Do.Merge && sameJSON(r.Do.timeless(), reviewed.Do.timeless())},
		{"inverse", sameInverse(r.Undo, reviewed.Undo)},
		{"reason why nothing reverses it", r.WhyNot == reviewed.WhyNot},
		{"state before", sameJSON(steady(r.PreImage), steady(reviewed.PreImage))},
		{"risk", r.Risk == reviewed.Risk},
		{"set of rights", slices.Equal(r.Needs, reviewed.Needs)},
		{"guard that refuses", reviewed.BlockedBy == nil},
	}))
}

// aimsElsewhere names the first thing in which two repairs do not write to an object
// of the same name; "" where they do. Whether that is still the same object is the
// guards' question.
func (r *Repair) aimsElsewhere(reviewed *Repair) string {
	a, b := r.Do.Target, reviewed.Do.Target
	return firstOther([]part{
		{"kind", r.Kind == reviewed.Kind},
		{"verb", r.Do.Verb == reviewed.Do.Verb},
		{"target", a.Kind == b.Kind && a.Namespace == b.Namespace && a.Name == b.Name},
		{"subresource", r.Do.Subresource == reviewed.Do.Subresource},
		{"object", sameJSON(r.Do.Object, reviewed.Do.Object)},
	})
}

// part is one thing in which two repairs may differ.
type part struct {
	name string
	same bool
}

func firstOther(parts []part) string {
	for _, p := range parts {
		if !p.same {
			return p.name
		}
	}
	return ""
}

func sameInverse(a, b *Operation) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Verb == b.Verb && sameTarget(a.Target, b.Target) && a.Subresource == b.Subresource && a.Merge == b.Merge &&
		sameJSON(a.timeless(), b.timeless()) && sameJSON(a.Object, b.Object)
}

func sameTarget(a, b corev1.ObjectReference) bool {
	a.ResourceVersion, b.ResourceVersion = "", ""
	return a == b
}

// timeless is the patch without the value of its resourceVersion and without the
// time of a nudge.
func (op Operation) timeless() json.RawMessage {
	if !op.Merge {
		var steps []patchOp
		if json.Unmarshal(op.Patch, &steps) != nil {
			return op.Patch
		}
		for i, step := range steps {
			if step.Path == resourceVersionPath {
				steps[i].Value = nil
			}
		}
		return compact(steps)
	}
	var patch map[string]any
	if json.Unmarshal(op.byHand(), &patch) != nil {
		return op.Patch
	}
	unclock(patch)
	return compact(patch)
}

// steady is what was there before without what its controllers keep changing.
func steady(image json.RawMessage) json.RawMessage {
	var object map[string]any
	if json.Unmarshal(image, &object) != nil {
		return image
	}
	if meta, ok := object["metadata"].(map[string]any); ok && object["kind"] != nil { // a whole object
		delete(meta, "resourceVersion")
		delete(object, "status")
	}
	unclock(object)
	return compact(object)
}

// unclock takes the time off a nudge's mark on the object.
func unclock(object map[string]any) {
	meta, _ := object["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any)
	if value, ok := annotations[markAnnotation].(string); ok {
		annotations[markAnnotation], _, _ = splitNudge(value)
	}
}

// same says whether the two are the same word of the user.
func (c Consent) same(other Consent) bool {
	return sets.New(c.Allow...).Equal(sets.New(other.Allow...)) && sets.New(c.Fenced...).Equal(sets.New(other.Fenced...))
}

// String is the consent as flags.
func (c Consent) String() string {
	var flags []string
	for _, kind := range c.Allow {
		flags = append(flags, "--allow "+string(kind))
	}
	for _, node := range c.Fenced {
		flags = append(flags, "--fenced "+string(node))
	}
	if len(flags) == 0 {
		return "no --allow and no --fenced"
	}
	return strings.Join(flags, " ")
}
