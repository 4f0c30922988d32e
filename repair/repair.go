// Package repair proposes what would fix a finding: one write, as data, with the
// guards that must hold before it is made, and with the way to take it back. It
// writes nothing; package apply does.
package repair

import (
	"encoding/json"
	"slices"

	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/sidebyside"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// FieldManager is who the API server writes down for what this package writes.
const FieldManager = facts.FieldManager

// Permission is one right, as an access review asks for it.
type Permission struct {
	Verb        string `json:"verb"`
	Group       string `json:"group,omitempty"`
	Resource    string `json:"resource"`
	Subresource string `json:"subresource,omitempty"`
	Namespace   string `json:"namespace,omitempty"`
	Name        string `json:"name,omitempty"`
	// Path is set for a request which is about no resource, such as /metrics. Then
	// there is nothing else but the verb.
	Path string `json:"path,omitempty"`
}

// RightTo is the right to objects of the kind, or to the one of the name.
func RightTo(verb string, kind snapshot.Kind, name string) Permission {
	return Permission{Verb: verb, Group: snapshot.ResourceOf(kind).Group(), Resource: string(kind), Name: name}
}

// of is the right to a subresource of the same objects.
func (p Permission) of(subresource string) Permission {
	p.Subresource = subresource
	return p
}

// String is the right in the words of an RBAC rule.
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
	// Consent is what the user has said that no API shows.
	Consent Consent
	// Flags are those that kubectl needs to reach this cluster, as --context=NAME.
	Flags []string

	// Facts are what is true of the objects: guards ask them, as the checks do.
	Facts *facts.View

	// looked and found are nil until a guard asks.
	looked *lookup
	found  map[string]*finding.Finding
}

// Consent is the user's word. Without it nothing is done that can cost data.
type Consent struct {
	// Allow are the kinds of repair that are never made unasked.
	Allow []Kind `json:"allow,omitempty"`
	// Fenced are the nodes that the user knows to be powered off, or cut off from
	// the storage, and that stay so until the repair is done.
	Fenced []types.NodeName `json:"fenced,omitempty"`
	// Detached are the VolumeAttachments whose volume is not attached to their node at the
	// storage system, as the user has seen there.
	Detached []string `json:"detached,omitempty"`
}

// Look rebuilds the worlds and runs the checks over a snapshot. The report is about the
// whole cluster and has no repairs: guards ask no more.
func Look(s *snapshot.Snapshot, opts diagnose.Options, consent Consent) *View {
	v := newView(s, opts.Reconcile, consent)
	v.Report = diagnose.Build(v.Facts, diagnose.Request{Checks: opts.Checks})
	return v
}

// Examine makes the report that is asked for, with the Repair of every finding that has
// one. It returns those that no guard refuses, in the order in which to carry them out:
// what takes a volume from a node comes before what lets a pod start.
func Examine(s *snapshot.Snapshot, opts reconcile.Options, consent Consent, request diagnose.Request) (*View, []Repair) {
	v := newView(s, opts, consent)
	v.Flags = request.Flags
	var repairs []Repair
	finish := request.Finish
	request.Finish = func(r *finding.Report) {
		v.Report = r
		repairs = propose(v)
		if finish != nil {
			finish(r)
		}
	}
	v.Report = diagnose.Build(v.Facts, request)
	return v, repairs
}

func newView(s *snapshot.Snapshot, opts reconcile.Options, consent Consent) *View {
	world := reconcile.NewWorld(s, opts)
	plan := world.Reconcile()
	return &View{Snapshot: s, World: world, Plan: plan, Facts: facts.NewView(s, world, plan), Consent: consent}
}

// Undecided says of a finding of before, which the report has no more, that it may
// still be true: see diagnose.Undecided.
func (v *View) Undecided(f finding.Finding) bool { return diagnose.Undecided(v.Facts, f) }

// Finds reports whether the view has the finding.
func (v *View) Finds(fingerprint string) bool { return v.lookUp(fingerprint) != nil }

// lookUp is the view's finding; nil where it has none of the kind.
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
	RiskLow    Risk = "low"    // at worst it changes nothing for good
	RiskMedium Risk = "medium" // a pod may be interrupted
	RiskHigh   Risk = "high"   // data is at risk where what no API shows was stated wrongly
)

// Repair is one finding's correction, worked out on one View.
type Repair struct {
	Finding finding.Finding `json:"finding"`
	Kind    Kind            `json:"kind"`
	// Summary says in a few words what is written; it is made of Do.
	Summary string `json:"summary"`
	// SoThat says what that is for, where the write itself does not.
	SoThat string `json:"-"`
	Risk   Risk   `json:"risk"`
	// Do is the one write.
	Do Operation `json:"do"`
	// Undo reverses Do where nothing else has changed since; nil where WhyNot
	// says why nothing does.
	Undo   *Operation `json:"undo,omitempty"`
	WhyNot string     `json:"whyNot,omitempty"`
	// PreImage are the fields that Do writes, as they were, in the object's form.
	PreImage json.RawMessage `json:"preImage,omitempty"`
	// Guards must all hold, on objects just read, before Do is sent.
	Guards []Guard `json:"-"`
	// Needs are the rights that Do takes.
	Needs []Permission `json:"needs"`
	// BlockedBy is the first guard that refuses on the View, nil where none does.
	BlockedBy *Refusal `json:"blockedBy,omitempty"`
	// Lower says why no repair of lower risk will do.
	Lower []finding.LowerRepair `json:"lower,omitempty"`
	// Lasts says until when what is written may stay, and what makes it stay longer; ""
	// where nothing but a new failure ends it.
	Lasts string `json:"lasts,omitempty"`

	order int
	// reads are the kinds that the repair rests on. After the write, stands,
	// landed, pending and moot are asked only of a look that has all of
	// them in full.
	reads []snapshot.Kind
	// stands says whether the write's effect is in the objects.
	stands func(*View) bool
	// landed says whether the write was made, for a request without an answer;
	// nil means the same as stands.
	landed func(*View) bool
	// pending says what the cluster has still to do with it, "" where nothing; nil
	// where the effect is all there is to it.
	pending func(*View) string
	// moot says that the effect may be missing because nobody needs it any more;
	// nil where it never is.
	moot func(*View) bool
	// hits is Write.Hits.
	hits func(*View) string
	// follows is how long the run that makes the repair has to follow the cluster before.
	follows time.Duration
	// Next is a second write that completes the repair; nil mostly.
	Next *Step `json:"-"`
	// check holds the written object against what was meant.
	check func(after json.RawMessage) error
}

// FencedNode is the node that the repair is safe for because the user says that it is
// fenced; "" where the repair does not rest on that.
func (r *Repair) FencedNode() types.NodeName {
	switch {
	case !r.RestsOnFencing():
		return ""
	case r.Finding.Holder != "":
		return r.Finding.Holder // the volume is taken from there, while the finding's node waits for it
	}
	return r.Finding.Node
}

// RestsOnFencing reports whether the repair is safe only because the user says that
// the node is fenced.
func (r *Repair) RestsOnFencing() bool {
	return slices.ContainsFunc(r.Guards, func(g Guard) bool { return g.Name == GuardFenced })
}

// propose fills in the repairs of the view's report, and returns those that no guard
// refuses.
func propose(v *View) []Repair {
	v.Finds("") // made before guards ask side by side, as is what they look up
	v.lookup()
	findings := v.Report.Findings
	chosen, summaries := make([]*Repair, len(findings)), make([]*finding.Repair, len(findings))
	sidebyside.Do(len(findings), func(i int) {
		if chosen[i] = choose(v, findings[i]); chosen[i] != nil {
			summaries[i] = chosen[i].proposed(v)
		}
	})
	repairs := []Repair{}
	for i, r := range chosen {
		if r != nil {
			findings[i].Repair = summaries[i]
		}
		advise(&findings[i])
		if r != nil && summaries[i].SafeOnce != "" {
			safe := v.Facts.SafeOnce(findings[i], summaries[i].SafeOnce)
			summaries[i].SafeOnce, summaries[i].SafeOnceHits = safe.Sentence, safe.Hits
			findings[i].Steps = append(findings[i].Steps, safe.Hits...)
		}
		findings[i].Actions = finding.ActionsOf(findings[i], v.Snapshot.TakenAt)
		if r != nil && r.BlockedBy == nil {
			r.Finding = findings[i]
			repairs = append(repairs, *r)
		}
	}
	InOrder(repairs)
	return repairs
}

// InOrder sorts the repairs into the order in which to carry them out.
func InOrder(repairs []Repair) {
	slices.SortStableFunc(repairs, func(a, b Repair) int { return a.order - b.order })
}

// advise makes the finding's advice agree with its repair. What a person can do by
// hand is the advice only where no repair is proposed: one that is has its own
// commands, and what a guard refuses is not safer by hand.
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

// needs are the flags in which the user gives the word that the repair asks for,
// and whether nothing else refuses it.
func (r *Repair) needs(v *View) (flags []string, enough bool) {
	v.Finds("")
	v.lookup() // what is looked up once serves the copies as well
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
