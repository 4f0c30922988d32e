// Package finding holds findings and the reports that they stand in: their order,
// merging, suppression, comparison and history.
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

// Report is what every output format prints. Its JSON is a contract: fields
// are added, never changed.
type Report struct {
	APIVersion        string          `json:"apiVersion"`
	Kind              string          `json:"kind"`
	TakenAt           metav1.Time     `json:"takenAt"`
	KubernetesVersion string          `json:"kubernetesVersion,omitempty"`
	Source            snapshot.Source `json:"source"`
	// Sources are the clusters of a report on several, in place of Source.
	Sources []snapshot.Source `json:"sources,omitempty"`
	// SameContexts are the contexts that were not examined because another one, which
	// was, has the same server and user: they are its values.
	SameContexts map[string]string `json:"sameContexts,omitempty"`
	// Complete says that everything was read: there are no gaps.
	Complete      bool           `json:"complete"`
	Gaps          []snapshot.Gap `json:"gaps"`
	SkippedChecks []SkippedCheck `json:"skippedChecks"`
	// Checks are the codes of the checks that ran, in their order.
	Checks  []Code  `json:"checks"`
	Summary Summary `json:"summary"`
	// Suppressed counts the findings that somebody has decided to live with, and
	// Known those that the baseline has already. Neither are among Findings.
	Suppressed int `json:"suppressed,omitempty"`
	// SuppressedBy is the file of those decisions, with the first day on which one ends.
	SuppressedBy string `json:"-"`
	Known        int    `json:"known,omitempty"`
	// Findings are sorted: errors first, then what most follows from, then by code
	// and subject. What follows from another stands behind it, and lends it its
	// severity.
	Findings []Finding `json:"findings"`
	// Waiting has each pod that waits for a volume, or whose end waits for one;
	// the stuck ones first, then by name.
	Waiting []Waiting `json:"waiting"`
	// OmittedCauses are what the CausedBy of a narrowed report names beyond it.
	OmittedCauses []OmittedCause `json:"omittedCauses,omitempty"`
	// Volumes are what the objects say of the volumes that findings are about;
	// sorted.
	Volumes []VolumeRecord `json:"volumes"`
	// Cluster is what was examined; nil in a report on several.
	Cluster *Cluster `json:"cluster,omitempty"`
	// Scope is how much of it was.
	Scope Scope `json:"scope"`
	// Answers are about the pods that were asked about by name.
	Answers []Answer `json:"answers,omitempty"`
	// SavedIn is the file that a saved report was read from: nobody knows who wrote it,
	// and what it says is told as its word. "" for a report that was made now.
	SavedIn string `json:"-"`
}

// Answer says whether a pod waits for a volume, and else what it does.
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
	// Objects are how many of each kind were read.
	Objects map[snapshot.Kind]int `json:"objects,omitempty"`
	// Checks are how many ran.
	Checks int `json:"checks"`
	// Of is what the report is about, such as "namespace shop"; "" is the whole cluster.
	// What was read as evidence is the whole cluster all the same.
	Of string `json:"of,omitempty"`
}

// OmittedCause is a finding that another one follows from and that nobody asked
// for.
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
	// Because is the first kind that it needs and that was not read.
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

// String is the object as kubectl takes it, with its namespace before it.
func (o Object) String() string {
	name := strings.ToLower(o.Kind) + "/" + o.Name
	if o.Namespace != "" {
		return o.Namespace + " " + name
	}
	return name
}

// Finding is one failure, with all that a person needs to act on it. Fields
// that do not apply are empty.
type Finding struct {
	Code     Code     `json:"code"`
	Check    string   `json:"check"`
	Severity Severity `json:"severity"`
	// KnownFrom is how the meaning of the words is known that the finding rests on; nil
	// for one that rests on objects alone.
	KnownFrom *KnownFrom `json:"knownFrom,omitempty"`
	// Confidence is Suspected where a pod is stuck and the evidence for this cause
	// is still young; "" is certain.
	Confidence Confidence `json:"confidence,omitempty"`
	// Settles says what makes a suspected finding certain; nil for a certain one.
	Settles *Settles `json:"settles,omitempty"`
	// Follow is how long the VolumeAttachments have to be followed for what the finding,
	// or its repair, still lacks; 0 where looks at the objects tell.
	Follow time.Duration `json:"-"`
	// Context is the cluster, in a report on several.
	Context string `json:"context,omitempty"`
	// Message is the headline: one sentence of at most MostWords words that says who, what
	// and which.
	Message string `json:"message"`
	// Detail is what else there is to say of it, in clauses: since when, which others, in
	// what numbers.
	Detail string `json:"detail,omitempty"`
	// Said is what a driver, a kubelet or a controller said of it; nil where nobody did.
	Said *Quote `json:"said,omitempty"`
	// Headline says what is wrong with what the finding shares with others of the
	// same cause, such as their node. It stands in place of Message where a report
	// folds several of them into one entry; "" where the finding shares its cause
	// with no other.
	Headline string `json:"headline,omitempty"`
	// Cause says how it came about, as far as the objects show.
	Cause string `json:"cause,omitempty"`
	// UpstreamBug is the bug of Kubernetes behind it where the release has one.
	UpstreamBug *UpstreamBug `json:"upstreamBug,omitempty"`
	Subject     Object       `json:"subject"`

	Volume corev1.UniqueVolumeName `json:"volume,omitempty"`
	Node   types.NodeName          `json:"node,omitempty"`
	// Holder is another node that has the volume and keeps it from Node.
	Holder           types.NodeName `json:"holder,omitempty"`
	PersistentVolume string         `json:"persistentVolume,omitempty"`
	VolumeAttachment string         `json:"volumeAttachment,omitempty"`
	// Pods are the pods that wait or would suffer, as namespace/name; sorted.
	Pods []string `json:"pods,omitempty"`
	// Workloads made the pods, as namespace/Kind/name; sorted.
	Workloads []string `json:"workloads,omitempty"`
	// Claims lead the pods to the volume, as namespace/name; sorted.
	Claims []string `json:"claims,omitempty"`

	// Actor is who has to act, as the text says it too; "" where it names nobody. A pod
	// that waits because of the finding waits for the same one.
	Actor string `json:"-"`

	// Since is when it began, or the earliest moment that the objects prove.
	Since     *metav1.Time `json:"since,omitempty"`
	Evidence  []Evidence   `json:"evidence"`
	SelfHeals SelfHeals    `json:"selfHeals"`
	// Advice is what a person does about it, and no Repair does. A check names in it what is
	// deleted, restarted or waited for by marks of package step; in a report it is the
	// sentences of Do.
	Advice string `json:"advice,omitempty"`
	// ByHand is what a person does where no repair is proposed: the same as a repair
	// would. Package repair adds it to Advice, or drops it where a guard refuses.
	ByHand string `json:"-"`
	// Do are the actions of the advice.
	Do []Action `json:"-"`
	// Never is what makes it worse, although it is often tried or advised.
	Never string `json:"never,omitempty"`
	// AdviceCommands are command lines that the advice speaks of, of
	// safetext.Kubectl; the advice itself has none. Each stands on its own line.
	AdviceCommands []string `json:"adviceCommands,omitempty"`
	// Withheld are how many commands and sentences were taken out of what a saved finding
	// says to do.
	Withheld int `json:"-"`
	// Unaimed reports whether flags that say on which cluster, or as whom, were taken out
	// of the commands of a saved finding.
	Unaimed bool `json:"-"`
	// Steps are what the advice deletes or restarts, each with the pods that it hits.
	Steps []Step `json:"steps,omitempty"`
	// ControllerAlone says that the objects do not show it yet, and only what the
	// controller tells does, in its log or its metrics: nothing is repaired on that.
	ControllerAlone bool `json:"-"`
	// Actions are what to do about it, in their order: ActionsOf. What a saved report has is
	// not believed, but made again.
	Actions []Action `json:"actions,omitempty"`
	// Repair is null where nothing that this tool writes can help.
	Repair *Repair `json:"repair"`
	// Fingerprint names the finding across runs: it is made of the code, the
	// subject with its UID, the volume and the node.
	Fingerprint string `json:"fingerprint"`
	// CausedBy is the fingerprint of the nearest finding that this one follows
	// from; where one cause shows in many findings and has none of its own, that
	// is the one which stands for it.
	CausedBy string `json:"causedBy,omitempty"`
	// Consequences counts the findings of the report that follow from this one,
	// directly or not.
	Consequences int `json:"consequences,omitempty"`
}

// MostWords is how many words a headline has at most, what it counts included: a person
// takes that in at a glance, and it stands on two lines of a terminal.
const MostWords = 16

// Text is the headline and the detail.
func (f Finding) Text() string { return Clauses(f.Message, f.Detail) }

// Line is all that the finding tells of what is wrong: the headline, the detail and what was
// said.
func (f Finding) Line() string {
	if f.Said == nil {
		return f.Text()
	}
	return fmt.Sprintf("%s: %q", f.Text(), f.Said.Text)
}

// Clauses joins those that say something.
func Clauses(list ...string) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == "" }), "; ")
}

// Quote is what somebody said, in their own words.
type Quote struct {
	Text string `json:"text"`
	// By is who said it, such as the driver or the kubelet of a node.
	By string `json:"by,omitempty"`
	// At is when it was said last, and Count how often, as far as that is known.
	At    *metav1.Time `json:"at,omitempty"`
	Count int          `json:"count,omitempty"`
}

// KnownFrom is how it is known what an error message means.
type KnownFrom struct {
	// Layer read it: the driver's own words, a tool's words or number, another driver's
	// words, plain English words, or a code alone.
	Layer string `json:"layer"`
	// Entry are the words, or the number, that were read.
	Entry string `json:"entry"`
	// Meaning is the class of the error.
	Meaning string `json:"meaning"`
	// LookUps are what the objects say of what the message names.
	LookUps []string `json:"lookUps,omitempty"`
}

// Step is a part of an advice that deletes or restarts something.
type Step struct {
	Kind step.Kind `json:"kind"`
	// Object is what is deleted or restarted, such as "node/n1"; "" where the advice
	// leaves that open.
	Object string `json:"object,omitempty"`
	// Hits is how many pods the step hits; null where that is not known. A node and
	// what runs on it for all of its pods also hit those without volumes, which are not
	// read.
	Hits *int `json:"hits"`
	// Pods are the pods that it hits, as namespace/name; sorted.
	Pods []string `json:"pods,omitempty"`
	// Says is the sentence about it.
	Says string `json:"says"`
	// Told marks a step that says no more than the sentence of its action.
	Told bool `json:"-"`
}

// ControllerLog is the Object of Evidence that the controller's log gives.
const ControllerLog = "kube-controller-manager's log"

// Confidence is how sure a finding is of its cause.
type Confidence string

// Suspected is a cause that fits all that is known, before the time has passed in
// which the same objects are also seen where nothing is wrong.
const Suspected Confidence = "suspected"

// Settles is what makes a suspected finding certain.
type Settles struct {
	// At is when.
	At metav1.Time `json:"at"`
	// If is what has to be true until then.
	If string `json:"if"`
	// again is what the finding is once a look has found it again so much later; nil where
	// that settles nothing.
	again *again
}

type again struct {
	after    time.Duration
	severity Severity
	cause    string
}

// UntilAgain is the finding of a look at that time, suspected until another one, so much
// later, finds it again: one look cannot tell it from something else that passes.
func (f Finding) UntilAgain(at time.Time, after time.Duration, unless string) Finding {
	f.Confidence, f.Settles = Suspected, &Settles{At: metav1.NewTime(at.UTC().Add(after)), If: "another look then finds it again", again: &again{after, f.Severity, f.Cause}}
	f.Cause = fmt.Sprintf("suspected, and certain at %s if %s: %s. Or %s", f.Settles.At.UTC().Format(time.RFC3339), f.Settles.If, f.Cause, unless)
	if f.Severity.AtLeast(Error) {
		f.Severity = Warning // an error is certain
	}
	return f
}

// UpstreamBug is a bug of Kubernetes that brings such findings about and that
// the release at work has.
type UpstreamBug struct {
	// Issue is where it was reported.
	Issue string `json:"issue"`
	// Component has it: kube-controller-manager, or the kubelet of the finding's node.
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

// Evidence is one fact that the finding rests on.
type Evidence struct {
	// Object is "kind/name", with the namespace between them where it has one.
	Object string `json:"object"`
	Field  string `json:"field"`
	Value  string `json:"value"`
}

// SelfHeals says whether the finding goes away by itself.
type SelfHeals struct {
	Will bool `json:"will"`
	// Unknown reports that the evidence does not tell: nothing that was read ends it, and
	// nothing proves that it stays.
	Unknown bool `json:"unknown,omitempty"`
	// After is the time from the snapshot, as Go writes durations; "" where no
	// bound is known.
	After   string `json:"after"`
	Because string `json:"because"`
}

// Repair is the correction that --apply would make.
type Repair struct {
	Kind string `json:"kind"`
	// Does is a sentence: what it writes, to what, what that is for, and whether it can
	// be undone.
	Does       string `json:"does"`
	Risk       string `json:"risk"`
	Reversible bool   `json:"reversible"`
	// BlockedBy is the guard that refuses the repair now, and why.
	BlockedBy string `json:"blockedBy"`
	// SafeOnce is what would make it safe, where a guard refuses it and no flag lifts
	// that.
	SafeOnce string `json:"safeOnce,omitempty"`
	// SafeOnceTold marks that the advice says so already, with its commands.
	SafeOnceTold bool `json:"-"`
	// SafeOnceHits are the pods that this hits.
	SafeOnceHits []Step `json:"-"`
	// Commands do the same by hand; there are none where a guard refuses what no
	// flag lifts.
	Commands []string `json:"commands"`
	// Needs are the flags in which the user gives the word that the repair asks for.
	Needs []string `json:"needs,omitempty"`
	// Apply is the complete command line that makes this repair; "" where there are
	// no Commands either.
	Apply string `json:"apply,omitempty"`
	// ApplyAll is the command line that makes this repair and the same repairs of the
	// findings that follow from this one; "" where there are none.
	ApplyAll string `json:"applyAll,omitempty"`
	// Lower are the less risky kinds of repair that were passed over, and why.
	Lower []LowerRepair `json:"lower,omitempty"`
}

// Against says what stands against making the repair now, without the name of the
// guard that says it; "" where nothing does.
func (r *Repair) Against() string {
	if _, reason, named := strings.Cut(r.BlockedBy, ": "); named {
		return reason
	}
	return r.BlockedBy
}

// LowerRepair is a kind of repair that will not do for a finding.
type LowerRepair struct {
	Kind    string `json:"kind"`
	Because string `json:"because"`
}

// Fingerprint identifies the finding in every report on the same objects. A driver is known
// by its name alone: its CSIDriver may not exist, or not be among what was read.
func Fingerprint(f Finding) string {
	uid := f.Subject.UID
	if f.Subject.Kind == "CSIDriver" {
		uid = ""
	}
	parts := []string{string(f.Code), f.Subject.String(), string(uid), string(f.Volume), string(f.Node)}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:8])
}

// Brief is what other reports repeat of a finding.
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

// Line is all that the cause tells of what is wrong.
func (b Brief) Line() string {
	return Finding{Message: b.Message, Detail: b.Detail, Said: b.Said}.Line()
}

// Brief is the finding in short.
func (f Finding) Brief() Brief {
	return Brief{f.Code, f.Check, f.Severity, f.Message, f.Detail, f.Said, "kubectl volume-doctor explain " + string(f.Code), f}
}
