// Package check defines what a check is, and how its findings relate to those of other checks.
package check

import (
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/docs"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
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
	// Breaks is the link that the findings are about. A picture of the volume marks it. ""
	// stands for the link of the check's layer (see Link).
	Breaks Link
	// Needs are the kinds that the check must know in full: a gap in one of them skips the
	// check, which would otherwise guess. Include kinds that only suppress findings: without
	// them, missing data would add findings. See AttachmentKinds.
	Needs []snapshot.Kind
	// OfNamespace is true where a finding rests only on pods, claims and events in the
	// namespace of its claims: all users of a claim are there. Where these kinds were read in
	// one namespace only, the check still reports findings about that namespace.
	OfNamespace bool
	// OfDriver is true where a finding needs a CSIDriver only to know whether volumes of the
	// finding's own driver are attached. Where other objects show this for some drivers, the
	// check still reports findings about those drivers.
	OfDriver bool
	// OfList is true where the check compares the objects with a storage system's list, and finds
	// nothing without one.
	OfList bool
	// Doubts reports whether an object that was not read may disprove what the check finds. Its
	// findings are then not reported, but others still yield to them. nil stands for never.
	Doubts func(*facts.View) bool
	// Yields names the checks whose findings take the place of this check's.
	Yields []Yield
	// Follows lists the relations to checks whose findings cause findings of this one, the
	// nearest cause first: where several match, the first names the cause.
	Follows []Relation
	// Remainder is true where the check reports what no other check explains. It then needs the
	// findings of all others, so they run even where the user did not ask for them.
	Remainder bool
	// Never completes "Do not ...": an action that makes the failure worse, although it is
	// often tried or advised. A finding may name another one.
	Never string
	// Run finds the failures. It is nil where no API object shows the failure: the check's page
	// says what to look at on the node or in the cloud.
	Run func(*Run)
}

// Doc is the page on the check's failure mode, in Markdown.
func (c Check) Doc() string { return docs.Page(string(c.Code)) }

// About is the page's sentence about the failure itself.
func (c Check) About() string { return docs.About(string(c.Code)) }

// AttachmentKinds are the kinds that show which volume is attached to which node and which pods
// use it there, and the other kinds of a check.
func AttachmentKinds(others ...snapshot.Kind) []snapshot.Kind {
	return append([]snapshot.Kind{
		snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSIDrivers,
	}, others...)
}
