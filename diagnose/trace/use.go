package trace

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// VolumeUse is who uses a claim and its volume, where the volume is attached and mounted, and
// what keeps either object. Its JSON is a contract, like Report's.
type VolumeUse struct {
	APIVersion        string          `json:"apiVersion"`
	Kind              string          `json:"kind"`
	TakenAt           metav1.Time     `json:"takenAt"`
	KubernetesVersion string          `json:"kubernetesVersion,omitempty"`
	Source            snapshot.Source `json:"source"`
	Complete          bool            `json:"complete"`
	Gaps              []snapshot.Gap  `json:"gaps"`

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

// PodState is what a pod that names a claim is doing.
type PodState string

// The states of a pod that names a claim.
const (
	PodRuns     PodState = "running"
	PodWaits    PodState = "waiting"  // for this volume
	PodStarting PodState = "starting" // and does not wait for this volume
	PodEnding   PodState = "terminating"
	PodEnded    PodState = "completed" // its object is still there
	PodUnheard  PodState = "unknown"   // its node is silent, and its status is as old as that
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
	// By is what needs it, or who removes it.
	By string `json:"by"`
}

// NotKnown is a question that the objects do not answer, and the kind that was not read.
type NotKnown struct {
	What    string        `json:"what"`
	Because snapshot.Kind `json:"because"`
}

// Document is a *Trace or a *VolumeUse.
type Document interface {
	// Found reports, for the exit code, whether there is no answer, and whether something waits
	// or is wrong.
	Found() (unknown, wrong bool)
}

// mostSameDisk is the largest number of other volumes of one disk that are named.
const mostSameDisk = 3

// Found reports unknown where it is not known whether the pod waits for a volume, and wrong
// unless the pod is known to wait for none and no check warns.
func (t *Trace) Found() (unknown, wrong bool) {
	return t.Verdict.State == finding.Unsure, t.Verdict.State != finding.NoWait || somethingWrong(t.Findings)
}

func somethingWrong(findings []finding.Brief) bool {
	return slices.ContainsFunc(findings, func(f finding.Brief) bool { return f.Severity.AtLeast(finding.Warning) })
}

// Found reports unknown where nothing is known to wait and not everything that matters was
// read, and wrong where something waits or a check warns.
func (u *VolumeUse) Found() (unknown, wrong bool) {
	wrong = u.Verdict.State == finding.InFlight || u.Verdict.State == finding.Stuck || somethingWrong(u.Findings)
	return u.Verdict.State == finding.Unsure, wrong
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
	u.Subject = finding.Object{Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
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
	s := view.Snapshot
	return &useTracer{report: report, VolumeUse: &VolumeUse{
		APIVersion: finding.APIVersion, Kind: "VolumeUse", TakenAt: metav1.NewTime(s.TakenAt.UTC()), KubernetesVersion: s.Source.ServerVersion,
		Source: s.Source, Complete: len(s.Gaps) == 0, Gaps: append([]snapshot.Gap{}, s.Gaps...),
		Pods: []UsingPod{}, Nodes: []HavingNode{}, Kept: []Keeper{}, NotKnown: []NotKnown{}, Findings: []finding.Brief{},
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
	for _, f := range u.report.Findings {
		if u.concerns(f) {
			u.Findings = append(u.Findings, f.Brief())
		}
	}
	u.Verdict = u.judge()
	open := slices.ContainsFunc(u.Pods, func(p UsingPod) bool { return p.State == PodStarting || p.State == PodEnding || p.State == PodWaits })
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

func (u *useTracer) addClaim() {
	claim := u.claim
	u.Claim = &UsedClaim{
		Namespace: claim.Namespace, Name: claim.Name, Phase: string(claim.Status.Phase), CreatedAt: claim.CreationTimestamp,
		TerminatingSince: claim.DeletionTimestamp, StorageClass: u.Unbound(claim).Class, AccessModes: modes(claim.Spec.AccessModes),
		VolumeMode: modeOf(claim.Spec.VolumeMode), Requested: size(claim.Spec.Resources.Requests), Capacity: size(claim.Status.Capacity),
		VolumeName: claim.Spec.VolumeName,
	}
	v := &tracedVolume{VolumeTrace: &VolumeTrace{Claim: claim.Name}, source: &corev1.Volume{VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name}}}}
	if s := u.bound(v); s.State != StageDone {
		u.Claim.Binding = &s
	}
}

func (u *useTracer) addVolume() {
	pv := u.pv
	u.PersistentVolume = &UsedVolume{
		Name: pv.Name, Phase: string(pv.Status.Phase), CreatedAt: pv.CreationTimestamp, TerminatingSince: pv.DeletionTimestamp,
		StorageClass: pv.Spec.StorageClassName, AccessModes: modes(pv.Spec.AccessModes), VolumeMode: modeOf(pv.Spec.VolumeMode),
		Capacity: size(pv.Spec.Capacity), ReclaimPolicy: string(pv.Spec.PersistentVolumeReclaimPolicy), Attachable: Yes,
	}
	v := u.PersistentVolume
	if pv.Spec.ClaimRef != nil {
		v.Claim = u.key.String()
		if ref := pv.Spec.ClaimRef; u.Subject.Kind == "PersistentVolumeClaim" {
			v.Claim = ref.Namespace + "/" + ref.Name
		}
	}
	name, err := u.World.VolumeName(pv)
	v.Volume = name
	if pv.Spec.CSI != nil {
		v.Driver, v.Handle = pv.Spec.CSI.Driver, pv.Spec.CSI.VolumeHandle
	} else if driver, handle, ok := reconcile.ParseCSI(name); ok {
		v.Driver, v.Handle = driver, handle // an in-tree volume that has moved to CSI
	}
	u.vas = slices.Clone(u.AttachmentsNaming(pv.Name))
	add := func(va *storagev1.VolumeAttachment) {
		if !slices.Contains(u.vas, va) {
			u.vas = append(u.vas, va)
		}
	}
	for _, other := range u.VolumesOfDisk(u.DiskName(pv)) { // the same disk under another name
		for _, va := range u.AttachmentsNaming(other.Name) {
			add(va)
		}
	}
	if name != "" {
		for _, a := range u.AttachmentsOf(name) { // also of a volume that is defined in a pod
			add(a.VolumeAttachment)
		}
	}
	switch {
	case err != nil:
		v.Attachable = No
	case v.Driver != "" && !u.Snapshot.KnowsDriver(v.Driver):
		v.Attachable = Unknown
	}
}

func modes(list []corev1.PersistentVolumeAccessMode) []string {
	var names []string
	for _, mode := range list {
		names = append(names, string(mode))
	}
	return names
}

func modeOf(mode *corev1.PersistentVolumeMode) string {
	return string(ptr.Deref(mode, corev1.PersistentVolumeFilesystem))
}

// size is the storage of the list; "" where it has none.
func size(list corev1.ResourceList) string {
	if q, ok := list[corev1.ResourceStorage]; ok {
		return q.String()
	}
	return ""
}

// addPods adds the pods that name the claim. Where the volume's claim is gone, those count that
// are older than a new claim of that name.
func (u *useTracer) addPods() {
	if u.key.Name == "" {
		return
	}
	other := u.Snapshot.Claim(u.key)
	if u.claim == nil && other == nil && !u.knows(snapshot.Claims, u.key.Namespace) {
		return // the claim of that name may be a later one, with another volume
	}
	for _, pod := range u.Snapshot.Pods {
		if pod.Namespace != u.key.Namespace || u.claim == nil && other != nil && !pod.CreationTimestamp.Before(&other.CreationTimestamp) {
			continue
		}
		if i := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
			return reconcile.ClaimName(pod, &v) == u.key.Name && (v.Ephemeral == nil || u.claim == nil || metav1.IsControlledBy(u.claim, pod))
		}); i >= 0 {
			u.Pods = append(u.Pods, u.usingPod(pod))
		}
	}
}

// usingPod is what the pod does with the claim, from the pod's trace.
func (u *useTracer) usingPod(pod *corev1.Pod) UsingPod {
	t := OfPod(u.View, pod, nil)
	t.AddFindings(u.report)
	i := slices.IndexFunc(t.Volumes, func(v VolumeTrace) bool { return v.Claim == u.key.Name && v.Referenced })
	if i < 0 {
		i = slices.IndexFunc(t.Volumes, func(v VolumeTrace) bool { return v.Claim == u.key.Name })
	}
	v := t.Volumes[i]
	p := UsingPod{Pod: facts.PodName(pod), Node: t.Node, Volume: v.Name, Mounted: Unknown}
	mounted, unmounted := v.stage(StageMounted), v.stage(StageUnmounted)
	switch {
	case !v.Referenced || t.Node == "":
		p.Mounted = No
	case mounted.State == StageDone:
		p.Mounted, p.MountedSince = Yes, mounted.Since
	case mounted.State == StageWaiting || mounted.State == StageBlocked || unmounted.State == StageDone || unmounted.State == StageNotNeeded:
		p.Mounted = No
	case t.Direction == Down && v.stage(StageStopped).State != StageDone && facts.Mounted(pod):
		p.Mounted = Yes // its containers run
	}
	if p.Mounted == No && mounted.Stage != "" && mounted.State != StageNotNeeded && t.Node != "" && u.unreadOf() != "" {
		p.Mounted = Unknown // an object that was not read may show that it is
	}
	waits := (v.Name == t.Verdict.Volume || slices.Contains(t.Verdict.Volumes, v.Name)) && t.Verdict.State != finding.NoWait
	own := v.stage(v.Broken)
	if t.Verdict.waits() && !waits && (own.State == StageWaiting || own.State == StageBlocked) {
		// The pod waits for several volumes, and its verdict names the first of them.
		waits = true
		p.Wait, p.Stage, p.Actor, p.Message = t.Verdict.State, own.Stage, own.On, fmt.Sprintf("Pod %s also waits for volume %s%s", p.Pod, v.Name, toBe[own.Stage])
	} else if waits || t.Verdict.State == finding.Unsure && t.Verdict.Volume == "" {
		p.Wait, p.Stage, p.Actor, p.Message = t.Verdict.State, t.Verdict.Stage, t.Verdict.Actor, t.Verdict.Message
	}
	switch {
	case pod.DeletionTimestamp != nil:
		p.State = PodEnding
		grace := time.Duration(ptr.Deref(pod.DeletionGracePeriodSeconds, 0)) * time.Second
		p.Since = new(metav1.NewTime(pod.DeletionTimestamp.Add(-grace))) // the stamp is the end of the grace period
	case reconcile.PodTerminated(pod):
		p.State = PodEnded
		if facts.TellsEnd(pod) {
			p.Since = unlessZero(facts.LastSign(pod))
		}
	case waits:
		p.State, p.Since = PodWaits, t.Verdict.Since
	case t.Verdict.Reason == ReasonSilent:
		p.State, p.Since = PodUnheard, t.Verdict.Since
	case anyRuns(pod):
		p.State, p.Since = PodRuns, unlessZero(facts.RunningSince(pod))
	default:
		p.State, p.Since = PodStarting, unlessZero(pod.CreationTimestamp)
	}
	return p
}

// unreadOf is the first kind that was not read in full and may show how far a pod has the
// volume; "" where there is none.
func (u *useTracer) unreadOf() snapshot.Kind {
	for _, kind := range []snapshot.Kind{snapshot.Volumes, snapshot.VolumeAttachments, snapshot.Nodes, snapshot.CSINodes, snapshot.CSIDrivers, snapshot.StorageClasses, snapshot.Leases} {
		if !u.knows(kind, "") {
			return kind
		}
	}
	for _, kind := range []snapshot.Kind{snapshot.Claims, snapshot.Events} {
		if !u.knows(kind, u.key.Namespace) {
			return kind
		}
	}
	return ""
}

// addNodes adds the nodes that have the volume by any object.
func (u *useTracer) addNodes() {
	v := u.PersistentVolume
	if v == nil {
		return
	}
	at := map[types.NodeName]*HavingNode{}
	have := func(name types.NodeName) *HavingNode {
		if at[name] == nil {
			at[name] = u.havingNode(name, v.reported())
		}
		return at[name]
	}
	for _, va := range u.vas {
		h := have(types.NodeName(va.Spec.NodeName))
		if h.VolumeAttachment == "" || va.Name == facts.AttachmentName(reconcile.VolumeNode{Volume: v.Volume, Node: h.Node}) {
			u.fillIn(h, va)
		}
	}
	if name := v.reported(); name != "" {
		for _, listed := range slices.Concat(u.ListedOn(name), u.InUseOn(name)) {
			if h := have(listed.Node); v.Driver == "" && h.InVolumesAttached == Yes {
				h.State = NodeHas // its plugin has no VolumeAttachments
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(at)) {
		u.Nodes = append(u.Nodes, *at[name])
	}
}

// reported is the volume's name in a node's status, also where its driver attaches nothing.
func (v *UsedVolume) reported() corev1.UniqueVolumeName {
	if v.Volume == "" && v.Driver != "" {
		return reconcile.CSIVolumeName(v.Driver, v.Handle)
	}
	return v.Volume
}

// havingNode is what the node's own object shows about the volume.
func (u *useTracer) havingNode(name types.NodeName, volume corev1.UniqueVolumeName) *HavingNode {
	h := &HavingNode{Node: name, State: NodeReports, InVolumesAttached: Unknown, InVolumesInUse: Unknown}
	switch node := u.Snapshot.Node(name); {
	case node != nil:
		h.Ready = readyOf(node)
		h.InVolumesAttached, h.InVolumesInUse = answer(volume != "" && facts.Lists(node, volume)), answer(volume != "" && facts.InUse(node, volume))
	case u.knows(snapshot.Nodes, ""):
		h.Ready, h.InVolumesAttached, h.InVolumesInUse = "gone", No, No
	}
	return h
}

// readyOf is the status of the node's Ready condition; "Unknown" where it has none.
func readyOf(node *corev1.Node) string {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return string(c.Status)
		}
	}
	return string(corev1.ConditionUnknown)
}

func answer(yes bool) Answer {
	if yes {
		return Yes
	}
	return No
}

// fillIn adds what the VolumeAttachment shows.
func (u *useTracer) fillIn(h *HavingNode, va *storagev1.VolumeAttachment) {
	h.VolumeAttachment, h.State, h.Since = va.Name, NodeAttaching, unlessZero(va.CreationTimestamp)
	failure, field := u.AttachError(va), "attachError"
	switch {
	case va.DeletionTimestamp != nil:
		h.State, h.Since = NodeDetaching, va.DeletionTimestamp
		failure, field = u.DetachError(va), "detachError"
	case va.Status.Attached:
		h.State, failure = NodeHas, nil
		if at := u.attachedAt(h.Node); at.After(va.CreationTimestamp.Time) {
			h.Since = &at
		}
	}
	if failure != nil {
		h.Said = []Said{driverSaid(va, field, failure)}
	}
}

// attachedAt is when the controller first reported to a pod on the node that the volume is
// attached; zero where it did not.
func (u *useTracer) attachedAt(node types.NodeName) metav1.Time {
	var at metav1.Time
	for _, p := range u.Pods {
		namespace, name, _ := strings.Cut(p.Pod, "/")
		pod := u.Snapshot.Pod(types.NamespacedName{Namespace: namespace, Name: name})
		if p.Node != node {
			continue
		}
		if e := u.AttachSucceeded(pod, u.pv.Name); e != nil && (at.IsZero() || snapshot.EventTime(e).Time.Before(at.Time)) {
			at = snapshot.EventTime(e)
		}
	}
	return at
}

// The finalizers whose meaning is known.
const (
	volumeProtection = "kubernetes.io/pv-protection"
	provisionerKeeps = "external-provisioner.volume.kubernetes.io/finalizer"
	inTreeKeeps      = "kubernetes.io/pv-controller"
)

// addKept adds each finalizer with what needs it.
func (u *useTracer) addKept() {
	if u.claim != nil {
		object := finding.Object{Kind: "PersistentVolumeClaim", Namespace: u.claim.Namespace, Name: u.claim.Name, UID: u.claim.UID}
		for _, f := range u.claim.Finalizers {
			k := Keeper{Object: object, Finalizer: f, Holds: Yes, By: "whoever put it on takes it off"}
			if known, ok := facts.KnownFinalizer(f); ok {
				k.By = fmt.Sprintf("the %s, for %s of it", known.Program, known.For)
			} else if f == claimProtection {
				k.Holds, k.By = u.podsHold()
			}
			u.Kept = append(u.Kept, k)
		}
	}
	if u.pv != nil {
		for _, f := range u.pv.Finalizers {
			u.Kept = append(u.Kept, u.volumeKept(f))
		}
	}
}

// podsHold is whether pods keep the claim, and which: those on a node, whether they run or have
// ended (Controller.podUsesPVC, pkg/controller/volume/pvcprotection).
func (u *useTracer) podsHold() (Answer, string) {
	var pods []string
	for _, p := range u.Pods {
		if p.Node != "" {
			pods = append(pods, p.Pod)
		}
	}
	switch {
	case len(pods) == 1:
		return Yes, "pod " + pods[0]
	case len(pods) > 1:
		return Yes, fmt.Sprintf("pod %s and %d more", pods[0], len(pods)-1)
	case !u.knows(snapshot.Pods, u.key.Namespace):
		return Unknown, "not known: not all pods could be read"
	default:
		return No, "no pod on a node names it"
	}
}

// volumeKept is what needs the finalizer of the volume.
func (u *useTracer) volumeKept(finalizer string) Keeper {
	pv := u.pv
	k := Keeper{Object: facts.PvObject(pv), Finalizer: finalizer, Holds: Yes, By: "whoever put it on takes it off"}
	switch {
	case finalizer == volumeProtection:
		k.Holds, k.By = answer(pv.Status.Phase == corev1.VolumeBound), "its claim"
		if k.Holds == No {
			k.By = "it is bound to no claim"
		}
	case finalizer == provisionerKeeps || finalizer == inTreeKeeps:
		k.By = "its provisioner, until the disk is deleted"
	case strings.HasPrefix(finalizer, reconcile.AttacherFinalizerPrefix):
		own := u.AttachmentsNaming(pv.Name)
		switch {
		case len(own) == 1:
			k.By = "VolumeAttachment " + own[0].Name
		case len(own) > 1:
			k.By = fmt.Sprintf("VolumeAttachment %s and %d more", own[0].Name, len(own)-1)
		case !u.knows(snapshot.VolumeAttachments, ""):
			k.Holds, k.By = Unknown, "not known: not all volumeattachments could be read"
		default:
			k.Holds, k.By = No, "no VolumeAttachment names it"
		}
	}
	return k
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

// concerns reports whether the finding is about the claim, the volume or its disk.
func (u *useTracer) concerns(f finding.Finding) bool {
	switch {
	case f.Subject.UID != "" && f.Subject.UID == u.Subject.UID:
		return true
	case u.pv != nil && (f.PersistentVolume == u.pv.Name || f.Volume != "" && f.Volume == u.PersistentVolume.Volume):
		return true
	case u.claim != nil && f.Subject.Kind == "PersistentVolumeClaim" && f.Subject.Namespace == u.key.Namespace && f.Subject.Name == u.key.Name:
		return true
	case f.Volume != "" || f.PersistentVolume != "":
		return false
	}
	// a finding about the pod's driver or node
	return slices.ContainsFunc(u.Pods, func(p UsingPod) bool { return p.Wait != "" && f.Names(p.Pod) })
}

// waitRank orders the verdicts on pods, the worst first.
var waitRank = []finding.WaitState{finding.Stuck, finding.InFlight, finding.Unsure}

// judge is what waits: a pod before the objects themselves.
func (u *useTracer) judge() UseVerdict {
	waiting := slices.DeleteFunc(slices.Clone(u.Pods), func(p UsingPod) bool { return p.Wait == "" })
	slices.SortStableFunc(waiting, func(a, b UsingPod) int {
		return cmp.Compare(slices.Index(waitRank, a.Wait), slices.Index(waitRank, b.Wait))
	})
	if len(waiting) > 0 && waiting[0].Wait != finding.Unsure {
		p := waiting[0]
		v := UseVerdict{State: p.Wait, Message: p.Message, Actor: p.Actor, Since: p.Since}
		if n := len(waiting) - 1; n > 0 {
			v.Message += fmt.Sprintf("; %d more of its pods wait", n)
		}
		return v
	}
	if v, ends := u.judgeEnd(); ends {
		return v
	}
	if len(waiting) > 0 {
		return UseVerdict{State: finding.Unsure, Message: waiting[0].Message}
	}
	if u.Claim != nil && u.Claim.Binding != nil {
		return u.judgeUnbound(*u.Claim.Binding)
	}
	if u.claim == nil && u.pv != nil {
		if v, ok := u.judgeFree(); ok {
			if len(u.NotKnown) > 0 && v.State == finding.NoWait {
				v.State, v.Message = finding.Unsure, fmt.Sprintf("%s; whether anything waits for it is not known: not all %s could be read", v.Message, u.NotKnown[0].Because)
			}
			return v
		}
	}
	if len(u.NotKnown) > 0 {
		return UseVerdict{State: finding.Unsure, Message: fmt.Sprintf("Whether anything waits for %s is not known: not all %s could be read", u.name(), u.NotKnown[0].Because)}
	}
	return UseVerdict{State: finding.NoWait, Message: u.inUse()}
}

// name is the subject in a sentence.
func (u *useTracer) name() string {
	if u.Subject.Kind == "PersistentVolume" {
		return "volume " + u.Subject.Name
	}
	return "claim " + u.key.String()
}

// judgeEnd is the verdict on a claim or a volume that is Terminating: its own deletion waits.
func (u *useTracer) judgeEnd() (UseVerdict, bool) {
	what, object, since := "", finding.Object{}, (*metav1.Time)(nil)
	switch {
	case u.claim != nil && u.claim.DeletionTimestamp != nil:
		what, since = "Claim "+u.key.String(), u.claim.DeletionTimestamp
		object = finding.Object{UID: u.claim.UID}
	case u.pv != nil && u.pv.DeletionTimestamp != nil:
		what, since = "Volume "+u.pv.Name, u.pv.DeletionTimestamp
		object = finding.Object{UID: u.pv.UID}
	default:
		return UseVerdict{}, false
	}
	var by []string
	for _, k := range u.Kept {
		if k.Object.UID == object.UID && k.Holds == Yes {
			by = append(by, k.By+" ("+k.Finalizer+")")
		}
	}
	v := UseVerdict{State: finding.InFlight, Since: since, Message: what + " is Terminating"}
	switch {
	case len(by) > 0:
		v.Message += ", and kept by " + strings.Join(by, ", ")
	case slices.ContainsFunc(u.Kept, func(k Keeper) bool { return k.Object.UID == object.UID && k.Holds == Unknown }):
		v.State = finding.Unsure
		v.Message += "; what keeps it is not known: not everything could be read"
	default:
		v.Message += ", and no finalizer is known to keep it"
	}
	if u.warned() {
		v.State = finding.Stuck
	}
	return v, true
}

// warned reports whether a certain finding warns about the claim or the volume.
func (u *useTracer) warned() bool {
	return slices.ContainsFunc(u.Findings, func(f finding.Brief) bool { return f.Severity.AtLeast(finding.Warning) && f.Whole.Confidence == "" })
}

// judgeUnbound is the verdict on a claim without a volume, or whose volume does not name it.
func (u *useTracer) judgeUnbound(s Stage) UseVerdict {
	name := "Claim " + u.key.String()
	switch unbound := u.Unbound(u.claim); {
	case s.State == StageUnknown || !u.knows(snapshot.Pods, u.key.Namespace):
		return UseVerdict{State: finding.Unsure, Message: fmt.Sprintf("Whether anything waits for %s is not known: %s", u.name(), cmp.Or(s.Detail, "not all pods could be read"))}
	case u.claim.Spec.VolumeName == "" && unbound.ForNode && len(u.Pods) > 0 && !slices.ContainsFunc(u.Pods, func(p UsingPod) bool { return p.Node != "" }):
		return UseVerdict{State: finding.NoWait, Message: fmt.Sprintf("%s is bound once pod %s has a node, which the pod waits for, and not for a volume (WaitForFirstConsumer)", name, u.Pods[0].Pod)}
	case u.claim.Spec.VolumeName == "" && unbound.ForNode && len(u.Pods) == 0:
		return UseVerdict{State: finding.NoWait, Message: name + " is not bound yet, and no pod uses it: its storage class waits for the first pod (WaitForFirstConsumer)"}
	}
	v := UseVerdict{State: finding.InFlight, Message: name + " waits for its volume: " + s.Detail, Actor: s.On, Since: s.Since}
	starts := func(p UsingPod) bool { return p.State == PodWaits || p.State == PodStarting }
	switch {
	case !s.Overdue:
	case !slices.ContainsFunc(u.Pods, starts) && !u.warned():
		return UseVerdict{State: finding.NoWait, Message: fmt.Sprintf("%s has no volume, and no pod that is to start uses it: %s", name, s.Detail)}
	default:
		v.State = finding.Stuck
	}
	if s.On != "" && s.On != Nobody {
		v.Message += "; next to act: " + s.On
	}
	return v
}

// judgeFree is the verdict on a volume that no claim has.
func (u *useTracer) judgeFree() (UseVerdict, bool) {
	pv := u.pv
	name := "Volume " + pv.Name
	deletes := pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
	switch {
	case pv.Status.Phase == corev1.VolumeAvailable && pv.Spec.ClaimRef == nil:
		return UseVerdict{State: finding.NoWait, Message: name + " is Available: no claim has it"}, true
	case pv.Status.Phase == corev1.VolumeReleased && !deletes:
		return UseVerdict{State: finding.NoWait, Message: fmt.Sprintf("%s is Released: claim %s is gone, and the reclaim policy %s keeps the disk; no claim gets it as long as its claimRef names that claim",
			name, u.key, pv.Spec.PersistentVolumeReclaimPolicy)}, true
	case pv.Status.Phase == corev1.VolumeReleased || pv.Status.Phase == corev1.VolumeFailed:
		v := UseVerdict{State: finding.InFlight, Since: pv.Status.LastPhaseTransitionTime, Actor: "its provisioner",
			Message: fmt.Sprintf("%s is %s: claim %s is gone, and the reclaim policy %s has its provisioner delete the disk", name, pv.Status.Phase, u.key, pv.Spec.PersistentVolumeReclaimPolicy)}
		if pv.Status.Phase == corev1.VolumeFailed || v.Since != nil && u.Age(*v.Since) > facts.PVDeletionGrace {
			v.State = finding.Stuck
		}
		return v, true
	case pv.Spec.ClaimRef != nil && u.knows(snapshot.Claims, u.key.Namespace) && len(u.NotKnown) == 0:
		return UseVerdict{State: finding.NoWait, Message: fmt.Sprintf("%s is %s, and its claim %s does not exist", name, pv.Status.Phase, u.key)}, true
	default:
		return UseVerdict{}, false
	}
}

// inUse is who has it, where nothing waits and everything was read.
func (u *useTracer) inUse() string {
	var pods []UsingPod
	nodes, ended := map[types.NodeName]bool{}, 0
	for _, p := range u.Pods {
		if p.State == PodEnded {
			ended++
			continue
		}
		pods = append(pods, p)
		if p.Node != "" {
			nodes[p.Node] = true
		}
	}
	text := ""
	switch {
	case len(pods) == 1 && pods[0].State == PodRuns:
		text = fmt.Sprintf("Pod %s runs with it on node %s", pods[0].Pod, pods[0].Node)
	case len(pods) == 1 && pods[0].Node != "":
		text = fmt.Sprintf("Pod %s names it, on node %s", pods[0].Pod, pods[0].Node)
	case len(pods) == 1:
		text = fmt.Sprintf("Pod %s names it and has no node yet", pods[0].Pod)
	case len(pods) > 1:
		text = fmt.Sprintf("%d pods name it, on %s", len(pods), nodesCounted(len(nodes)))
	case u.pv != nil && u.claim == nil:
		text = "No claim has volume " + u.pv.Name
	default:
		text = "No pod uses claim " + u.key.String()
	}
	switch {
	case ended == 1:
		text += "; 1 pod that has ended still names it"
	case ended > 1:
		text += fmt.Sprintf("; %d pods that have ended still name it", ended)
	}
	if len(pods) == 0 && len(u.Nodes) > 0 {
		text += fmt.Sprintf("; node %s still has it", u.Nodes[0].Node)
	}
	if i := slices.IndexFunc(u.Findings, func(f finding.Brief) bool { return f.Severity.AtLeast(finding.Warning) }); i >= 0 {
		text += fmt.Sprintf("; %s %s says what is wrong", u.Findings[i].Code, u.Findings[i].Check)
	}
	return text
}
