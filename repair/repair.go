// Package repair proposes the repair of a finding: one write, as data, with the guards that
// must hold before it is made, and with the way to take it back. It writes nothing; package
// apply does.
package repair

import (
	"encoding/json"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/step"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/sidebyside"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// FieldManager is the name under which the API server records the writes of this package.
const FieldManager = facts.FieldManager

// Permission is one right, as an access review asks for it.
type Permission struct {
	Verb        string `json:"verb"`
	Group       string `json:"group,omitempty"`
	Resource    string `json:"resource"`
	Subresource string `json:"subresource,omitempty"`
	Namespace   string `json:"namespace,omitempty"`
	Name        string `json:"name,omitempty"`
	// Path is set for a request that is about no resource, such as /metrics. Then only Verb
	// is set beside it.
	Path string `json:"path,omitempty"`
}

// RightTo is the right to the object of this name, or to all objects of the kind where name
// is "".
func RightTo(verb string, kind snapshot.Kind, name string) Permission {
	return Permission{Verb: verb, Group: snapshot.ResourceOf(kind).Group(), Resource: string(kind), Name: name}
}

// of is the right to a subresource of the same objects.
func (p Permission) of(subresource string) Permission {
	p.Subresource = subresource
	return p
}

// String is the right in the form of an RBAC rule.
func (p Permission) String() string {
	text := p.Verb + " " + p.Resource + p.Path
	if p.Group != "" {
		text += "." + p.Group
	}
	if p.Subresource != "" {
		text += "/" + p.Subresource
	}
	if p.Name != "" {
		text += " " + p.Name
	}
	if p.Namespace != "" {
		text += " in namespace " + p.Namespace
	}
	return text
}

// View is one look at a cluster: the objects, and all that follows from them.
type View struct {
	Snapshot *snapshot.Snapshot
	World    *reconcile.World
	Plan     *reconcile.Plan
	Report   *finding.Report
	// Consent is the user's word on facts that no API shows.
	Consent Consent
	// Flags are the flags that kubectl needs to reach this cluster, such as --context=NAME.
	Flags []string
	// settings are the other flags of this program's command lines for the cluster.
	settings []string

	// Facts answers questions about the objects, for guards as for checks.
	Facts *facts.View

	// looked and found are nil until a guard asks.
	looked *lookup
	found  map[string]*finding.Finding
}

// Consent is the user's word. Without it nothing is done that can cost data.
type Consent struct {
	// Allow are the kinds of repair that are made only where the user names them.
	Allow []Kind `json:"allow,omitempty"`
	// Fenced are the nodes that the user knows to be powered off, or cut off from the
	// storage, until the repair is done.
	Fenced []types.NodeName `json:"fenced,omitempty"`
	// Detached are the VolumeAttachments whose volume, as the user has seen at the storage
	// system, is not attached to their node.
	Detached []string `json:"detached,omitempty"`
}

// Look rebuilds the worlds and runs the checks over a snapshot. The report is about the whole
// cluster and has no repairs: guards need no more.
func Look(s *snapshot.Snapshot, opts diagnose.Options, consent Consent) *View {
	v := newView(s, opts.Reconcile, consent)
	v.Report = diagnose.Build(v.Facts, diagnose.Request{Checks: opts.Checks})
	return v
}

// Examine makes the requested report, with the Repair of every finding that has one. It returns
// the repairs that no guard refuses, in their order: a repair that takes a volume from a node
// comes before one that lets a pod start.
func Examine(s *snapshot.Snapshot, opts reconcile.Options, consent Consent, request diagnose.Request) (*View, []Repair) {
	v := newView(s, opts, consent)
	v.Flags, v.settings = request.Flags, request.Settings
	v.Report = diagnose.Build(v.Facts, request)
	return v, propose(v)
}

func newView(s *snapshot.Snapshot, opts reconcile.Options, consent Consent) *View {
	world := reconcile.NewWorld(s, opts)
	plan := world.Reconcile()
	return &View{Snapshot: s, World: world, Plan: plan, Facts: facts.NewView(s, world, plan), Consent: consent}
}

// Undecided reports whether an earlier finding that the report no longer has may still be
// true: see diagnose.Undecided.
func (v *View) Undecided(f finding.Finding) bool { return diagnose.Undecided(v.Facts, f) }

// Finds reports whether the view has the finding.
func (v *View) Finds(fingerprint string) bool { return v.lookUp(fingerprint) != nil }

// lookUp is the view's finding with the fingerprint; nil where it has none.
func (v *View) lookUp(fingerprint string) *finding.Finding {
	if v.found == nil {
		v.found = make(map[string]*finding.Finding, len(v.Report.Findings))
		for i := range v.Report.Findings {
			v.found[v.Report.Findings[i].Fingerprint] = &v.Report.Findings[i]
		}
	}
	return v.found[fingerprint]
}

// Risk is what may go wrong although every guard holds.
type Risk string

// The risks.
const (
	RiskLow    Risk = "low"    // at worst it changes nothing lastingly
	RiskMedium Risk = "medium" // a pod may be interrupted
	RiskHigh   Risk = "high"   // data is at risk if the user is wrong about facts that no API shows
)

// Repair is one finding's correction, worked out on one View.
type Repair struct {
	Finding finding.Finding `json:"finding"`
	Kind    Kind            `json:"kind"`
	// Summary is Do in a few words.
	Summary string `json:"summary"`
	// SoThat says what the write is for, where the write itself does not show it.
	SoThat string `json:"-"`
	Risk   Risk   `json:"risk"`
	// Do is the one write.
	Do Operation `json:"do"`
	// Undo reverses Do where nothing else has changed since. Where it is nil, WhyNot is why
	// nothing reverses Do. Otherwise WhyNot is what Undo does not bring back; "" where it brings
	// back everything.
	Undo   *Operation `json:"undo,omitempty"`
	WhyNot string     `json:"whyNot,omitempty"`
	// OnlyIf is what the user has to make sure of before allowing the repair; "" where other
	// flags or the sentence about the repair say it.
	OnlyIf string `json:"-"`
	// ByHand reports whether a person can reverse Do although nothing here does.
	ByHand bool `json:"-"`
	// PreImage are the fields that Do writes, as they were, in the object's form.
	PreImage json.RawMessage `json:"preImage,omitempty"`
	// Guards must all hold, on objects just read, before Do is sent.
	Guards []Guard `json:"-"`
	// Needs are the rights that Do needs.
	Needs []Permission `json:"needs"`
	// BlockedBy is the first guard that refuses on the View, nil where none does.
	BlockedBy *Refusal `json:"blockedBy,omitempty"`
	// Lower says why no repair of lower risk will do.
	Lower []finding.LowerRepair `json:"lower,omitempty"`
	// Lasts says until when the written state may stay, and what makes it stay longer; ""
	// where only a new failure ends it.
	Lasts string `json:"lasts,omitempty"`

	// notUndone is when Undo is refused; "" where it is not, or not known before.
	notUndone string

	order int
	// reads are the kinds that the repair rests on. After the write, the functions below are
	// called only with a View that has all of these kinds in full.
	reads []snapshot.Kind
	// stands reports whether the objects show the write's effect.
	stands func(*View) bool
	// landed reports whether the write was made, for a request without an answer; nil means
	// the same as stands.
	landed func(*View) bool
	// pending says what the cluster still has to do after the write, "" where nothing; nil
	// where the repair is complete with its effect.
	pending func(*View) string
	// moot reports whether the effect may be missing because nobody needs it any more; nil
	// where it never is.
	moot func(*View) bool
	// hits is Write.Hits.
	hits func(*View) string
	// follows is how long the run that makes the repair must first have watched the cluster.
	follows time.Duration
	// Next is a second write that completes the repair; nil for most repairs.
	Next *Step `json:"-"`
	// check compares the written object with the intended one.
	check func(after json.RawMessage) error
}

// FencedNode is the node that the user has to fence to make the repair safe; "" where the repair
// does not rest on that.
func (r *Repair) FencedNode() types.NodeName {
	switch {
	case !r.RestsOnFencing():
		return ""
	case r.Finding.Holder != "":
		return r.Finding.Holder // the volume is taken from there, while the finding's node waits for it
	}
	return r.Finding.Node
}

// RestsOnFencing reports whether the repair is safe only because the user says that the node is
// fenced.
func (r *Repair) RestsOnFencing() bool {
	return slices.ContainsFunc(r.Guards, func(g Guard) bool { return g.Name == GuardFenced })
}

// propose adds the repairs to the findings of the view's report, which nobody else has seen yet, and
// returns those that no guard refuses.
func propose(v *View) []Repair {
	v.Finds("") // made before guards run side by side, as are the look-ups
	v.lookup()
	findings := v.Report.Findings
	chosen, summaries := make([]*Repair, len(findings)), make([]*finding.Repair, len(findings))
	sidebyside.Do(len(findings), func(i int) {
		if chosen[i] = choose(v, findings[i]); chosen[i] != nil {
			summaries[i] = chosen[i].proposed(v)
		}
	})
	for i, r := range chosen {
		if r != nil {
			findings[i].Repair = summaries[i]
		}
		advise(&findings[i])
		if r != nil && summaries[i].SafeOnce != "" {
			summaries[i].SafeOnceTold = r.BlockedBy.Guard == diskStaysGuard.Name && keepsDisk(v, findings[i]) ||
				r.BlockedBy.Guard == notAlive && slices.ContainsFunc(findings[i].Steps, func(s finding.Step) bool { return s.Kind == step.DrainNode })
			summaries[i].SafeOnceChanges = slices.ContainsFunc(step.Marks(summaries[i].SafeOnce), func(m step.Mark) bool { return m.Kind.Undo() != "" || m.Kind == step.Change || m.Kind == step.Fix })
			safe := v.Facts.SafeOnce(findings[i], summaries[i].SafeOnce)
			summaries[i].SafeOnce, summaries[i].SafeOnceHits = safe.Sentence, safe.Hits
			findings[i].Steps = append(findings[i].Steps, safe.Hits...)
		}
		if r != nil && r.Kind == OutOfServiceTaint && len(summaries[i].Commands) > 0 {
			findings[i].Steps = append(findings[i].Steps, v.Facts.TaintHits(findings[i]))
		}
	}
	addCommandLines(v)
	repairs := []Repair{}
	for i, r := range chosen {
		findings[i].Actions = finding.ActionsOf(findings[i], v.Snapshot.TakenAt)
		if r != nil && r.BlockedBy == nil {
			r.Finding = findings[i]
			repairs = append(repairs, *r)
		}
	}
	InOrder(repairs)
	return repairs
}

// keepsDisk reports whether the advice of the finding keeps the disk of its volume.
func keepsDisk(v *View, f finding.Finding) bool {
	pv := v.Snapshot.Volume(f.PersistentVolume)
	return pv != nil && slices.ContainsFunc(f.Do, func(a finding.Action) bool { return a.Command == facts.Retain(pv) })
}

// InOrder sorts the repairs into the order in which to carry them out.
func InOrder(repairs []Repair) {
	slices.SortStableFunc(repairs, func(a, b Repair) int { return a.order - b.order })
}

// advise makes the finding's advice agree with its repair. Advice to act by hand is shown only
// where no repair is proposed: a proposed repair has its own commands, and an act that a guard
// refuses is not safer by hand.
func advise(f *finding.Finding) {
	if f.Repair != nil {
		if len(f.Repair.Commands) == 0 {
			f.AdviceCommands = nil
		}
		f.Do = slices.DeleteFunc(slices.Clone(f.Do), func(a finding.Action) bool { return a.ByHand })
		f.Never = neverByHand(f.Never, Kind(f.Repair.Kind))
	}
	f.Advised()
	f.ByHand = ""
}

func (r *Repair) proposed(v *View) *finding.Repair {
	s := &finding.Repair{
		Kind:       string(r.Kind),
		Does:       r.does(),
		Risk:       string(r.Risk),
		Reversible: r.Undo != nil,
		OnlyIf:     r.OnlyIf,
		Lower:      r.Lower,
		Commands:   []string{},
	}
	if r.BlockedBy != nil {
		s.BlockedBy = r.BlockedBy.Error()
	}
	if needs, enough := r.needs(v); enough {
		s.Commands, s.Needs = []string{r.Do.Kubectl(v.Flags...)}, needs
	} else if r.BlockedBy != nil {
		s.SafeOnce = r.BlockedBy.SafeOnce
	}
	return s
}

// needs are the flags of the consents that the repair asks for. enough reports whether nothing
// else refuses it.
func (r *Repair) needs(v *View) (flags []string, enough bool) {
	v.Finds("")
	v.lookup() // the look-ups serve the copies as well
	silent, given := *v, *v
	silent.Consent = Consent{}
	for _, guard := range r.Guards {
		if !consents(guard.Name) || guard.Check(&silent, r) == nil {
			continue
		}
		switch guard.Name {
		case GuardAllowed:
			flags = append(flags, "--allow="+string(r.Kind))
			given.Consent.Allow = append(slices.Clone(given.Consent.Allow), r.Kind)
		case GuardDetached:
			flags = append(flags, "--detached="+r.Do.Target.Name)
			given.Consent.Detached = append(slices.Clone(given.Consent.Detached), r.Do.Target.Name)
		default:
			flags = append(flags, "--fenced="+string(r.FencedNode()))
			given.Consent.Fenced = append(slices.Clone(given.Consent.Fenced), r.FencedNode())
		}
	}
	if r.follows > 0 {
		flags = append(flags, "--for="+facts.Rounded(r.follows))
	}
	return flags, refusal(&given, r) == nil
}
