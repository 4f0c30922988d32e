// Package check says what a check is, and how its findings relate to those of
// other checks.
package check

import (
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/docs"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// Check produces the findings of exactly one code.
type Check struct {
	Code finding.Code
	// Name is the failure mode's name, in lower case with hyphens.
	Name string
	// Title is one line for lists.
	Title string
	// Severity is the severity of its findings where they do not say otherwise.
	Severity finding.Severity
	// Breaks is the link that its findings are about, which a picture of the volume
	// marks; "" for the link of its layer (Link).
	Breaks Link
	// Needs are the kinds whose absence would make the check guess: a gap in
	// one of them skips it. Include kinds that only suppress findings: otherwise
	// missing data would add findings. See AttachmentKinds.
	Needs []snapshot.Kind
	// OfNamespace says that a finding rests, of pods, claims and events, on those alone that
	// are in the namespace of its claims: all users of a claim are there. Where these kinds
	// were read of one namespace only, the check still speaks of it.
	OfNamespace bool
	// OfDriver says that a finding rests, of CSIDrivers, only on whether the volumes of its own
	// driver are attached. Where other objects show that of some drivers, the check still
	// speaks of these.
	OfDriver bool
	// Yields names the checks whose findings take the place of this check's.
	Yields []Yield
	// Follows says from which findings of other checks one of this check follows.
	// The nearest comes first: where several match, the first names the cause.
	Follows []Relation
	// Group is nil where the findings share no cause without a finding of its own.
	Group *Group
	// Remainder says that the check reports what all others leave over: they run with
	// it, also where the user has not asked for them.
	Remainder bool
	// Never completes "Do not ...": what makes the failure worse, although it is often
	// tried or advised. A finding may say something else.
	Never string
	// Run is nil where no API object shows the failure: its page says what to
	// look at on the node or in the cloud.
	Run func(*Run)
}

// Doc is the page on the check's failure mode, in Markdown.
func (c Check) Doc() string { return docs.Page(string(c.Code)) }

// About is the page's sentence about the failure itself.
func (c Check) About() string { return docs.About(string(c.Code)) }

// AttachmentKinds are the kinds that show which volume is attached to which node, and
// which pods use it there, and with them the others that a check needs.
func AttachmentKinds(others ...snapshot.Kind) []snapshot.Kind {
	return append([]snapshot.Kind{
		snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSIDrivers,
	}, others...)
}
