// Package trace follows the volumes of one pod, stage by stage, to the one that it
// waits in.
package trace

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// Trace follows the volumes of one pod from scheduling to mounted, or back from
// there once the pod ends. Its JSON is a contract, as Report's is.
type Trace struct {
	APIVersion        string          `json:"apiVersion"`
	Kind              string          `json:"kind"`
	TakenAt           metav1.Time     `json:"takenAt"`
	KubernetesVersion string          `json:"kubernetesVersion,omitempty"`
	Source            snapshot.Source `json:"source"`
	Complete          bool            `json:"complete"`
	Gaps              []snapshot.Gap  `json:"gaps"`

	Pod            finding.Object `json:"pod"`
	Node           types.NodeName `json:"node,omitempty"`
	KubeletVersion string         `json:"kubeletVersion,omitempty"`
	Direction      Direction      `json:"direction"`
	Verdict        Verdict        `json:"verdict"`
	Volumes        []VolumeTrace  `json:"volumes"`
	// Kubelet is what the node's kubelet says itself, where it was asked.
	Kubelet *KubeletAccount `json:"kubelet,omitempty"`
	// Findings are the findings of the checks that concern the pod or its volumes.
	Findings      []finding.Brief        `json:"findings"`
	SkippedChecks []finding.SkippedCheck `json:"skippedChecks"`
}

// Direction is where the pod's volumes are on their way to.
type Direction string

// The directions.
const (
	Up   Direction = "up"   // towards mounted
	Down Direction = "down" // towards detached: the pod ends
)

// Verdict answers the one question: does the pod wait for a volume?
type Verdict struct {
	State finding.WaitState `json:"state"`
	// Reason is a stage's name, or what the pod waits for in place of a volume.
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Headline is the first part of Message: a finding about the wait takes it for its own.
	Headline string `json:"-"`
	// Volume is the pod's own name of the volume that it waits for.
	Volume string `json:"volume,omitempty"`
	// Volumes are all that it may wait for, where no object tells for which; Volume is
	// the first of them.
	Volumes []string `json:"volumes,omitempty"`
	// Stage is the one that it waits in; "" where it waits for no volume.
	Stage StageName `json:"stage,omitempty"`
	// Stages are all that it may be in, where no object tells in which; Stage is the
	// last of them.
	Stages []StageName `json:"stages,omitempty"`
	// Actor is who has to act next, and Said the words of those who work on it.
	Actor      string       `json:"actor,omitempty"`
	Said       string       `json:"said,omitempty"`
	Since      *metav1.Time `json:"since,omitempty"`
	UsualBound string       `json:"usualBound,omitempty"`
	// DueAt is when a wait that is in flight counts as stuck.
	DueAt *metav1.Time `json:"dueAt,omitempty"`
}

// VolumeTrace is one of the pod's volumes.
type VolumeTrace struct {
	// Name is the pod's name for it.
	Name string `json:"name"`
	// Type is the field of the pod's volume that is set.
	Type             string                  `json:"type"`
	Claim            string                  `json:"claim,omitempty"`
	PersistentVolume string                  `json:"persistentVolume,omitempty"`
	Volume           corev1.UniqueVolumeName `json:"volume,omitempty"`
	Driver           string                  `json:"driver,omitempty"`
	VolumeAttachment string                  `json:"volumeAttachment,omitempty"`
	// Referenced says that a container mounts it: the kubelet waits for no other.
	Referenced bool    `json:"referenced"`
	Stages     []Stage `json:"stages"`
	// Broken is the stage in which it waits; "" where it waits in none.
	Broken StageName `json:"broken,omitempty"`
	// Notes are what is worth knowing beside the stages.
	Notes []string `json:"notes,omitempty"`
}

// StageName names a step of the way. Those of one volume follow one another,
// but the kubelet and the controller work on InVolumesInUse and Attached side by
// side. In JSON two of them have names of their own, which stay as they were.
type StageName string

// The stages, up and down.
const (
	StageScheduled         StageName = "scheduled"
	StageClaimBound        StageName = "claimBound"
	StageInVolumesInUse    StageName = "askedFor" // in the node's volumesInUse
	StageAttached          StageName = "attached"
	StageInVolumesAttached StageName = "listed" // in the node's volumesAttached
	StageRegistered        StageName = "driverRegistered"
	StageStaged            StageName = "staged"
	StageMounted           StageName = "mounted"
	StageStopped           StageName = "containersStopped"
	StageUnmounted         StageName = "unmounted"
	StageUnstaged          StageName = "unstaged" // has left the node's volumesInUse
	StageDetached          StageName = "detached"
)

// StageState is how far a stage is.
type StageState string

// The states of a stage.
const (
	StageDone      StageState = "done"
	StageWaiting   StageState = "waiting"   // nothing shows that it cannot go on
	StageBlocked   StageState = "blocked"   // something does
	StageUnknown   StageState = "unknown"   // what could be read does not tell
	StageNotNeeded StageState = "notNeeded" // nobody waits for it
)

// Stage is one step of a volume.
type Stage struct {
	Stage StageName  `json:"stage"`
	State StageState `json:"state"`
	// On is who has to act.
	On string `json:"on,omitempty"`
	// Since is when the stage was done, or when the wait in it began; objects
	// and events alone tell.
	Since *metav1.Time `json:"since,omitempty"`
	// UsualBound is how long the wait takes where all goes well, as Go writes
	// durations; "" where nothing bounds it.
	UsualBound string `json:"usualBound,omitempty"`
	// Overdue says that it has taken longer, or that nothing will end it.
	Overdue bool `json:"overdue,omitempty"`
	// Detail says what the objects show, and Ends what normally ends the wait.
	Detail string `json:"detail,omitempty"`
	Ends   string `json:"ends,omitempty"`
	// Said are the words of those who work on it.
	Said []Said `json:"said,omitempty"`

	// lacks replaces what the volume lacks in the stage, and never what must not be done about it.
	lacks, never string
	// reason replaces the stage's name in the verdict.
	reason string
	// dueAt is when the wait takes longer than is usual; nil where nothing tells.
	dueAt *metav1.Time
	// follows says that the stage has not begun: it comes after a broken one.
	follows bool
	// open says that no object tells whether the stage is done, though all before it are.
	open bool
	// doubtful says that the volume was perhaps never mounted: no container ran, and the
	// driver is not registered.
	doubtful bool
	// old says that the kubelet has tried again since, and has not said that it failed.
	old bool
	// passed says that what was said is over, or will be said again.
	passed bool
	// called says that a CSI driver has answered a call, whoever has to act after it.
	called bool
	// permanent says that no retry can end the wait.
	permanent bool
	// unread is the kind of an object that could not be read and may show that somebody else
	// has to act; "" where what was read proves it.
	unread snapshot.Kind
	// unheard reports whether the kubelet may have spoken of the stage in an event that could not
	// be read.
	unheard bool
}

// unsaid reports whether nobody has spoken of the stage as it is now.
func (s Stage) unsaid() bool { return len(s.Said) == 0 || s.passed }

// Stays reports whether nothing that is under way ends the wait.
func (s Stage) Stays() bool { return s.permanent || s.Overdue && s.UsualBound == "" }

// Never is what must not be done about the wait in this stage; "" where the stage knows of nothing
// in particular.
func (s Stage) Never() string { return s.never }

// Means is what the words mean that were said of the stage; "" where nobody has spoken of
// it as it is now, or nobody knows.
func (s Stage) Means() string {
	if s.unsaid() || s.old {
		return ""
	}
	return s.Said[0].Means
}

// Said is a message, and what it means in the release of who wrote it.
type Said struct {
	By    string       `json:"by"`
	At    *metav1.Time `json:"at,omitempty"`
	Text  string       `json:"text"`
	Means string       `json:"means,omitempty"`
	// count is how often it was said; 0 where that is not known.
	count int
}

// tracer is one trace under way.
type tracer struct {
	*facts.View
	pod  *corev1.Pod
	node *corev1.Node // nil where there is none, or none was read
	// events are the pod's, oldest first.
	events  []*corev1.Event
	kubelet facts.KubeletRelease
	// heard is what the node's kubelet says itself; nil where it was not asked.
	heard *KubeletView
}

// OfPod follows the volumes of the pod, which must be one of the view's
// snapshot. What the kubelet of its node says narrows what no object shows; it is nil
// where the kubelet was not asked. The trace names no findings: see AddFindings.
func OfPod(view *facts.View, pod *corev1.Pod, heard *KubeletView) *Trace {
	s := view.Snapshot
	t := newTracer(view, pod, heard)
	trace_ := &Trace{
		APIVersion: finding.APIVersion, Kind: "Trace",
		TakenAt: metav1.NewTime(s.TakenAt.UTC()), KubernetesVersion: s.Source.ServerVersion,
		Source: s.Source, Complete: len(s.Gaps) == 0, Gaps: append([]snapshot.Gap{}, s.Gaps...),
		Pod: facts.PodObject(pod), Node: types.NodeName(pod.Spec.NodeName), KubeletVersion: kubeletVersion(t.node),
		Direction: Up, Volumes: []VolumeTrace{}, Findings: []finding.Brief{}, SkippedChecks: []finding.SkippedCheck{},
	}
	if ends(pod) {
		trace_.Direction = Down
	}
	for i := range pod.Spec.Volumes {
		trace_.Volumes = append(trace_.Volumes, t.follow(&pod.Spec.Volumes[i], trace_.Direction))
	}
	if trace_.Direction == Up {
		trace_.Verdict = t.verdictUp(trace_.Volumes, untold(trace_.Volumes))
	} else {
		trace_.Verdict = t.verdictDown(trace_.Volumes)
	}
	trace_.withoutActors()
	if heard != nil {
		trace_.corroborate(s, heard)
	}
	return trace_
}

func newTracer(view *facts.View, pod *corev1.Pod, heard *KubeletView) *tracer {
	node := view.Snapshot.Node(types.NodeName(pod.Spec.NodeName))
	return &tracer{View: view, pod: pod, node: node, heard: heard,
		events:  facts.InOrder(view.CurrentEvents(pod, slices.Concat(view.Snapshot.EventsOfPod(pod), heard.logged(pod)))),
		kubelet: facts.ParseKubelet(kubeletVersion(node)),
	}
}

func kubeletVersion(node *corev1.Node) string {
	if node == nil {
		return ""
	}
	return node.Status.NodeInfo.KubeletVersion
}

// MayWait reports whether the pod's volumes are worth following: a pod with a
// container that runs has all its volumes.
func MayWait(pod *corev1.Pod) bool {
	if ends(pod) {
		return pod.DeletionTimestamp != nil // nothing keeps the object of another
	}
	return !anyRuns(pod)
}

// Waits is the volume that the pod waits for; empty where it waits for none.
func (t *Trace) Waits() VolumeTrace {
	if i := slices.IndexFunc(t.Volumes, func(v VolumeTrace) bool { return v.Name == t.Verdict.Volume }); i >= 0 {
		return t.Volumes[i]
	}
	return VolumeTrace{}
}

// Stage is the one that the pod waits in.
func (t *Trace) Stage() Stage {
	v := t.Waits()
	if v.Name == "" && len(t.Volumes) > 0 {
		v = t.Volumes[0] // each of them waits for a node
	}
	return *v.stage(t.Verdict.Stage)
}

// Quoted is what the verdict says was said, for a finding about the wait; nil where nothing
// was.
func (t *Trace) Quoted() *finding.Quote {
	if t.Verdict.Said == "" {
		return nil
	}
	for _, said := range t.Stage().Said {
		if said.Text == t.Verdict.Said {
			return &finding.Quote{Text: said.Text, By: said.By, At: said.At, Count: said.count}
		}
	}
	return &finding.Quote{Text: t.Verdict.Said}
}

// Judge lets the findings decide, which are those of all checks: a wait about which
// one is certain that something is wrong is stuck, and one is in flight where
// findings know of each volume that is overdue when it comes by itself.
func (t *Trace) Judge(findings []finding.Finding) {
	if t.Verdict.State != finding.InFlight && t.Verdict.State != finding.Stuck {
		return
	}
	name := t.Pod.Namespace + "/" + t.Pod.Name
	certain := slices.DeleteFunc(slices.Clone(findings), func(f finding.Finding) bool { return f.Confidence != "" || !f.Names(name) })
	t.takeActor(certain)
	for _, f := range certain {
		if f.Severity.AtLeast(finding.Warning) {
			if t.Verdict.State == finding.InFlight {
				t.Verdict.State, t.Verdict.DueAt = finding.Stuck, nil
				t.Verdict.Message += fmt.Sprintf("; %s %s says what is wrong", f.Code, f.Check)
			}
			return
		}
	}
	if due := t.comesBy(certain); due != nil && t.Verdict.Actor != Nobody && !t.Stage().permanent {
		t.Verdict.State, t.Verdict.DueAt = finding.InFlight, due
	}
}

// takeActor has a finding that is certain name who has to act: it knows more than the
// stage, and both are one look at one wait.
func (t *Trace) takeActor(findings []finding.Finding) {
	waits := t.Waits()
	if waits.Name == "" {
		return
	}
	named := slices.DeleteFunc(slices.Clone(findings), func(f finding.Finding) bool { return !names(f, waits) })
	if len(named) == 0 || slices.ContainsFunc(named, func(f finding.Finding) bool { return f.Actor == t.Verdict.Actor }) {
		return
	}
	t.Verdict.nextIs(named[0].Actor)
	waits.stage(t.Verdict.Stage).On = named[0].Actor
}

// names reports whether the finding says who has to act so that the volume, on which its
// pod waits, goes on.
func names(f finding.Finding, v VolumeTrace) bool {
	ofVolume := v.Volume != "" && f.Volume == v.Volume || v.PersistentVolume != "" && f.PersistentVolume == v.PersistentVolume
	return f.Actor != "" && f.Severity.AtLeast(finding.Warning) && ofVolume
}

// comesBy is when the first of the volumes that are overdue comes by itself, or the one that
// the pod waits for where none is; nil where the findings do not know it of each.
func (t *Trace) comesBy(findings []finding.Finding) *metav1.Time {
	var due *metav1.Time
	overdue := slices.ContainsFunc(t.Volumes, func(v VolumeTrace) bool { return v.stage(v.Broken).Overdue })
	for _, v := range t.Volumes {
		if !v.stage(v.Broken).Overdue && (overdue || v.Name != t.Verdict.Volume) {
			continue
		}
		i := slices.IndexFunc(findings, func(f finding.Finding) bool {
			return f.SelfHeals.Will && f.SelfHeals.After != "" && v.Volume != "" && f.Volume == v.Volume
		})
		if i < 0 {
			return nil
		}
		after, err := time.ParseDuration(findings[i].SelfHeals.After)
		if err != nil {
			return nil
		}
		if at := metav1.NewTime(t.TakenAt.Add(after)); due == nil || at.Before(due) {
			due = &at
		}
	}
	return due
}

// AddFindings names those of the report's findings that concern the pod or its
// volumes, and judges the wait by them.
func (t *Trace) AddFindings(report *finding.Report) {
	t.SkippedChecks = report.SkippedChecks
	t.Judge(report.Findings)
	for _, f := range report.Findings {
		if t.concerns(f) {
			t.Findings = append(t.Findings, f.Brief())
		}
	}
}

// ends reports whether the pod gives its volumes back, or should.
func ends(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

func (t *Trace) concerns(f finding.Finding) bool {
	if f.Names(t.Pod.Namespace + "/" + t.Pod.Name) {
		return true
	}
	return slices.ContainsFunc(t.Volumes, func(v VolumeTrace) bool {
		return v.Volume != "" && f.Volume == v.Volume || v.PersistentVolume != "" && f.PersistentVolume == v.PersistentVolume
	})
}

// knows reports whether the absence of an object of the kind proves something; the
// namespace is the object's namespace, "" where it has none.
func (t *tracer) knows(kind snapshot.Kind, namespace string) bool {
	return t.Snapshot.CompleteIn(kind, namespace)
}

// due makes the stage a wait with a usual bound; none means that nothing that
// is under way will end it.
func (t *tracer) due(s Stage, since metav1.Time, bound time.Duration) Stage {
	if !since.IsZero() {
		s.Since, s.dueAt = &since, new(metav1.NewTime(since.Add(bound)))
	}
	if bound > 0 {
		s.UsualBound = facts.Rounded(bound)
	}
	s.Overdue = bound == 0 || !since.IsZero() && t.Age(since) > bound
	if s.On == Nobody && !s.Overdue {
		s.On = "" // somebody may have acted meanwhile, and the lists that were read do not show it yet
	}
	return s
}

// never makes the stage a wait that nothing ends as it is.
func (t *tracer) never(s Stage, since metav1.Time) Stage {
	s.permanent = true
	return t.due(s, since, 0)
}

// Nobody is who has to act where neither the pod nor its volume can be changed so that
// the wait ends.
const Nobody = "nobody"

func done(name StageName, since metav1.Time, detail string) Stage {
	return Stage{Stage: name, State: StageDone, Since: unlessZero(since), Detail: detail}
}

// unlessZero is nil for a time that nothing tells.
func unlessZero(t metav1.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func unread(name StageName, kind snapshot.Kind) Stage {
	s := Stage{Stage: name, State: StageUnknown, Detail: "not all " + string(kind) + " could be read", unread: kind}
	if kind == snapshot.CSIDrivers {
		s.Detail += ": whether it is attached at all is not known"
	}
	return s
}

func notNeeded(name StageName, why string) Stage {
	return Stage{Stage: name, State: StageNotNeeded, Detail: why}
}

// after is a stage that has not begun.
func after(name StageName) Stage {
	return Stage{Stage: name, State: StageWaiting, Detail: "comes after what is waited for above", follows: true}
}
