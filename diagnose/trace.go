package diagnose

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
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

	Pod            Object         `json:"pod"`
	Node           types.NodeName `json:"node,omitempty"`
	KubeletVersion string         `json:"kubeletVersion,omitempty"`
	Direction      TraceDirection `json:"direction"`
	Verdict        TraceVerdict   `json:"verdict"`
	Volumes        []TraceVolume  `json:"volumes"`
	// Kubelet is what the node's kubelet says itself, where it was asked.
	Kubelet *TraceKubelet `json:"kubelet,omitempty"`
	// Findings are those of the checks that concern the pod or its volumes.
	Findings      []TraceFinding `json:"findings"`
	SkippedChecks []SkippedCheck `json:"skippedChecks"`
}

// TraceDirection is where the pod's volumes are on their way to.
type TraceDirection string

// The directions.
const (
	TraceUp   TraceDirection = "up"   // towards mounted
	TraceDown TraceDirection = "down" // towards detached: the pod ends
)

// TraceVerdict answers the one question: does the pod wait for a volume?
type TraceVerdict struct {
	State TraceWait `json:"state"`
	// Reason is a stage's name, or what the pod waits for in place of a volume.
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Volume is the pod's own name of the volume that it waits for.
	Volume     string       `json:"volume,omitempty"`
	Since      *metav1.Time `json:"since,omitempty"`
	UsualBound string       `json:"usualBound,omitempty"`
}

// TraceWait says whether the pod waits for a volume.
type TraceWait string

// The answers.
const (
	TraceNoWait   TraceWait = "none"     // it waits for no volume
	TraceInFlight TraceWait = "inFlight" // it waits, not longer than is usual
	TraceStuck    TraceWait = "stuck"    // it waits for longer than is usual, or in vain
	TraceUnsure   TraceWait = "unknown"  // what could be read does not tell
)

// TraceVolume is one of the pod's volumes.
type TraceVolume struct {
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
// but the kubelet and the controller work on AskedFor and Attached side by side.
type StageName string

// The stages, up and down.
const (
	StageScheduled  StageName = "scheduled"
	StageClaimBound StageName = "claimBound"
	StageAskedFor   StageName = "askedFor" // in the node's volumesInUse
	StageAttached   StageName = "attached"
	StageListed     StageName = "listed" // in the node's volumesAttached
	StageRegistered StageName = "driverRegistered"
	StageStaged     StageName = "staged"
	StageMounted    StageName = "mounted"

	StageStopped   StageName = "containersStopped"
	StageUnmounted StageName = "unmounted"
	StageUnstaged  StageName = "unstaged" // has left the node's volumesInUse
	StageDetached  StageName = "detached"
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

	// reason replaces the stage's name in the verdict.
	reason string
	// follows says that the stage has not begun: it comes after a broken one.
	follows bool
}

// Said is a message, and what it means in the release of who wrote it.
type Said struct {
	By    string       `json:"by"`
	At    *metav1.Time `json:"at,omitempty"`
	Text  string       `json:"text"`
	Means string       `json:"means,omitempty"`
}

// TraceFinding is a finding that concerns the pod, in short.
type TraceFinding struct {
	Code     Code     `json:"code"`
	Check    string   `json:"check"`
	Severity Severity `json:"severity"`
	Message  string   `json:"message"`
	Explain  string   `json:"explain"`
}

// tracer is one trace under way.
type tracer struct {
	*Pass
	pod  *corev1.Pod
	node *corev1.Node // nil where there is none, or none was read
	// events are the pod's, oldest first.
	events  []*corev1.Event
	kubelet kubeletRelease
}

// TracePod follows the volumes of the pod, which must be one of the snapshot's.
func TracePod(s *snapshot.Snapshot, pod *corev1.Pod, opts Options) *Trace {
	world := reconcile.NewWorld(s, opts.Reconcile)
	plan := world.Reconcile()
	t := &tracer{
		Pass: &Pass{Snapshot: s, World: world, Plan: plan},
		pod:  pod,
		node: s.Node(types.NodeName(pod.Spec.NodeName)),
	}
	t.events = slices.SortedStableFunc(slices.Values(s.EventsOf(pod.UID)), func(a, b *corev1.Event) int {
		at, bt := eventTime(a), eventTime(b)
		return cmp.Or(at.Compare(bt.Time), cmp.Compare(a.Name, b.Name))
	})
	trace := &Trace{
		APIVersion: APIVersion, Kind: "Trace",
		TakenAt: metav1.NewTime(s.TakenAt.UTC()), KubernetesVersion: s.Source.ServerVersion,
		Source: s.Source, Complete: len(s.Gaps) == 0, Gaps: append([]snapshot.Gap{}, s.Gaps...),
		Pod: podObject(pod), Node: types.NodeName(pod.Spec.NodeName),
		Direction: TraceUp, Volumes: []TraceVolume{}, Findings: []TraceFinding{},
	}
	if t.node != nil {
		trace.KubeletVersion = t.node.Status.NodeInfo.KubeletVersion
	}
	t.kubelet = parseKubelet(trace.KubeletVersion)
	if ends(pod) {
		trace.Direction = TraceDown
	}
	for i := range pod.Spec.Volumes {
		trace.Volumes = append(trace.Volumes, t.follow(&pod.Spec.Volumes[i], trace.Direction))
	}
	if trace.Direction == TraceUp {
		explained(trace.Volumes)
		trace.Verdict = t.verdictUp(trace.Volumes)
	} else {
		trace.Verdict = t.verdictDown(trace.Volumes)
	}
	report := Examine(s, world, plan, opts.Checks)
	trace.SkippedChecks = report.SkippedChecks
	for _, f := range report.Findings {
		if t.concerns(f, trace.Volumes) {
			trace.Findings = append(trace.Findings, TraceFinding{f.Code, f.Check, f.Severity, f.Message,
				"kubectl volume-doctor explain " + string(f.Code)})
		}
	}
	return trace
}

// ends says that the pod gives its volumes back, or should.
func ends(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

func (t *tracer) concerns(f Finding, volumes []TraceVolume) bool {
	if slices.Contains(f.Pods, podName(t.pod)) || f.Subject == podObject(t.pod) {
		return true
	}
	return slices.ContainsFunc(volumes, func(v TraceVolume) bool {
		return v.Volume != "" && f.Volume == v.Volume || v.PersistentVolume != "" && f.PersistentVolume == v.PersistentVolume
	})
}

// knows says whether the absence of an object of the kind proves something; the
// namespace is that of the object, "" where it has none.
func (t *tracer) knows(kind snapshot.Kind, namespace string) bool {
	return !slices.ContainsFunc(t.Snapshot.Gaps, func(g snapshot.Gap) bool {
		return g.Kind == kind && (namespace == "" || g.Namespace != namespace)
	})
}

// due makes the stage a wait with a usual bound; none means that nothing that
// is under way will end it.
func (t *tracer) due(s Stage, since metav1.Time, bound time.Duration) Stage {
	if !since.IsZero() {
		s.Since = &since
	}
	if bound > 0 {
		s.UsualBound = rounded(bound)
	}
	s.Overdue = bound == 0 || !since.IsZero() && t.Age(since) > bound
	return s
}

func done(name StageName, since metav1.Time, detail string) Stage {
	s := Stage{Stage: name, State: StageDone, Detail: detail}
	if !since.IsZero() {
		s.Since = &since
	}
	return s
}

func unread(name StageName, kind snapshot.Kind) Stage {
	return Stage{Stage: name, State: StageUnknown, Detail: "not all " + string(kind) + " could be read"}
}

func notNeeded(name StageName, why string) Stage {
	return Stage{Stage: name, State: StageNotNeeded, Detail: why}
}

// after is a stage that has not begun.
func after(name StageName) Stage {
	return Stage{Stage: name, State: StageWaiting, Detail: "comes after what is waited for above", follows: true}
}
