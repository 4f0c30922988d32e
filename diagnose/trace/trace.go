// Package trace follows the volumes of one pod, stage by stage, to the stage in which each
// waits.
package trace

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/kubeletwords"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// Trace follows the volumes of one pod from scheduling to mounted, or back once the pod ends.
// Its JSON is a contract, like Report's.
type Trace struct {
	finding.Head

	Pod            finding.Object `json:"pod"`
	Node           types.NodeName `json:"node,omitempty"`
	KubeletVersion string         `json:"kubeletVersion,omitempty"`
	Direction      Direction      `json:"direction"`
	Verdict        Verdict        `json:"verdict"`
	Volumes        []VolumeTrace  `json:"volumes"`
	// Kubelet is what the node's kubelet itself reports, where it was asked.
	Kubelet *KubeletAccount `json:"kubelet,omitempty"`
	// unheard is the actor by the objects alone, where the kubelet was asked.
	unheard string
	// Findings are the findings of the checks that concern the pod or its volumes.
	Findings      []finding.Brief        `json:"findings"`
	SkippedChecks []finding.SkippedCheck `json:"skippedChecks"`
}

// Direction is the way that the pod's volumes take.
type Direction string

// The directions.
const (
	Up   Direction = "up"   // towards mounted
	Down Direction = "down" // towards detached: the pod ends
)

// Verdict answers one question: does the pod wait for a volume?
type Verdict struct {
	State finding.WaitState `json:"state"`
	// Reason is a stage's name, or the reason why the pod does not start or end where that is
	// no volume.
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Headline is the first part of Message: a finding about the wait uses it as its own
	// message.
	Headline string `json:"-"`
	// Volume is the pod's name for the volume that it waits for.
	Volume string `json:"volume,omitempty"`
	// Volumes are all volumes that it may wait for, where no object shows which; Volume is the
	// first of them.
	Volumes []string `json:"volumes,omitempty"`
	// Stage is the stage in which it waits; "" where it waits for no volume.
	Stage StageName `json:"stage,omitempty"`
	// Stages are all stages in which it may wait, where no object shows which; Stage is the
	// last of them.
	Stages []StageName `json:"stages,omitempty"`
	// Actor is who has to act next, and Said is the last message about the wait.
	Actor      string       `json:"actor,omitempty"`
	Said       string       `json:"said,omitempty"`
	Since      *metav1.Time `json:"since,omitempty"`
	UsualBound string       `json:"usualBound,omitempty"`
	// DueAt is when a wait that is in flight will count as stuck.
	DueAt *metav1.Time `json:"dueAt,omitempty"`
	// Undated reports that it waits, and that an object that could not be read may show whether that
	// is longer than is usual. State is then Unsure.
	Undated bool `json:"-"`
	// dated reports that a finding, or the kubelet, has told it nevertheless.
	dated bool
	// stays is the wait of an ended pod whose object stays longer than is usual although no volume
	// keeps it; nil for any other pod.
	stays *Stage
}

// Stays reports whether the object of an ended pod stays longer than is usual, and no volume keeps it.
func (v Verdict) Stays() bool { return v.stays != nil }

// waits reports whether it is known that the pod waits for a volume.
func (v Verdict) waits() bool {
	return v.State == finding.InFlight || v.State == finding.Stuck || v.Undated
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
	// Referenced reports that a container mounts the volume: the kubelet waits for no other.
	Referenced bool    `json:"referenced"`
	Stages     []Stage `json:"stages"`
	// Broken is the stage in which the volume waits; "" where it does not wait.
	Broken StageName `json:"broken,omitempty"`
	// Notes are remarks that belong to no stage.
	Notes []string `json:"notes,omitempty"`
}

// StageName names a stage. The stages of a volume follow one another, except that the kubelet
// and the controller work on InVolumesInUse and Attached at the same time. Two of them keep
// their older names in JSON.
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

// StageState is the progress of a stage.
type StageState string

// The states of a stage.
const (
	StageDone      StageState = "done"
	StageWaiting   StageState = "waiting"   // nothing shows that it cannot go on
	StageBlocked   StageState = "blocked"   // something shows that it cannot
	StageUnknown   StageState = "unknown"   // the objects that could be read do not show it
	StageNotNeeded StageState = "notNeeded" // nobody waits for it
)

// Stage is one stage of a volume.
type Stage struct {
	Stage StageName  `json:"stage"`
	State StageState `json:"state"`
	// On is who has to act.
	On string `json:"on,omitempty"`
	// Since is when the stage was done, or when its wait began; nil where no object or event
	// shows it.
	Since *metav1.Time `json:"since,omitempty"`
	// UsualBound is how long the wait takes at most where all goes well, as Go writes
	// durations; "" where nothing bounds it.
	UsualBound string `json:"usualBound,omitempty"`
	// Overdue reports that it has taken longer, or that nothing will end it.
	Overdue bool `json:"overdue,omitempty"`
	// Detail is what the objects show, and Ends is what normally ends the wait.
	Detail string `json:"detail,omitempty"`
	Ends   string `json:"ends,omitempty"`
	// Said are the messages of those who work on it.
	Said []Said `json:"said,omitempty"`

	// lacks replaces what the volume lacks in the stage, and never what must not be done about it.
	lacks, never string
	// do is the first step, where the stage knows one.
	do string
	// reason replaces the stage's name in the verdict.
	reason string
	// dueAt is when the wait exceeds its usual bound; nil where that is not known.
	dueAt *metav1.Time
	// follows reports that the stage has not begun: it comes after a broken one.
	follows bool
	// open reports that no object shows whether the stage is done, though all before it are.
	open bool
	// doubtful reports that the volume was perhaps never mounted: no container ran, and the
	// driver is not registered.
	doubtful bool
	// old reports that the kubelet has retried since and has not reported another failure.
	old bool
	// passed reports that the last message is over, or will be repeated.
	passed bool
	// called reports that a CSI driver has answered a call, whoever has to act after it.
	called bool
	// permanent reports that no retry can end the wait.
	permanent bool
	// passing is a state of a moment that shows the same objects; "" for none.
	passing string
	// nobody reports that the actor is Nobody unless somebody acted while the lists were read.
	nobody bool
	// unread is the kind of an unread object that may show another actor; "" where the objects
	// prove the actor.
	unread snapshot.Kind
	// unseen is the kind of an unread object that may show another state or beginning, whoever has to act.
	unseen snapshot.Kind
	// untimed is the kind of an object that could not be read and may show that the stage has more time,
	// or less.
	untimed snapshot.Kind
	// unheard reports that the kubelet may have reported on the stage in an event that could
	// not be read.
	unheard bool
}

// unsaid reports whether no message is about the stage as it is now.
func (s Stage) unsaid() bool { return len(s.Said) == 0 || s.passed }

// doubted reports whether an object that could not be read may change the stage.
func (s Stage) doubted() bool { return s.unread != "" || s.unseen != "" || s.untimed != "" }

// Stays reports whether nothing that is under way ends the wait.
func (s Stage) Stays() bool { return s.permanent || s.Overdue && s.UsualBound == "" }

// Passing is a state of a moment that shows the same objects as this stage; "" for none.
func (s Stage) Passing() string { return s.passing }

// Never is what must not be done about the wait in this stage; "" for nothing in particular.
func (s Stage) Never() string { return s.never }

// Do is the first step about the wait in this stage; "" where the stage knows of none in particular.
func (s Stage) Do() string { return s.do }

// Means is the meaning of the first message about the stage as it is now; "" where there is no
// message or no known meaning.
func (s Stage) Means() string {
	if s.unsaid() || s.old {
		return ""
	}
	return s.Said[0].Means
}

// Said is a message, and its meaning in its author's release.
type Said struct {
	By    string       `json:"by"`
	At    *metav1.Time `json:"at,omitempty"`
	Text  string       `json:"text"`
	Means string       `json:"means,omitempty"`
	// count is how often it was said; 0 where that is not known.
	count int
}

// tracer makes one trace.
type tracer struct {
	*facts.View
	pod  *corev1.Pod
	node *corev1.Node // nil where it does not exist or was not read
	// events are the pod's, oldest first.
	events  []*corev1.Event
	kubelet facts.KubeletRelease
	// heard is what the node's kubelet itself reports; nil where it was not asked.
	heard *KubeletView
}

// OfPod follows the volumes of the pod, which must be in the view's snapshot. heard decides
// what no object shows; it is nil where the kubelet was not asked. The trace has no findings
// yet: see AddFindings.
func OfPod(view *facts.View, pod *corev1.Pod, heard *KubeletView) *Trace {
	t := newTracer(view, pod, heard)
	trace_ := &Trace{
		Head: finding.HeadOf("Trace", view.Snapshot),
		Pod:  facts.PodObject(pod), Node: types.NodeName(pod.Spec.NodeName), KubeletVersion: kubeletVersion(t.node),
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
		trace_.corroborate(view.Snapshot, heard)
		trace_.unheard = OfPod(view, pod, nil).Verdict.Actor
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

// MayWait reports whether the pod's volumes are worth following: a pod with a running container
// has all its volumes.
func MayWait(pod *corev1.Pod) bool {
	if ends(pod) {
		return pod.DeletionTimestamp != nil // nothing keeps the object of another pod
	}
	return !anyRuns(pod)
}

// Waits is the volume that the pod waits for; the zero value where it waits for none.
func (t *Trace) Waits() VolumeTrace {
	if i := slices.IndexFunc(t.Volumes, func(v VolumeTrace) bool { return v.Name == t.Verdict.Volume }); i >= 0 {
		return t.Volumes[i]
	}
	return VolumeTrace{}
}

// Stage is the stage in which the pod waits.
func (t *Trace) Stage() Stage { return *t.stage() }

func (t *Trace) stage() *Stage {
	if t.Verdict.Stays() {
		return t.Verdict.stays
	}
	v := t.Waits()
	if v.Name == "" && len(t.Volumes) > 0 {
		v = t.Volumes[0] // all of them wait for a node
	}
	return v.stage(t.Verdict.Stage)
}

// Quoted quotes the verdict's message, for a finding about the wait; nil where there is none.
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

// Judge adjusts the verdict to the findings of all checks. A wait is stuck where a certain
// finding warns about it, and in flight where a finding knows for each overdue volume when it
// recovers by itself. The remainder is made from the verdict, and does not count.
func (t *Trace) Judge(findings []finding.Finding) {
	name := t.Pod.Namespace + "/" + t.Pod.Name
	certain := slices.DeleteFunc(slices.Clone(findings), func(f finding.Finding) bool {
		return f.Confidence != "" || f.Code == finding.PodStuck || !f.Names(name)
	})
	if !t.Verdict.waits() && !t.waitsBy(certain) {
		return
	}
	t.takeActor(finding.Leading(certain, name))
	for _, f := range certain {
		if f.Severity.AtLeast(finding.Warning) {
			t.Verdict.dated = true
			if t.Verdict.State != finding.Stuck {
				t.Verdict.date(finding.Stuck, nil)
				if s := t.stage(); t.Verdict.Actor == "" && s.nobody {
					s.On = Nobody
					t.Verdict.nextIs(Nobody)
				}
				t.Verdict.Message += fmt.Sprintf("; %s %s says what is wrong", f.Code, f.Check)
			}
			return
		}
	}
	if due := t.comesBy(certain); due != nil && t.Verdict.Actor != Nobody && !t.Stage().permanent {
		t.Verdict.date(finding.InFlight, due)
	}
}

// waitsBy makes an unsure verdict one on a wait if a finding shows that the pod waits for the
// volume. The unread objects then hide the stage alone. It reports whether the pod waits.
func (t *Trace) waitsBy(findings []finding.Finding) bool {
	v := &t.Verdict
	named := t.naming(findings)
	if v.State != finding.Unsure || len(named) == 0 {
		return false
	}
	v.Undated, v.Since = true, named[0].Since
	v.Message = fmt.Sprintf("Pod %s/%s waits for volume %s; in which stage is not known: %s", t.Pod.Namespace, t.Pod.Name, v.Volume, t.Stage().Detail)
	return true
}

// takeActor takes the actor from a certain finding about the volume: it knows more than the
// stage.
func (t *Trace) takeActor(findings []finding.Finding) {
	named := t.naming(findings)
	if len(named) == 0 || slices.ContainsFunc(named, func(f finding.Finding) bool { return f.Actor == t.Verdict.Actor }) {
		return
	}
	t.Verdict.nextIs(named[0].Actor)
	t.stage().On = named[0].Actor
}

// naming returns the findings that name an actor for the volume that the pod waits for. A finding
// about the pod that names no volume is about this one, unless another volume waits for its actor.
// One about a driver on the node is about its volumes.
func (t *Trace) naming(findings []finding.Finding) []finding.Finding {
	v := t.Waits()
	if v.Name == "" {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(findings), func(f finding.Finding) bool {
		ofVolume := v.Volume != "" && f.Volume == v.Volume || v.PersistentVolume != "" && f.PersistentVolume == v.PersistentVolume
		ofPod := f.Volume == "" && f.PersistentVolume == "" && f.Subject.String() == t.Pod.String() && !slices.ContainsFunc(t.Volumes, func(other VolumeTrace) bool {
			return other.Name != v.Name && other.stage(other.Broken).On == f.Actor
		})
		ofDriver := v.Driver != "" && f.Subject.Kind == "CSIDriver" && f.Subject.Name == v.Driver && f.Node == t.Node && v.Broken == StageRegistered
		return f.Actor == "" || !f.Severity.AtLeast(finding.Warning) || !ofVolume && !ofPod && !ofDriver
	})
}

// saysWhatHolds reports whether the kubelet's log has words about the finding's volume, whose unmount
// fails for an unknown cause, that are not the driver's: what they name, the node plugin does not end.
func (t *Trace) saysWhatHolds(f finding.Finding) bool {
	return f.Code == finding.UnmountFails && slices.ContainsFunc(t.Volumes, func(v VolumeTrace) bool {
		return v.Volume != "" && v.Volume == f.Volume && slices.ContainsFunc(v.Stages, func(s Stage) bool {
			return (s.Stage == StageUnmounted || s.Stage == StageUnstaged) && !s.unsaid() && strings.HasPrefix(s.Said[0].By, kubeletLog) &&
				!facts.ContainsAny(s.Said[0].Text, kubeletwords.CallFailed, kubeletwords.DriverUnknown)
		})
	})
}

// Outdated reports whether the kubelet's log knows more than the finding: it names what holds a volume,
// or has words about the wait after those by which the finding names an actor, and somebody else has to
// act now.
func (t *Trace) Outdated(f finding.Finding) bool {
	if t.saysWhatHolds(f) {
		return true
	}
	last := t.Quoted()
	if last == nil || !strings.HasPrefix(last.By, kubeletLog) || f.Said == nil || f.Said.At == nil || !f.Said.At.Before(last.At) {
		return false
	}
	return t.Verdict.Actor != t.unheard && t.Verdict.Actor != f.Actor && len(t.naming([]finding.Finding{f})) > 0
}

// comesBy is when the first overdue volume recovers by itself or, where none is overdue, the
// volume that the pod waits for; nil unless the findings know it for each.
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

// AddFindings adds the report's findings about the pod or its volumes, and judges the wait by
// all of them.
func (t *Trace) AddFindings(report *finding.Report) {
	t.SkippedChecks = report.SkippedChecks
	t.Judge(report.Findings)
	about := slices.DeleteFunc(slices.Clone(report.Findings), func(f finding.Finding) bool { return !t.concerns(f) })
	for _, f := range finding.Leading(about, t.Pod.Namespace+"/"+t.Pod.Name) {
		t.Findings = append(t.Findings, f.Brief())
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

// knows reports whether the absence of an object of the kind proves anything; namespace is the
// object's, "" where it has none.
func (t *tracer) knows(kind snapshot.Kind, namespace string) bool {
	return t.Snapshot.CompleteIn(kind, namespace)
}

// due makes the stage a wait since then with a usual bound; a bound of 0 means that nothing under
// way will end it.
func (t *tracer) due(s Stage, since metav1.Time, bound time.Duration) Stage {
	if !since.IsZero() {
		// A new pod may wait for an old claim: its wait began with it, and is as overdue as the claim.
		s.Since, s.dueAt = new(facts.Latest(since, t.pod.CreationTimestamp)), new(metav1.NewTime(since.Add(bound)))
	}
	if bound > 0 {
		s.UsualBound = facts.Rounded(bound)
	}
	s.Overdue = bound == 0 || !since.IsZero() && t.Age(since) > bound
	if s.On == Nobody && !s.Overdue {
		// somebody may have acted since, before the lists show it
		s.On, s.nobody = "", true
	}
	return s
}

// waitsSince is when the kubelet began to wait for the pod's volumes. That is when the pod was
// bound; or, after a restart of the machine, when the kubelet found the pod without a sandbox; or
// else when its last container ended.
func waitsSince(pod *corev1.Pod) metav1.Time {
	since := facts.BoundAt(pod)
	if c := facts.Condition(pod, corev1.PodReadyToStartContainers); c != nil && c.Status == corev1.ConditionFalse {
		since = facts.Latest(since, c.LastTransitionTime)
	}
	if facts.Runs(pod) {
		return since
	}
	for _, c := range pod.Status.ContainerStatuses {
		if last := c.LastTerminationState.Terminated; last != nil { // kubelets of before 1.29 write no such condition
			since = facts.Latest(since, last.FinishedAt)
		}
	}
	return since
}

// never makes the stage a wait that nothing ends by itself.
func (t *tracer) never(s Stage, since metav1.Time) Stage {
	s.permanent = true
	return t.due(s, since, 0)
}

// Nobody is the actor where neither the pod nor its volume can be changed so that the wait
// ends.
const Nobody = kubeletwords.Nobody

func done(name StageName, since metav1.Time, detail string) Stage {
	return Stage{Stage: name, State: StageDone, Since: unlessZero(since), Detail: detail}
}

// unlessZero is nil for the zero time.
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

// after is a stage that has not begun, because an earlier one waits.
func after(name StageName) Stage {
	return Stage{Stage: name, State: StageWaiting, Detail: "comes after what is waited for above", follows: true}
}
