// Package kubelet arranges the traces of a node's pods by volume: what the node's kubelet would
// do next with each volume that it wants or still has.
package kubelet

import (
	"cmp"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// Node is the kubelet's part of one node. Its JSON is part of the JSON of Plan, which is a
// contract.
type Node struct {
	Node           types.NodeName `json:"node"`
	KubeletVersion string         `json:"kubeletVersion,omitempty"`
	// Volumes has a row for each volume that the kubelet wants or still has. A volume has
	// several rows where its pods wait in different stages.
	Volumes []Volume `json:"volumes"`
	// Statements are the kubelet's own statements, where it was asked.
	Statements []trace.KubeletStatement `json:"statements,omitempty"`

	traces []*trace.Trace
}

// Volume is one row.
type Volume struct {
	// Volume is the unique name; absent where the claim leads to no volume, or where the
	// kubelet makes the volume itself.
	Volume corev1.UniqueVolumeName `json:"volume,omitempty"`
	// Pods are the pods for which the kubelet has or wants the volume; empty where no pod wants
	// it any more.
	Pods []PodVolume `json:"pods"`
	// Type is the name of the field that is set in the pods' volume, such as
	// persistentVolumeClaim.
	Type             string `json:"type,omitempty"`
	PersistentVolume string `json:"persistentVolume,omitempty"`
	Driver           string `json:"driver,omitempty"`
	// State is done where the volume is mounted as its pods want it, and unknown where no
	// object shows whether they wait for it.
	State trace.StageState `json:"state"`
	// Stage is the stage in which the volume waits, absent where State is done. Stages lists
	// all stages in which it may wait, where no object shows in which one it does.
	Stage  trace.StageName   `json:"stage,omitempty"`
	Stages []trace.StageName `json:"stages,omitempty"`
	// Actor is who has to act.
	Actor string `json:"actor,omitempty"`
	// Next is the kubelet's next operation on the volume. The kubelet repeats it until it
	// succeeds. Calls are the calls that it may make to the driver meanwhile.
	Next  Operation `json:"next,omitempty"`
	Calls []Call    `json:"calls,omitempty"`
	// Pause is the longest time between two tries of Next, as a Go duration.
	Pause string `json:"pause,omitempty"`
	// Ends is what normally ends the wait.
	Ends    string       `json:"ends,omitempty"`
	Since   *metav1.Time `json:"since,omitempty"`
	DueAt   *metav1.Time `json:"dueAt,omitempty"` // when the wait takes longer than is usual
	Overdue bool         `json:"overdue,omitempty"`
	// Detail is what the objects show. Said is the message of the component that works on it.
	Detail string `json:"detail,omitempty"`
	Said   string `json:"said,omitempty"`
}

// PodVolume is a pod and the name that the pod has for the volume.
type PodVolume struct {
	Pod  string `json:"pod"`
	Name string `json:"name"`
}

// OfNode is the kubelet's part of the node. heard is what the kubelet itself reports about
// things that no object shows; nil where it was not asked.
func OfNode(view *facts.View, name types.NodeName, heard *trace.KubeletView) *Node {
	n := &Node{Node: name, Volumes: []Volume{}}
	node := view.Snapshot.Node(name)
	if node != nil {
		n.KubeletVersion = node.Status.NodeInfo.KubeletVersion
	}
	named := map[corev1.UniqueVolumeName]bool{}
	used := map[corev1.UniqueVolumeName]*corev1.Pod{} // also volumes that nothing attaches any more
	unresolved, unread := "", snapshot.Kind("")
	for _, pod := range view.Snapshot.PodsOnNode(name) {
		t := trace.OfPod(view, pod, heard)
		n.traces = append(n.traces, t)
		for _, v := range t.Volumes {
			s, ok := t.Standing(v)
			if !ok {
				continue
			}
			n.add(row(view, pod, v, s))
			named[v.Volume] = true
			pv := view.Snapshot.Volume(v.PersistentVolume)
			if pv != nil && pv.Spec.CSI != nil {
				used[reconcile.CSIVolumeName(pv.Spec.CSI.Driver, pv.Spec.CSI.VolumeHandle)] = pod
			}
			if pv != nil || v.Volume != "" || v.Claim == "" {
				continue
			}
			if kind := unreadBehind(view.Snapshot, pod.Namespace, v.Claim); kind != "" {
				unread = kind
			} else if facts.Started(pod) {
				unresolved = "claim " + pod.Namespace + "/" + v.Claim + " of pod " + facts.PodName(pod) + " leads to no volume"
			}
		}
	}
	if node != nil {
		n.addLeftovers(view, node, named, used, unresolved, unread, heard)
	}
	if heard != nil {
		n.Statements = trace.CorroborateNode(view.Snapshot, n.traces, heard)
	}
	for _, v := range n.Volumes {
		slices.SortFunc(v.Pods, comparePods)
	}
	slices.SortStableFunc(n.Volumes, func(a, b Volume) int {
		return cmp.Or(facts.BoolToInt(a.State == trace.StageDone)-facts.BoolToInt(b.State == trace.StageDone), cmp.Compare(a.Volume, b.Volume), slices.CompareFunc(a.Pods, b.Pods, comparePods))
	})
	return n
}

// unreadBehind returns the kind that was not read in full and may have the claim, or its volume; ""
// if there is none.
func unreadBehind(s *snapshot.Snapshot, namespace, name string) snapshot.Kind {
	claim := s.Claim(types.NamespacedName{Namespace: namespace, Name: name})
	switch {
	case claim == nil && !s.CompleteIn(snapshot.Claims, namespace):
		return snapshot.Claims
	case claim != nil && claim.Spec.VolumeName != "" && !s.Complete(snapshot.Volumes):
		return snapshot.Volumes
	default:
		return ""
	}
}

func comparePods(a, b PodVolume) int {
	return cmp.Or(cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Name, b.Name))
}

// add adds the row. Where a row for the same volume differs only in its pods, add gives the new
// row's pods to that row.
func (n *Node) add(v Volume) {
	for i := range n.Volumes {
		same := n.Volumes[i]
		if pods := same.Pods; v.Volume != "" && len(pods) > 0 {
			if same.Pods = v.Pods; reflect.DeepEqual(same, v) {
				n.Volumes[i].Pods = append(pods, v.Pods...)
				return
			}
		}
	}
	n.Volumes = append(n.Volumes, v)
}

// addLeftovers adds the volumes in volumesInUse that have no row.
func (n *Node) addLeftovers(view *facts.View, node *corev1.Node, named map[corev1.UniqueVolumeName]bool, used map[corev1.UniqueVolumeName]*corev1.Pod, unresolved string, unread snapshot.Kind, heard *trace.KubeletView) {
	for _, volume := range node.Status.VolumesInUse {
		if named[volume] {
			continue
		}
		named[volume] = true
		v := Volume{Volume: volume, Pods: []PodVolume{}}
		block := false
		if pv := view.World.Volume(volume); pv != nil {
			v.PersistentVolume, block = pv.Name, facts.BlockMode(pv)
		}
		v.Driver, _, _ = reconcile.ParseCSI(volume)
		s := trace.Leftover(view, node, volume, heard)
		doubt := unresolved
		if pod := used[volume]; pod != nil {
			doubt = "pod " + facts.PodName(pod) + " has it, and its CSIDriver says that nothing attaches it"
		}
		for _, pod := range view.World.LivePods(reconcile.VolumeNode{Volume: volume, Node: n.Node}) {
			if n.has(pod) {
				doubt = "pod " + facts.PodName(pod) + " reaches it by another name"
			}
		}
		if unread != "" {
			doubt = "not all " + string(unread) + " could be read"
		}
		if doubt != "" && s.Stage.State != trace.StageUnknown && len(s.Stage.Said) == 0 {
			s.Stage.State = trace.StageUnknown
			s.Stage.Detail = "volumesInUse of " + node.Name + " lists it; whether a pod uses it is not known: " + doubt
			if unread != "" {
				s.Stage.On, s.Stage.Ends = "", ""
			}
		}
		v.take(s, block, true)
		n.Volumes = append(n.Volumes, v)
	}
}

// has reports whether a row is about the pod.
func (n *Node) has(pod *corev1.Pod) bool {
	return slices.ContainsFunc(n.Volumes, func(v Volume) bool {
		return slices.ContainsFunc(v.Pods, func(p PodVolume) bool { return p.Pod == facts.PodName(pod) })
	})
}

// row is the row for one volume of one pod.
func row(view *facts.View, pod *corev1.Pod, v trace.VolumeTrace, s trace.Standing) Volume {
	r := Volume{Volume: v.Volume, Pods: []PodVolume{{facts.PodName(pod), v.Name}}, Type: v.Type, PersistentVolume: v.PersistentVolume, Driver: v.Driver}
	pv := view.Snapshot.Volume(v.PersistentVolume)
	attached := !slices.ContainsFunc(v.Stages, func(s trace.Stage) bool {
		return s.Stage == trace.StageInVolumesAttached && s.State != trace.StageDone && s.State != trace.StageNotNeeded
	})
	r.take(s, pv != nil && facts.BlockMode(pv), attached)
	return r
}

// take copies into the row where the volume stands.
func (v *Volume) take(s trace.Standing, block, attached bool) {
	v.State = s.Stage.State
	if v.State == trace.StageDone {
		return
	}
	v.Stage, v.Stages, v.Actor = s.Stage.Stage, s.Possible, s.Stage.On
	v.Ends, v.Detail, v.Since, v.DueAt, v.Overdue = s.Stage.Ends, s.Stage.Detail, s.Stage.Since, s.DueAt, s.Stage.Overdue
	if len(s.Stage.Said) > 0 {
		v.Said = s.Stage.Said[0].Text
	}
	v.Next = next(s, block, attached)
	if s.Called() {
		v.Calls = v.calls()
	}
	if pause := v.Next.pause(); pause > 0 {
		v.Pause = pause.String()
	}
}
