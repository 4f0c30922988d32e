package trace

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// VolumeUse is who uses a claim and its volume, where the volume is attached and mounted, and
// what keeps either object. Its JSON is a contract, like Report's.
type VolumeUse struct {
	finding.Head

	// Subject is the claim or the volume that was asked about.
	Subject finding.Object `json:"subject"`
	Verdict UseVerdict     `json:"verdict"`
	// Claim is the claim that has the volume, and PersistentVolume the volume that the claim is
	// bound to; nil where there is none, or it was not read.
	Claim            *UsedClaim  `json:"claim,omitempty"`
	PersistentVolume *UsedVolume `json:"persistentVolume,omitempty"`
	// Pods are all pods that name the claim.
	Pods []UsingPod `json:"pods"`
	// Nodes are the nodes that have the volume, attach or detach it, or still report it.
	Nodes []HavingNode `json:"nodes"`
	// Kept are the finalizers of the claim and of the volume.
	Kept []Keeper `json:"kept"`
	// NotKnown are the questions that could not be answered, because something was not read.
	NotKnown []NotKnown `json:"notKnown"`
	// Notes are further remarks.
	Notes []string `json:"notes,omitempty"`
	// Findings are the findings of the checks that concern the claim or the volume.
	Findings      []finding.Brief        `json:"findings"`
	SkippedChecks []finding.SkippedCheck `json:"skippedChecks"`
}

// UseVerdict is whether anything waits for the claim or its volume: a pod, or the deletion of
// the objects themselves.
type UseVerdict struct {
	State   finding.WaitState `json:"state"`
	Message string            `json:"message"`
	// Actor is who has to act next; "" where nothing waits.
	Actor string       `json:"actor,omitempty"`
	Since *metav1.Time `json:"since,omitempty"`
}

// UsedClaim is a claim.
type UsedClaim struct {
	Namespace        string       `json:"namespace"`
	Name             string       `json:"name"`
	Phase            string       `json:"phase"`
	CreatedAt        metav1.Time  `json:"createdAt"`
	TerminatingSince *metav1.Time `json:"terminatingSince,omitempty"`
	StorageClass     string       `json:"storageClass,omitempty"`
	AccessModes      []string     `json:"accessModes,omitempty"`
	VolumeMode       string       `json:"volumeMode"`
	Requested        string       `json:"requested,omitempty"`
	Capacity         string       `json:"capacity,omitempty"`
	// VolumeName is the volume that the claim names.
	VolumeName string `json:"volumeName,omitempty"`
	// Binding is the stage that keeps the claim from its volume; nil where both name each
	// other.
	Binding *Stage `json:"binding,omitempty"`
}

// UsedVolume is a PersistentVolume.
type UsedVolume struct {
	Name             string                  `json:"name"`
	Phase            string                  `json:"phase"`
	CreatedAt        metav1.Time             `json:"createdAt"`
	TerminatingSince *metav1.Time            `json:"terminatingSince,omitempty"`
	StorageClass     string                  `json:"storageClass,omitempty"`
	AccessModes      []string                `json:"accessModes,omitempty"`
	VolumeMode       string                  `json:"volumeMode"`
	Capacity         string                  `json:"capacity,omitempty"`
	ReclaimPolicy    string                  `json:"reclaimPolicy,omitempty"`
	Driver           string                  `json:"driver,omitempty"`
	Handle           string                  `json:"handle,omitempty"`
	Volume           corev1.UniqueVolumeName `json:"volume,omitempty"`
	// Claim is the claim that the claimRef names, as namespace/name.
	Claim string `json:"claim,omitempty"`
	// Attachable is whether the controller attaches it before a pod can have it.
	Attachable Answer `json:"attachable"`
}

// Answer is yes, no, or unknown where the objects do not show it.
type Answer string

// The answers.
const (
	Yes     Answer = "yes"
	No      Answer = "no"
	Unknown Answer = "unknown"
)

// PodState is the state of a pod that names a claim.
type PodState string

// The states of a pod that names a claim.
const (
	PodRuns     PodState = "running"
	PodWaits    PodState = "waiting"  // for this volume
	PodStarting PodState = "starting" // and does not wait for this volume
	PodEnding   PodState = "terminating"
	PodEnded    PodState = "completed" // its object is still there
	PodUnheard  PodState = "unknown"   // its node is silent, or was not read, and its status may be old
)

// UsingPod is a pod that names the claim.
type UsingPod struct {
	Pod   string         `json:"pod"`
	Node  types.NodeName `json:"node,omitempty"`
	State PodState       `json:"state"`
	// Since is when the state began, where the objects show it.
	Since *metav1.Time `json:"since,omitempty"`
	// Volume is the pod's name for the volume.
	Volume       string       `json:"volume"`
	Mounted      Answer       `json:"mounted"`
	MountedSince *metav1.Time `json:"mountedSince,omitempty"`
	// Wait, Stage, Actor and Message come from the pod's trace where it waits for this volume.
	Wait    finding.WaitState `json:"wait,omitempty"`
	Stage   StageName         `json:"stage,omitempty"`
	Actor   string            `json:"actor,omitempty"`
	Message string            `json:"message,omitempty"`
}

// AttachState is the state of the volume on a node.
type AttachState string

// The states of a volume with a node.
const (
	NodeHas       AttachState = "attached"
	NodeAttaching AttachState = "attaching"
	NodeDetaching AttachState = "detaching"
	// NodeReports is a node whose status lists the volume, where no VolumeAttachment of it was read.
	NodeReports AttachState = "reported"
)

// HavingNode is a node with the volume.
type HavingNode struct {
	Node  types.NodeName `json:"node"`
	State AttachState    `json:"state"`
	// Ready is the node's Ready condition; "gone" where there is no such node.
	Ready            string `json:"ready,omitempty"`
	VolumeAttachment string `json:"volumeAttachment,omitempty"`
	// Since is when it was attached, or else when the VolumeAttachment was created or its
	// deletion was asked for.
	Since *metav1.Time `json:"since,omitempty"`
	// InVolumesAttached and InVolumesInUse are whether those lists of the node's status have
	// it.
	InVolumesAttached Answer `json:"inVolumesAttached"`
	InVolumesInUse    Answer `json:"inVolumesInUse"`
	Said              []Said `json:"said,omitempty"`
}

// Keeper is a finalizer: its object stays until somebody removes it.
type Keeper struct {
	Object    finding.Object `json:"object"`
	Finalizer string         `json:"finalizer"`
	// Holds is whether something needs the finalizer now.
	Holds Answer `json:"holds"`
	// By needs it, or removes it.
	By string `json:"by"`
}

// NotKnown is a question that the objects do not answer, and the kind that was not read.
type NotKnown struct {
	What    string        `json:"what"`
	Because snapshot.Kind `json:"because"`
}

// Document is a *Trace or a *VolumeUse.
type Document interface {
	// Found reports, for the exit code, whether there is no answer, and whether something waits or is
	// wrong. There is none where it is not known whether anything waits, and, unless the user allows gaps,
	// where nothing is wrong in what could be read and something could not.
	Found(allowGaps bool) (unknown, wrong bool)
}

// mostSameDisk is the largest number of other volumes of one disk that are named.
const mostSameDisk = 3

// Found is the method of Document.
func (t *Trace) Found(allowGaps bool) (unknown, wrong bool) {
	return found(t.Verdict.State, t.Findings, t.Complete || allowGaps)
}

// Found is the method of Document.
func (u *VolumeUse) Found(allowGaps bool) (unknown, wrong bool) {
	return found(u.Verdict.State, u.Findings, u.Complete || allowGaps)
}

func found(state finding.WaitState, findings []finding.Brief, isWhole bool) (unknown, wrong bool) {
	wrong = state == finding.InFlight || state == finding.Stuck ||
		slices.ContainsFunc(findings, func(f finding.Brief) bool { return f.Severity.AtLeast(finding.Warning) })
	return state == finding.Unsure || !wrong && !isWhole, wrong
}

// useTracer makes one VolumeUse.
type useTracer struct {
	*tracer
	*VolumeUse
	report *finding.Report
	claim  *corev1.PersistentVolumeClaim
	pv     *corev1.PersistentVolume
	// key is the claim that pods name to get the volume; zero where there is none.
	key types.NamespacedName
	vas []*storagev1.VolumeAttachment
}

// OfClaim is who uses the claim and its volume. The claim must be in the view's snapshot; the
// report is of the checks on the view.
func OfClaim(view *facts.View, report *finding.Report, claim *corev1.PersistentVolumeClaim) *VolumeUse {
	u := newUseTracer(view, report)
	u.claim, u.key = claim, types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
	u.Subject = facts.ClaimObject(claim)
	if claim.Spec.VolumeName != "" {
		u.pv = view.Snapshot.Volume(claim.Spec.VolumeName)
	}
	return u.use()
}

// OfVolume is who uses the volume, which must be in the view's snapshot.
func OfVolume(view *facts.View, report *finding.Report, pv *corev1.PersistentVolume) *VolumeUse {
	u := newUseTracer(view, report)
	u.pv = pv
	u.Subject = facts.PvObject(pv)
	if ref := pv.Spec.ClaimRef; ref != nil {
		u.key = types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
		if claim := view.Snapshot.Claim(u.key); claim != nil && (ref.UID == "" || claim.UID == ref.UID) {
			u.claim = claim
		}
	}
	return u.use()
}

func newUseTracer(view *facts.View, report *finding.Report) *useTracer {
	return &useTracer{report: report, VolumeUse: &VolumeUse{
		Head: finding.HeadOf("VolumeUse", view.Snapshot), Pods: []UsingPod{}, Nodes: []HavingNode{}, Kept: []Keeper{}, NotKnown: []NotKnown{}, Findings: []finding.Brief{},
		SkippedChecks: report.SkippedChecks,
	}, tracer: newTracer(view, &corev1.Pod{}, nil)}
}

func (u *useTracer) use() *VolumeUse {
	u.pod.Namespace = u.key.Namespace // the tracer looks for claims there
	if u.pv != nil {
		u.addVolume()
	}
	if u.claim != nil {
		u.addClaim()
	}
	u.addPods()
	u.addNodes()
	u.addKept()
	u.addNotKnown()
	u.addNotes()
	about := slices.DeleteFunc(slices.Clone(u.report.Findings), func(f finding.Finding) bool { return !u.concerns(f) })
	var pods []string
	for _, p := range u.Pods {
		pods = append(pods, p.Pod)
	}
	for _, f := range finding.Leading(about, pods...) {
		u.Findings = append(u.Findings, f.Brief())
	}
	u.Verdict = u.judge()
	open := slices.ContainsFunc(u.Pods, func(p UsingPod) bool { return p.State != PodRuns && p.State != PodEnded })
	kind := u.unreadOf()
	if u.claim == nil && u.pv != nil && u.pv.Spec.ClaimRef != nil && !u.knows(snapshot.Claims, u.pv.Spec.ClaimRef.Namespace) && u.Verdict.State != finding.NoWait {
		open, kind = true, snapshot.Claims // who waits may wait for another claim's volume
		u.Verdict.State = finding.NoWait
	}
	if u.Verdict.State == finding.NoWait && open && kind != "" {
		u.Verdict = UseVerdict{State: finding.Unsure, Message: fmt.Sprintf("Whether anything waits for %s is not known: not all %s could be read", u.name(), kind)}
	}
	return u.VolumeUse
}

// addNotKnown adds the questions that a gap leaves open.
func (u *useTracer) addNotKnown() {
	open := func(what string, kind snapshot.Kind, namespace string) {
		if !u.knows(kind, namespace) {
			u.NotKnown = append(u.NotKnown, NotKnown{what, kind})
		}
	}
	if u.key.Name != "" {
		open("which other pods name the claim", snapshot.Pods, u.key.Namespace)
		if u.claim == nil {
			open("its claim, and which pods use it", snapshot.Claims, u.key.Namespace)
		}
	}
	if u.pv == nil && u.claim.Spec.VolumeName != "" {
		open("the volume", snapshot.Volumes, "")
	}
	if u.pv == nil {
		return
	}
	if name := u.PersistentVolume.Volume; u.PersistentVolume.Attachable == Unknown && len(u.vas)+len(u.ListedOn(name))+len(u.InUseOn(name)) == 0 {
		open("whether it has to be attached", snapshot.CSIDrivers, "")
	}
	if u.PersistentVolume.Attachable != No {
		open("on which other nodes it is attached", snapshot.VolumeAttachments, "")
		open("which other nodes report it", snapshot.Nodes, "")
	}
}

// addNotes adds an expansion that has not ended, the claim's conditions, and other volumes of
// the same disk.
func (u *useTracer) addNotes() {
	note := func(format string, args ...any) { u.Notes = append(u.Notes, fmt.Sprintf(format, args...)) }
	if c := u.claim; c != nil {
		asked, has := c.Spec.Resources.Requests[corev1.ResourceStorage], c.Status.Capacity[corev1.ResourceStorage]
		if c.Status.Phase == corev1.ClaimBound && !has.IsZero() && asked.Cmp(has) > 0 {
			note("the claim asks for %s and has %s: it is being expanded, or cannot be", asked.String(), has.String())
		}
		for _, condition := range c.Status.Conditions {
			if condition.Status == corev1.ConditionTrue {
				note("%s", strings.TrimSuffix(fmt.Sprintf("the claim's condition %s since %s: %s", condition.Type, facts.Stamp(condition.LastTransitionTime), condition.Message), ": "))
			}
		}
		wanted, current := ptr.Deref(c.Spec.VolumeAttributesClassName, ""), ptr.Deref(c.Status.CurrentVolumeAttributesClassName, "")
		if c.Status.Phase == corev1.ClaimBound && wanted != "" && wanted != current {
			note("the claim asks for the volumeAttributesClass %s, which the volume does not have yet", wanted)
		}
	}
	if u.pv == nil {
		return
	}
	same := slices.DeleteFunc(slices.Clone(u.VolumesOfDisk(u.DiskName(u.pv))), func(pv *corev1.PersistentVolume) bool { return pv == u.pv })
	for i, other := range same {
		if i == mostSameDisk && len(same) > mostSameDisk+1 {
			note("%d more volumes are the same disk", len(same)-i)
			break
		}
		note("volume %s has the same driver and handle: it is the same disk", other.Name)
	}
	if u.pv.Status.Message != "" {
		note("the volume's status: %s", u.pv.Status.Message)
	}
	if ref := u.pv.Spec.ClaimRef; u.claim == nil && ref != nil && u.knows(snapshot.Claims, ref.Namespace) {
		if other := u.Snapshot.Claim(u.key); other != nil {
			note("the claim of that name today is another one: its UID is %s, and the volume's claimRef has %s", other.UID, ref.UID)
		}
	}
}
