// Package preflight looks ahead: what would hang, and how long pods would wait, if
// a node were drained or lost now.
package preflight

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// Preflight says what would become of a node's volumes, and of the pods that
// use them, if the node were drained or lost now. Its JSON is a contract, as
// Report's is.
type Preflight struct {
	finding.Head

	Node types.NodeName `json:"node"`
	// Ready is the node's Ready condition; nil where the node was not read.
	Ready *bool `json:"ready,omitempty"`
	// Lost reports whether nothing is heard of the kubelet of a node that is not Ready.
	Lost bool `json:"lost,omitempty"`
	// Missing are the kinds without which there is no answer.
	Missing []snapshot.Kind `json:"missing,omitempty"`
	Drain   Scenario        `json:"drain"`
	Loss    Scenario        `json:"loss"`
	// Controllers are the drivers whose only attacher runs on the node.
	Controllers []Controller `json:"controllers,omitempty"`
	// Deletes are the disks that go once the node's pods have ended.
	Deletes []Deletion `json:"deletes,omitempty"`
	// Stranded are pods that nobody makes again.
	Stranded []string        `json:"stranded"`
	Room     []Room          `json:"room"`
	Timers   []Timer         `json:"timers"`
	Findings []finding.Brief `json:"findings"`
	// Waiting are the pods that already wait, for the findings.
	Waiting []finding.Waiting `json:"waiting"`
	// NotExamined are obstacles to a drain, or to a pod's new node, that have nothing to do with
	// volumes and are not part of the answer.
	NotExamined []string `json:"notExamined"`
}

// Scenario is what would happen in one of the two cases.
type Scenario struct {
	// Waits has a row for each volume of each pod that would move.
	Waits []Wait `json:"waits"`
	// Hangs are what would take longer than the timers explain.
	Hangs []Hang `json:"hangs"`
}

// Wait is one pod and one volume that its successor needs.
type Wait struct {
	Pod              string                  `json:"pod"`
	Controller       string                  `json:"controller,omitempty"`
	PersistentVolume string                  `json:"persistentVolume"`
	Volume           corev1.UniqueVolumeName `json:"volume,omitempty"`
	// For is what the successor waits for.
	For Cause `json:"for"`
	// AtMost is the longest time until the volume is free, counted from the
	// drain or the loss; "" with Never, and where nothing bounds it.
	AtMost string `json:"atMost,omitempty"`
	// Never reports whether the wait ends only if a person acts or the Node is deleted.
	Never   bool   `json:"never,omitempty"`
	Because string `json:"because"`
}

// Cause is what a successor waits for.
type Cause string

// The causes.
const (
	WaitsForNothing     Cause = "Nothing"     // the volume can be used on both nodes
	WaitsForUnmount     Cause = "Unmount"     // and the detach after it
	WaitsForForceDetach Cause = "ForceDetach" // after the controller's time-out
	WaitsForPod         Cause = "Pod"         // the old pod's object must go first
	WaitsForNode        Cause = "Node"        // no other node may have the volume
	WaitsForUnknown     Cause = "Unknown"     // what was not read may decide it
)

// Hang is what would not end in its time.
type Hang struct {
	Volume           corev1.UniqueVolumeName `json:"volume,omitempty"`
	PersistentVolume string                  `json:"persistentVolume,omitempty"`
	VolumeAttachment string                  `json:"volumeAttachment,omitempty"`
	Pods             []string                `json:"pods"`
	Because          string                  `json:"because"`
	// Perhaps reports whether it depends on an unknown fact, such as the scheduler's choice.
	Perhaps bool `json:"perhaps,omitempty"`
}

// Controller is the only pod that attaches and detaches a driver's volumes.
type Controller struct {
	Driver string `json:"driver"`
	Pod    string `json:"pod"`
	// Perhaps says that no lease shows whether the pod attaches for this driver.
	Perhaps bool `json:"perhaps,omitempty"`
	// Away is what happens to the driver's volumes, in the whole cluster, once the pod is gone.
	Away string `json:"away"`
}

// Deletion is a volume whose disk is deleted once its pods have ended: its claim is gone by then,
// and the reclaim policy is Delete.
type Deletion struct {
	PersistentVolume string `json:"persistentVolume"`
	// Keep is the command that keeps the disk.
	Keep string `json:"keep"`
}

// Timer is one of the times in the answer.
type Timer struct {
	Name    string `json:"name"`
	Value   string `json:"value"`
	Because string `json:"because"`
}

// preflightNeeds are the kinds without which an answer would be a guess.
var preflightNeeds = []snapshot.Kind{
	snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSIDrivers, snapshot.CSINodes,
	snapshot.Leases, // an attacher that has stopped detaches nothing
}

// gapsOf are the snapshot's gaps in kinds that the answer needs. Events decide only which findings and waits the node
// has now; no volume that exists needs its StorageClass.
func gapsOf(s *snapshot.Snapshot, needs []snapshot.Kind) []snapshot.Gap {
	return slices.DeleteFunc(append([]snapshot.Gap{}, s.Gaps...), func(g snapshot.Gap) bool { return !slices.Contains(needs, g.Kind) })
}

// flight is one preflight under way.
type flight struct {
	*facts.View
	name types.NodeName
	node *corev1.Node // nil where only a CSINode is left
	opts reconcile.Options
	lost time.Duration
}

// OfNode looks ahead for the node. The preflight names those of the report's
// findings that are about it.
func OfNode(view *facts.View, name types.NodeName, settings reconcile.Options, report *finding.Report) *Preflight {
	s := view.Snapshot
	settings.MaxWaitForUnmount = cmp.Or(settings.MaxWaitForUnmount, reconcile.DefaultMaxWaitForUnmount)
	f := &flight{View: view, name: name, node: s.Node(name), opts: settings, lost: facts.NodeMonitorGrace}
	if v := facts.ParseKubelet(s.Source.ServerVersion); v.Before(32) {
		f.lost = facts.NodeMonitorGraceBefore132
	}
	p := &Preflight{
		Head: finding.HeadOf("Preflight", s), Node: name, Ready: f.ready(), Lost: f.down() && f.silent(),
		Drain: Scenario{Waits: []Wait{}, Hangs: []Hang{}},
		Loss:  Scenario{Waits: []Wait{}, Hangs: []Hang{}},
		Room:  []Room{}, Stranded: []string{}, Timers: f.timers(),
		Missing:     f.missing(),
		NotExamined: []string{"PodDisruptionBudgets", "pod affinity and node selectors", "taints", "CPU and memory"},
	}
	p.Gaps = gapsOf(s, slices.Concat(preflightNeeds, []snapshot.Kind{snapshot.Events}))
	p.Complete = len(p.Gaps) == 0
	moving := f.moving()
	p.Controllers = f.controllers()
	for _, pod := range moving {
		f.pod(p, pod)
	}
	for _, pv := range f.DisksThatGo(moving) {
		p.Deletes = append(p.Deletes, Deletion{pv.Name, facts.Retain(pv)})
	}
	f.hangs(p, moving)
	for _, s := range []*Scenario{&p.Drain, &p.Loss} {
		s.unbound(len(p.Missing) > 0)
	}
	if len(p.Missing) == 0 { // otherwise an unread node may have room
		p.Room = f.room(moving)
	}
	p.Findings = f.briefs(report)
	onNode := slices.DeleteFunc(slices.Clone(report.Findings), func(finding_ finding.Finding) bool { return finding_.Node != name })
	p.Waiting = append([]finding.Waiting{}, report.WaitingFor(onNode)...)
	return p
}

// briefs are the findings about the node and about pods on it, without those that follow from
// another of them about the same pods.
func (f *flight) briefs(report *finding.Report) []finding.Brief {
	names := facts.PodNames(f.Snapshot.PodsOnNode(f.name))
	pods := sets.New(names...)
	here := slices.DeleteFunc(slices.Clone(report.Findings), func(finding_ finding.Finding) bool {
		return finding_.Node != f.name && !pods.HasAny(finding_.Pods...)
	})
	briefs := []finding.Brief{}
	for _, finding_ := range finding.Leading(here, names...) {
		briefs = append(briefs, finding_.Brief())
	}
	return briefs
}

// missing are the kinds without which there is no answer. Only an event may show that a controller whose lease has
// expired is at work.
func (f *flight) missing() []snapshot.Kind {
	needs := slices.Clone(preflightNeeds)
	if f.ControllerDown() != nil {
		needs = append(needs, snapshot.Events)
	}
	return slices.DeleteFunc(needs, f.Snapshot.Complete)
}

// ready reports whether the node is Ready; nil where that is not known.
func (f *flight) ready() *bool {
	if f.node == nil && !f.Snapshot.Complete(snapshot.Nodes) {
		return nil
	}
	return new(reconcile.NodeReady(f.node))
}

// Hangs reports whether anything would take longer than the timers explain.
func (p *Preflight) Hangs() bool {
	return len(p.Drain.Hangs)+len(p.Loss.Hangs) > 0 || slices.ContainsFunc(p.Room, func(r Room) bool { return r.Lacking > 0 })
}

// Incomplete reports whether there is no answer, or what was not read may turn the good one into another.
func (p *Preflight) Incomplete() bool {
	return len(p.Missing) > 0 || !p.Complete && !p.Hangs() && len(p.Deletes) == 0
}

// Stays reports whether a drain or the loss of the node ends a pod that no timer brings back.
func (p *Preflight) Stays() bool { return p.Drain.Staying()+p.Loss.Staying() > 0 }

// moving are the pods that a drain would evict: neither ended nor bound to the
// node by their controller.
func (f *flight) moving() []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(f.Snapshot.PodsOnNode(f.name)), func(pod *corev1.Pod) bool {
		return reconcile.PodTerminated(pod) || pod.Annotations[corev1.MirrorPodAnnotationKey] != "" ||
			facts.ControlledBy(pod, "DaemonSet") || facts.ControlledBy(pod, "Node")
	})
}

// flightVolume is a volume that a pod takes along.
type flightVolume struct {
	claim *corev1.PersistentVolumeClaim
	pv    *corev1.PersistentVolume
	name  corev1.UniqueVolumeName // "" where it is not attached
	// one reports whether only one node at a time may have it.
	one bool
	// unsure reports whether it is unknown if the volume has to be attached.
	unsure bool
}

// driver is the CSI driver of the volume; "" where it has none.
func (v flightVolume) driver() string {
	if csi := v.pv.Spec.CSI; csi != nil {
		return csi.Driver
	}
	driver, _, _ := reconcile.ParseCSI(v.name) // an in-tree volume that has moved to CSI
	return driver
}

// volumesOf are the PVs that the pod uses through its claims.
func (f *flight) volumesOf(pod *corev1.Pod) []flightVolume {
	var list []flightVolume
	for i := range pod.Spec.Volumes {
		claim := f.ClaimOf(pod, &pod.Spec.Volumes[i])
		if claim == nil || claim.Spec.VolumeName == "" {
			continue
		}
		pv := f.Snapshot.Volume(claim.Spec.VolumeName)
		if pv == nil || slices.ContainsFunc(list, func(v flightVolume) bool { return v.pv == pv }) {
			continue
		}
		v := flightVolume{claim: claim, pv: pv}
		if name, err := f.World.VolumeName(pv); err == nil {
			driver, _, ok := reconcile.ParseCSI(name)
			if v.unsure = ok && !f.Snapshot.KnowsDriver(driver); !v.unsure {
				v.name, v.one = name, f.OneNode(name)
			}
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
	force := Timer{"force detach", facts.Rounded(f.opts.MaxWaitForUnmount), "from when no pod object on the node wants the volume any more, while the node is not Ready"}
	if f.opts.DisableForceDetachOnTimeout {
		force = Timer{"force detach", "never", "--disable-force-detach-on-timeout"}
	}
	return []Timer{
		{"grace period", facts.Rounded(facts.DefaultTerminationGrace), "a pod's own where it names one"},
		{"volumesInUse", facts.Rounded(reconcile.NodeStatusUpdate), "the kubelet writes its status that often"},
		{"detach", facts.Rounded(facts.DetachTakes), "how long the controller waits for one detach"},
		{"node not Ready", facts.Rounded(f.lost), "--node-monitor-grace-period"},
		{"eviction", facts.Rounded(facts.DefaultToleration), "what a pod tolerates of a lost node, where it says nothing else"},
		force,
	}
}

// tolerates is how long the pod stays on a node that is lost; ok is false where
// it does so for ever.
func tolerates(pod *corev1.Pod) (after time.Duration, ok bool) {
	after, ok = facts.DefaultToleration, true
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
	return facts.DefaultTerminationGrace
}
