package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// Preflight says what would become of a node's volumes, and of the pods that
// use them, if the node were drained or lost now. Its JSON is a contract, as
// Report's is.
type Preflight struct {
	APIVersion        string          `json:"apiVersion"`
	Kind              string          `json:"kind"`
	TakenAt           metav1.Time     `json:"takenAt"`
	KubernetesVersion string          `json:"kubernetesVersion,omitempty"`
	Source            snapshot.Source `json:"source"`
	Complete          bool            `json:"complete"`
	Gaps              []snapshot.Gap  `json:"gaps"`

	Node  types.NodeName `json:"node"`
	Ready bool           `json:"ready"`
	// Missing are the kinds without which there is no answer.
	Missing []snapshot.Kind `json:"missing,omitempty"`
	Drain   Scenario        `json:"drain"`
	Loss    Scenario        `json:"loss"`
	// Stranded are pods that nobody makes anew.
	Stranded []string        `json:"stranded"`
	Room     []PreflightRoom `json:"room"`
	Timers   []Timer         `json:"timers"`
	Findings []TraceFinding  `json:"findings"`
	// NotExamined may hold up a drain, or keep a pod from a node with room, and
	// has no part in the answer, which is about volumes.
	NotExamined []string `json:"notExamined"`
}

// Scenario is what would happen in one of the two cases.
type Scenario struct {
	// Waits has a row for each volume of each pod that would move.
	Waits []PreflightWait `json:"waits"`
	// Hangs are what would take longer than the timers explain.
	Hangs []Hang `json:"hangs"`
}

// PreflightWait is one pod and one volume that its successor needs.
type PreflightWait struct {
	Pod              string                  `json:"pod"`
	Controller       string                  `json:"controller,omitempty"`
	PersistentVolume string                  `json:"persistentVolume"`
	Volume           corev1.UniqueVolumeName `json:"volume,omitempty"`
	// For is what the successor waits for.
	For PreflightCause `json:"for"`
	// AtMost is the longest time until the volume is free, counted from the
	// drain or the loss; "" with Never.
	AtMost string `json:"atMost,omitempty"`
	// Never says that it takes a person, or the Node to be deleted.
	Never   bool   `json:"never,omitempty"`
	Because string `json:"because"`
}

// PreflightCause is what a successor waits for.
type PreflightCause string

// The causes.
const (
	WaitsForNothing     PreflightCause = "Nothing"     // the volume can be used on both nodes
	WaitsForUnmount     PreflightCause = "Unmount"     // and the detach after it
	WaitsForForceDetach PreflightCause = "ForceDetach" // after the controller's time-out
	WaitsForPod         PreflightCause = "Pod"         // the old pod's object must go first
	WaitsForNode        PreflightCause = "Node"        // no other node may have the volume
)

// Hang is what would not end in its time.
type Hang struct {
	Volume           corev1.UniqueVolumeName `json:"volume,omitempty"`
	PersistentVolume string                  `json:"persistentVolume,omitempty"`
	VolumeAttachment string                  `json:"volumeAttachment,omitempty"`
	Pods             []string                `json:"pods"`
	Because          string                  `json:"because"`
}

// Timer is one of the times that the answer is made of.
type Timer struct {
	Name    string `json:"name"`
	Value   string `json:"value"`
	Because string `json:"because"`
}

const (
	// defaultGrace is a pod's time to end where it names none.
	defaultGrace = 30 * time.Second
	// inUseReport is how long a volume that has been unstaged may stay in
	// volumesInUse: the kubelet writes its status each 10 s.
	inUseReport = 10 * time.Second
	// lostAfter is --node-monitor-grace-period: how long a node may be silent
	// before it counts as not Ready. It was lostBefore132 up to 1.31.
	lostAfter     = 50 * time.Second
	lostBefore132 = 40 * time.Second
	// evictAfter is what every pod tolerates of a node that is not Ready, where
	// it says nothing else (the admission plug-in DefaultTolerationSeconds).
	evictAfter = 300 * time.Second
)

// preflightNeeds are the kinds without which an answer would be a guess.
var preflightNeeds = []snapshot.Kind{
	snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSIDrivers, snapshot.CSINodes,
}

var notExamined = []string{"PodDisruptionBudgets", "pod affinity and node selectors", "taints", "CPU and memory"}

// flight is one preflight under way.
type flight struct {
	*Pass
	name types.NodeName
	node *corev1.Node // nil where only a CSINode is left
	opts reconcile.Options
	lost time.Duration
	// onNode are the attachments whose volume can be told.
	onNode map[types.NodeName][]attachment
}

// PreflightNode looks ahead for the node.
func PreflightNode(s *snapshot.Snapshot, name types.NodeName, opts Options) *Preflight {
	world := reconcile.NewWorld(s, opts.Reconcile)
	plan := world.Reconcile()
	if opts.Reconcile.MaxWaitForUnmount == 0 {
		opts.Reconcile.MaxWaitForUnmount = reconcile.DefaultMaxWaitForUnmount
	}
	f := &flight{Pass: &Pass{Snapshot: s, World: world, Plan: plan}, name: name, node: s.Node(name), opts: opts.Reconcile, lost: lostAfter}
	f.onNode = map[types.NodeName][]attachment{}
	for _, a := range f.attachments() {
		f.onNode[a.Node] = append(f.onNode[a.Node], a)
	}
	if v := parseKubelet(s.Source.ServerVersion); v.before(32) {
		f.lost = lostBefore132
	}
	p := &Preflight{
		APIVersion: APIVersion, Kind: "Preflight",
		TakenAt: metav1.NewTime(s.TakenAt.UTC()), KubernetesVersion: s.Source.ServerVersion,
		Source: s.Source, Complete: len(s.Gaps) == 0, Gaps: append([]snapshot.Gap{}, s.Gaps...),
		Node: name, Ready: reconcile.NodeReady(f.node),
		Drain:    Scenario{Waits: []PreflightWait{}, Hangs: []Hang{}},
		Loss:     Scenario{Waits: []PreflightWait{}, Hangs: []Hang{}},
		Stranded: []string{}, Findings: []TraceFinding{}, Timers: f.timers(),
		NotExamined: slices.Clone(notExamined),
	}
	for _, kind := range preflightNeeds {
		if !s.Complete(kind) {
			p.Missing = append(p.Missing, kind)
		}
	}
	moving := f.moving()
	for _, pod := range moving {
		f.pod(p, pod)
	}
	f.hangs(p)
	p.Room = f.room(moving)
	for _, finding := range Examine(s, world, plan, opts.Checks).Findings {
		if finding.Node == name {
			p.Findings = append(p.Findings, TraceFinding{finding.Code, finding.Check, finding.Severity, finding.Message,
				"kubectl volume-doctor explain " + string(finding.Code)})
		}
	}
	return p
}

// Hangs says whether anything would take longer than the timers explain.
func (p *Preflight) Hangs() bool {
	return len(p.Drain.Hangs)+len(p.Loss.Hangs) > 0 || slices.ContainsFunc(p.Room, func(r PreflightRoom) bool { return r.Lacking > 0 })
}

// moving are the pods that a drain would evict: neither ended nor bound to the
// node by their controller.
func (f *flight) moving() []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(f.Snapshot.PodsOnNode(f.name)), func(pod *corev1.Pod) bool {
		owner := metav1.GetControllerOf(pod)
		return reconcile.PodTerminated(pod) || pod.Annotations[corev1.MirrorPodAnnotationKey] != "" ||
			owner != nil && (owner.Kind == "DaemonSet" || owner.Kind == "Node")
	})
}

// flightVolume is a volume that a pod takes along.
type flightVolume struct {
	pv   *corev1.PersistentVolume
	name corev1.UniqueVolumeName // "" where it is not attached
	// one says that one node at a time may have it.
	one bool
}

func (v flightVolume) title() string { return v.pv.Name }

// volumesOf are the PVs that the pod uses through its claims.
func (f *flight) volumesOf(pod *corev1.Pod) []flightVolume {
	var list []flightVolume
	for i := range pod.Spec.Volumes {
		claim := f.Snapshot.Claim(claimKey(pod, reconcile.ClaimName(pod, &pod.Spec.Volumes[i])))
		if claim == nil || claim.Spec.VolumeName == "" {
			continue
		}
		pv := f.Snapshot.Volume(claim.Spec.VolumeName)
		if pv == nil || slices.ContainsFunc(list, func(v flightVolume) bool { return v.pv == pv }) {
			continue
		}
		v := flightVolume{pv: pv}
		if name, err := f.World.VolumeName(pv); err == nil {
			v.name, v.one = name, f.oneNode(name)
		}
		list = append(list, v)
	}
	slices.SortFunc(list, func(a, b flightVolume) int { return cmp.Compare(a.pv.Name, b.pv.Name) })
	return list
}

// controllerText is the pod's controller as kubectl takes it.
func controllerText(pod *corev1.Pod) string {
	if owner := metav1.GetControllerOf(pod); owner != nil {
		return strings.ToLower(owner.Kind) + "/" + owner.Name
	}
	return ""
}

func (f *flight) timers() []Timer {
	force := Timer{"force detach", rounded(f.opts.MaxWaitForUnmount), "from when no pod object on the node wants the volume any more, while the node is not Ready"}
	if f.opts.DisableForceDetachOnTimeout {
		force = Timer{"force detach", "never", "--disable-force-detach-on-timeout"}
	}
	return []Timer{
		{"grace period", rounded(defaultGrace), "a pod's own where it names one"},
		{"volumesInUse", rounded(inUseReport), "the kubelet writes its status that often"},
		{"detach", rounded(detachTakes), "how long the controller waits for one detach"},
		{"node not Ready", rounded(f.lost), "--node-monitor-grace-period"},
		{"eviction", rounded(evictAfter), "what a pod tolerates of a lost node, where it says nothing else"},
		force,
	}
}

// tolerates is how long the pod stays on a node that is lost; ok is false where
// it does so for ever.
func tolerates(pod *corev1.Pod) (after time.Duration, ok bool) {
	after, ok = evictAfter, true
	for _, t := range pod.Spec.Tolerations {
		every := t.Key == "" && t.Operator == corev1.TolerationOpExists
		if t.Key != corev1.TaintNodeUnreachable && !every || t.Effect != corev1.TaintEffectNoExecute && t.Effect != "" {
			continue
		}
		if t.TolerationSeconds == nil {
			return 0, false
		}
		after = time.Duration(max(0, *t.TolerationSeconds)) * time.Second
	}
	return after, ok
}

func grace(pod *corev1.Pod) time.Duration {
	if s := pod.Spec.TerminationGracePeriodSeconds; s != nil {
		return time.Duration(*s) * time.Second
	}
	return defaultGrace
}

func (f *flight) detachTime(pod *corev1.Pod) string {
	return fmt.Sprint(grace(pod) + inUseReport + detachTakes)
}
