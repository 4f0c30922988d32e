// Package finding defines findings and reports: their order, merging, suppression, comparison
// and history.
package finding

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/step"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// APIVersion is the apiVersion of every document that volume-doctor writes.
const APIVersion = "volume-doctor/v1"

// Head is the beginning of a document about one cluster.
type Head struct {
	APIVersion        string          `json:"apiVersion"`
	Kind              string          `json:"kind"`
	TakenAt           metav1.Time     `json:"takenAt"`
	KubernetesVersion string          `json:"kubernetesVersion,omitempty"`
	Source            snapshot.Source `json:"source"`
	Complete          bool            `json:"complete"`
	Gaps              []snapshot.Gap  `json:"gaps"`
}

// HeadOf returns the head of a document of the kind, with all gaps of the snapshot.
func HeadOf(kind string, s *snapshot.Snapshot) Head {
	return Head{APIVersion: APIVersion, Kind: kind, TakenAt: metav1.NewTime(s.TakenAt.UTC()), KubernetesVersion: s.Source.ServerVersion,
		Source: s.Source, Complete: len(s.Gaps) == 0, Gaps: append([]snapshot.Gap{}, s.Gaps...)}
}

// Report is the input of every output format. Its JSON is a contract: fields are added, never
// changed.
type Report struct {
	APIVersion        string          `json:"apiVersion"`
	Kind              string          `json:"kind"`
	TakenAt           metav1.Time     `json:"takenAt"`
	KubernetesVersion string          `json:"kubernetesVersion,omitempty"`
	Source            snapshot.Source `json:"source"`
	// Sources are the clusters of a report on several, in place of Source.
	Sources []snapshot.Source `json:"sources,omitempty"`
	// SameContexts maps each context that was not examined to an examined one with the same
	// server and user.
	SameContexts map[string]string `json:"sameContexts,omitempty"`
	// Complete reports that everything was read: there are no gaps.
	Complete      bool           `json:"complete"`
	Gaps          []snapshot.Gap `json:"gaps"`
	SkippedChecks []SkippedCheck `json:"skippedChecks"`
	// Checks are the codes of the checks that ran, in their order.
	Checks  []Code  `json:"checks"`
	Summary Summary `json:"summary"`
	// Suppressed counts the findings that somebody has decided to live with, and Known those
	// that the baseline has, too. Neither are in Findings.
	Suppressed int `json:"suppressed,omitempty"`
	// SuppressedBy is the file of those decisions, with the first day on which one ends.
	SuppressedBy string `json:"-"`
	Known        int    `json:"known,omitempty"`
	// Findings are sorted: the worst first, then those with most consequences, then by code and
	// subject. Each is followed by its consequences, which may raise its place.
	Findings []Finding `json:"findings"`
	// Waiting has each pod that waits for a volume, or whose end waits for one: the stuck ones,
	// then the unknown, then those in flight; each by name.
	Waiting []Waiting `json:"waiting"`
	// OmittedCauses are the causes of findings that a narrowed report does not have itself.
	OmittedCauses []OmittedCause `json:"omittedCauses,omitempty"`
	// Volumes are the states of the volumes that findings are about; sorted.
	Volumes []VolumeRecord `json:"volumes"`
	// Cluster is what was examined; nil in a report on several.
	Cluster *Cluster `json:"cluster,omitempty"`
	// Scope is how much of it was examined.
	Scope Scope `json:"scope"`
	// Answers are about the pods that were asked about by name.
	Answers []Answer `json:"answers,omitempty"`
	// SavedIn is the file that a saved report was read from: its author is unknown, and its
	// texts are marked as the file's. "" for a report that was made now.
	SavedIn string `json:"-"`
}

// Answer is whether a pod waits for a volume, and what it does otherwise.
type Answer struct {
	Pod     string    `json:"pod"`
	Verdict WaitState `json:"verdict"`
	// Message is a sentence.
	Message string `json:"message"`
}

// Cluster names a cluster, as far as it is known.
type Cluster struct {
	Context string `json:"context,omitempty"`
	Server  string `json:"server,omitempty"`
	Release string `json:"release,omitempty"`
}

// Scope counts what was examined.
type Scope struct {
	// Objects are the numbers of objects that were read, by kind.
	Objects map[snapshot.Kind]int `json:"objects,omitempty"`
	// PodsWithAttachedVolume is the number of pods with a volume that is attached to their node;
	// nil where a list that shows it was not read in full.
	PodsWithAttachedVolume *int `json:"podsWithAttachedVolume,omitempty"`
	// PodsOnSilentNodes are pods with a claim that ran when their nodes were last heard of: their
	// status is as old as that.
	PodsOnSilentNodes []string `json:"podsOnSilentNodes,omitempty"`
	// AttachedToNoNode are VolumeAttachments that say attached, to nodes that do not exist. No
	// object shows since when a node is gone, and so whether their detach is late.
	AttachedToNoNode []string `json:"attachedToNoNode,omitempty"`
	// Checks is the number of checks that ran.
	Checks int `json:"checks"`
	// Of is the reported part, such as "namespace shop"; "" is the whole cluster. The evidence
	// comes from the whole cluster in any case.
	Of string `json:"of,omitempty"`
}

// OmittedCause is the cause of a finding, where the report does not have it itself.
type OmittedCause struct {
	Code        Code     `json:"code"`
	Check       string   `json:"check"`
	Severity    Severity `json:"severity"`
	Message     string   `json:"message"`
	Subject     Object   `json:"subject"`
	Fingerprint string   `json:"fingerprint"`
}

// SkippedCheck is a check that a gap kept from running.
type SkippedCheck struct {
	Code  Code   `json:"code"`
	Check string `json:"check"`
	// Because is the first kind that the check needs and that was not read.
	Because snapshot.Kind `json:"because"`
	// Context is the cluster, in a report on several.
	Context string `json:"context,omitempty"`
}

// Summary counts the findings by severity.
type Summary struct {
	Error   int `json:"error"`
	Warning int `json:"warning"`
	Info    int `json:"info"`
}

// Object names an API object.
type Object struct {
	Kind      string    `json:"kind"`
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid,omitempty"`
}

// String is the object as kubectl takes it, after its namespace.
func (o Object) String() string {
	name := strings.ToLower(o.Kind) + "/" + o.Name
	if o.Namespace != "" {
		return o.Namespace + " " + name
	}
	return name
}

// Finding is one failure, with everything that a person needs to act on it. Fields that do not
// apply are empty.
type Finding struct {
	Code     Code     `json:"code"`
	Check    string   `json:"check"`
	Severity Severity `json:"severity"`
	// KnownFrom is how the meaning of the message behind the finding is known; nil where the
	// finding rests on objects alone.
	KnownFrom *KnownFrom `json:"knownFrom,omitempty"`
	// Confidence is Suspected where a pod is stuck and the evidence for this cause is still
	// young; "" means certain.
	Confidence Confidence `json:"confidence,omitempty"`
	// Settles is what will make a suspected finding certain; nil for a certain one.
	Settles *Settles `json:"settles,omitempty"`
	// Follow is how long the VolumeAttachments have to be followed until the missing evidence for
	// the finding or its repair exists; 0 where none is missing.
	Follow time.Duration `json:"-"`
	// Context is the cluster, in a report on several.
	Context string `json:"context,omitempty"`
	// Message is the headline: one sentence of at most MostWords words that names the pod, the
	// volume and the node.
	Message string `json:"message"`
	// Detail is more about it, in clauses: since when, which others, in what numbers.
	Detail string `json:"detail,omitempty"`
	// Said quotes the driver, kubelet or controller behind it; nil where nobody said anything.
	Said *Quote `json:"said,omitempty"`
	// Headline is what is wrong with the object that findings of one cause share, such as their
	// node. It replaces Message where a report folds several findings into one entry; "" where
	// the finding shares its cause with no other.
	Headline string `json:"headline,omitempty"`
	// Cause is how it came about, as far as the objects show.
	Cause string `json:"cause,omitempty"`
	// UpstreamBug is the bug of Kubernetes behind it; nil unless the release has it.
	UpstreamBug *UpstreamBug `json:"upstreamBug,omitempty"`
	Subject     Object       `json:"subject"`

	Volume corev1.UniqueVolumeName `json:"volume,omitempty"`
	Node   types.NodeName          `json:"node,omitempty"`
	// Holder is another node that has the volume and keeps it from Node.
	Holder           types.NodeName `json:"holder,omitempty"`
	PersistentVolume string         `json:"persistentVolume,omitempty"`
	VolumeAttachment string         `json:"volumeAttachment,omitempty"`
	// Pods are the pods that wait or would be harmed, as namespace/name; sorted.
	Pods []string `json:"pods,omitempty"`
	// Workloads made the pods, as namespace/Kind/name; sorted.
	Workloads []string `json:"workloads,omitempty"`
	// Claims lead the pods to the volume, as namespace/name; sorted.
	Claims []string `json:"claims,omitempty"`

	// Actor is who has to act, as the texts name it; "" where they name nobody. A pod that
	// waits because of the finding waits for the same actor.
	Actor string `json:"-"`

	// Since is when it began, or else the earliest moment that the objects prove.
	Since     *metav1.Time `json:"since,omitempty"`
	Evidence  []Evidence   `json:"evidence"`
	SelfHeals SelfHeals    `json:"selfHeals"`
	// Advice is what a person does about it that no Repair does. A check marks in it what is
	// deleted, restarted or waited for, with the marks of package step; in a report it is the
	// sentences of Do.
	Advice string `json:"advice,omitempty"`
	// ByHand is what a person does in place of a repair. Package repair adds it to Advice, or
	// drops it where a guard refuses.
	ByHand string `json:"-"`
	// Do are the actions of the advice.
	Do []Action `json:"-"`
	// Never is an action that makes it worse, although people often try or advise it.
	Never string `json:"never,omitempty"`
	// AdviceCommands are the command lines for the advice, from safetext.Kubectl; the advice
	// itself has none. Each has a line of its own.
	AdviceCommands []string `json:"adviceCommands,omitempty"`
	// Withheld is the number of commands and sentences that were removed from the advice of a
	// saved finding.
	Withheld int `json:"-"`
	// Unaimed reports whether flags that choose a cluster or a user were removed from the
	// commands of a saved finding.
	Unaimed bool `json:"-"`
	// Steps are what the advice deletes or restarts, each with the pods that it hits.
	Steps []Step `json:"steps,omitempty"`
	// ControllerAlone reports that the objects do not show it yet: only the controller's log or
	// metrics do. No repair is based on that.
	ControllerAlone bool `json:"-"`
	// Actions are the finding's actions, in their order: ActionsOf. Those of a saved report are
	// not used, but computed again.
	Actions []Action `json:"actions,omitempty"`
	// Repair is null where nothing that this tool writes can help.
	Repair *Repair `json:"repair"`
	// Fingerprint identifies the finding across runs. It is made of the code, the subject with
	// its UID, the volume and the node.
	Fingerprint string `json:"fingerprint"`
	// CausedBy is the fingerprint of the nearest finding that this one follows from. Where the
	// cause has no finding of its own, it is the finding that represents the cause.
	CausedBy string `json:"causedBy,omitempty"`
	// Consequences counts the findings of the report that follow from this one,
	// directly or not.
	Consequences int `json:"consequences,omitempty"`
}

// MostWords is the largest number of words in a headline, numbers included: a person reads that
// at a glance, and it fits on two lines of a terminal.
const MostWords = 16

// Text is the headline and the detail.
func (f Finding) Text() string { return Clauses(f.Message, f.Detail) }

// Line is the headline, the detail and the quote.
func (f Finding) Line() string {
	if f.Said == nil {
		return f.Text()
	}
	return fmt.Sprintf("%s: %q", f.Text(), f.Said.Text)
}

// Clauses joins the clauses that are not empty.
func Clauses(list ...string) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == "" }), "; ")
}

// Quote is a message in its author's own words.
type Quote struct {
	Text string `json:"text"`
	// By is the author, such as the driver or the kubelet of a node.
	By string `json:"by,omitempty"`
	// At is when it was last said, and Count is how often, as far as that is known.
	At    *metav1.Time `json:"at,omitempty"`
	Count int          `json:"count,omitempty"`
}

// KnownFrom is how the meaning of an error message is known.
type KnownFrom struct {
	// Layer is the part that was recognised: the driver's own words, a tool's words or number,
	// another driver's words, plain English words, or a code alone.
	Layer string `json:"layer"`
	// Entry is the recognised text or number.
	Entry string `json:"entry"`
	// Meaning is the class of the error.
	Meaning string `json:"meaning"`
	// LookUps are clauses about the objects that the message names.
	LookUps []string `json:"lookUps,omitempty"`
}

// Step is a part of an advice that deletes or restarts something.
type Step struct {
	Kind step.Kind `json:"kind"`
	// Object is what is deleted or restarted, such as "node/n1"; "" where the advice
	// leaves that open.
	Object string `json:"object,omitempty"`
	// Hits is the number of pods that the step hits; null where that is not known. A step on a
	// node, or on a service for all its pods, also hits pods without volumes, which are not
	// counted.
	Hits *int `json:"hits"`
	// Pods are the pods that it hits, as namespace/name; sorted.
	Pods []string `json:"pods,omitempty"`
	// Says is the sentence about the step.
	Says string `json:"says"`
	// Told marks a step whose sentence only repeats the action's sentence.
	Told bool `json:"-"`
}

// ControllerLog is the Object of Evidence that the controller's log gives.
const ControllerLog = "kube-controller-manager's log"

// Confidence is how sure a finding is of its cause.
type Confidence string

// Suspected is a cause that fits all known facts, before the time is over in which the same
// objects also occur where nothing is wrong.
const Suspected Confidence = "suspected"

// Settles is the condition under which a suspected finding becomes certain.
type Settles struct {
	// At is when it becomes certain.
	At metav1.Time `json:"at"`
	// If is the condition until then.
	If string `json:"if"`
	// again is the finding after another look, at least so much later, finds it again; nil
	// where another look settles nothing.
	again *again
}

type again struct {
	after    time.Duration
	severity Severity
	cause    string
}

// Suspect makes the finding suspected. Its cause is followed by what makes it certain and, if
// there is one, by what else it may be. An error is certain, and becomes a warning.
func (f *Finding) Suspect(certain, otherwise string) {
	if otherwise != "" {
		otherwise = "otherwise " + otherwise
	}
	f.Confidence, f.Cause = Suspected, Clauses(f.Cause, "suspected, and certain "+certain, otherwise)
	if f.Severity.AtLeast(Error) {
		f.Severity = Warning
	}
}

// Default gives the finding the severity of its check where it has none of its own, also for when another
// look settles it.
func (f *Finding) Default(severity Severity) {
	if f.Severity != "" {
		return
	}
	f.Severity = severity
	if f.Settles != nil && f.Settles.again != nil {
		f.Settles.again.severity = severity
	}
	if f.Confidence == Suspected && severity.AtLeast(Error) {
		f.Severity = Warning
	}
}

// Until is when, and under which condition, the finding becomes certain.
func (s *Settles) Until() string {
	return fmt.Sprintf("at %s if %s", s.At.UTC().Format(time.RFC3339), s.If)
}

// UntilAgain makes the finding of a look at that time suspected until another look, so much
// later, finds it again: a single look cannot distinguish it from a state that passes.
func (f Finding) UntilAgain(at time.Time, after time.Duration, unless string) Finding {
	f.Settles = &Settles{At: metav1.NewTime(at.UTC().Add(after)), If: "another look then finds it again", again: &again{after, f.Severity, f.Cause}}
	f.Suspect(f.Settles.Until(), unless)
	return f
}

// UpstreamBug is a bug of Kubernetes that causes such findings and that the release in use has.
type UpstreamBug struct {
	// Issue is its GitHub issue.
	Issue string `json:"issue"`
	// Component is the program with the bug: kube-controller-manager, or the kubelet of the
	// finding's node.
	Component string `json:"component"`
	// FixedIn is the next release without it.
	FixedIn string `json:"fixedIn"`
}

// Stays reports whether the evidence proves that it does not end by itself.
func (f Finding) Stays() bool {
	return !f.SelfHeals.Will && !f.SelfHeals.Unknown && f.Confidence != Suspected
}

// Pair is the volume and node that the finding is about.
func (f Finding) Pair() reconcile.VolumeNode {
	return reconcile.VolumeNode{Volume: f.Volume, Node: f.Node}
}

// Evidence is one fact behind the finding.
type Evidence struct {
	// Object is "kind/name", with the namespace between them where it has one.
	Object string `json:"object"`
	Field  string `json:"field"`
	Value  string `json:"value"`
}

// SelfHeals is whether the finding ends by itself.
type SelfHeals struct {
	Will bool `json:"will"`
	// Unknown reports that the evidence does not show it: nothing that was read ends it, and
	// nothing proves that it stays.
	Unknown bool `json:"unknown,omitempty"`
	// After is the time until then from the snapshot, as Go writes durations; "" where no bound
	// is known.
	After string `json:"after"`
	// Because is the reason. Unless Will is set, its first clause has at most 10 words.
	Because string `json:"because"`
}

// Reason splits Because into its first clause and the others.
func (h SelfHeals) Reason() (first, more string) {
	first, more, _ = strings.Cut(h.Because, "; ")
	return first, more
}

// Repair is the correction that --apply would make.
type Repair struct {
	Kind string `json:"kind"`
	// Does is a sentence: what the repair writes to which object, what for, and whether it can be
	// undone.
	Does       string `json:"does"`
	Risk       string `json:"risk"`
	Reversible bool   `json:"reversible"`
	// BlockedBy is the guard that refuses the repair now, and why.
	BlockedBy string `json:"blockedBy"`
	// SafeOnce is what would make it safe, where a guard refuses it and no flag overrides that.
	SafeOnce string `json:"safeOnce,omitempty"`
	// SafeOnceTold marks that the advice says so already, with its commands.
	SafeOnceTold bool `json:"-"`
	// SafeOnceChanges marks that it changes something, so that the repair may be allowed afterwards.
	SafeOnceChanges bool `json:"-"`
	// SafeOnceHits are the pods that this hits.
	SafeOnceHits []Step `json:"-"`
	// Commands do the same by hand; there are none where a guard refuses it and no flag
	// overrides that.
	Commands []string `json:"commands"`
	// OnlyIf is what the user has to make sure of before giving the consent --allow.
	OnlyIf string `json:"onlyIf,omitempty"`
	// Needs are the flags with which the user gives the consent that the repair needs.
	Needs []string `json:"needs,omitempty"`
	// Apply is the complete command line that makes this repair; "" where there are no
	// Commands.
	Apply string `json:"apply,omitempty"`
	// ApplyAll is the command line that makes this repair and the same repairs of the findings
	// that follow from this one; "" without such findings.
	ApplyAll string `json:"applyAll,omitempty"`
	// Alike is how many repairs ApplyAll makes, and Others how many findings that share the cause
	// it does not repair.
	Alike, Others int `json:"-"`
	// OneWrite counts the findings with the same cause that this very write repairs; 0 where it is
	// the only one.
	OneWrite int `json:"-"`
	// Lower are the less risky kinds of repair that do not fit, and why.
	Lower []LowerRepair `json:"lower,omitempty"`
}

// Against is why the repair cannot be made now, without the guard's name; "" where nothing
// prevents it.
func (r *Repair) Against() string {
	if _, reason, named := strings.Cut(r.BlockedBy, ": "); named {
		return reason
	}
	return r.BlockedBy
}

// LowerRepair is a kind of repair that does not fit a finding.
type LowerRepair struct {
	Kind    string `json:"kind"`
	Because string `json:"because"`
}

// Fingerprint identifies the finding in every report on the same objects. A driver counts by
// its name alone: its CSIDriver may not exist, or may not have been read.
func Fingerprint(f Finding) string {
	uid := f.Subject.UID
	if f.Subject.Kind == "CSIDriver" {
		uid = ""
	}
	parts := []string{string(f.Code), f.Subject.String(), string(uid), string(f.Volume), string(f.Node)}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:8])
}

// Brief is the part of a finding that other documents repeat.
type Brief struct {
	Code     Code     `json:"code"`
	Check    string   `json:"check"`
	Severity Severity `json:"severity"`
	Message  string   `json:"message"`
	Detail   string   `json:"detail,omitempty"`
	Said     *Quote   `json:"said,omitempty"`
	Explain  string   `json:"explain"`
	// Whole is the finding itself, for text that says what to do about it.
	Whole Finding `json:"-"`
}

// Line is all that the finding says about what is wrong.
func (b Brief) Line() string {
	return Finding{Message: b.Message, Detail: b.Detail, Said: b.Said}.Line()
}

// Leading are the findings without those that follow from another of them, which names one of the
// pods, and all of them that the finding names.
func Leading(findings []Finding, pods ...string) []Finding {
	return slices.DeleteFunc(slices.Clone(findings), func(f Finding) bool {
		return f.CausedBy != "" && slices.ContainsFunc(findings, func(cause Finding) bool {
			return cause.Fingerprint == f.CausedBy && slices.ContainsFunc(pods, cause.Names) &&
				!slices.ContainsFunc(pods, func(pod string) bool { return f.Names(pod) && !cause.Names(pod) })
		})
	})
}

// Brief is the finding in short.
func (f Finding) Brief() Brief {
	return Brief{f.Code, f.Check, f.Severity, f.Message, f.Detail, f.Said, "kubectl volume-doctor explain " + string(f.Code), f}
}
