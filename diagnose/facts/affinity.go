package facts

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// orderedReasons are the reasons of an autoscaler's events about a new node for the pod
// (cluster-autoscaler, Karpenter).
var orderedReasons = []string{"TriggeredScaleUp", "Nominated"}

// NodeOrdered is when an autoscaler first announced a node for the pod; zero where none has. The
// first announcement counts: an autoscaler that repeats it brings no node.
func (p *View) NodeOrdered(pod *corev1.Pod) metav1.Time {
	for _, e := range InOrder(p.EventsOf(pod)) {
		if slices.Contains(orderedReasons, e.Reason) {
			return FirstTime(e)
		}
	}
	return metav1.Time{}
}

// KeptOffByPlace reports whether the scheduler's message says that the place of a volume keeps
// the pod off nodes (kube-scheduler, plugins VolumeBinding and VolumeZone).
func KeptOffByPlace(pod *corev1.Pod) bool {
	return SchedulerSays(pod, "volume node affinity conflict", "PersistentVolume's node affinity", "no available volume zone")
}

// SchedulerSays reports whether the scheduler's message about a pod without a node has one of the
// texts.
func SchedulerSays(pod *corev1.Pod, texts ...string) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && ContainsAny(c.Message, texts...)
	})
}

// MaxVolumes is part of the scheduler's message about nodes that have reached their volume
// limit (ErrReasonMaxVolumeCountExceeded, nodevolumelimits).
const MaxVolumes = "max volume count"

// VolumePlaces returns a clause for each volume of the pod that some node cannot use: its node
// affinity, and the nodes that meet it. It is nil where not all nodes were read.
func (p *View) VolumePlaces(pod *corev1.Pod) []string {
	var list []string
	if !p.Snapshot.Complete(snapshot.Nodes) {
		return nil
	}
	for i := range pod.Spec.Volumes {
		pv := p.BoundVolume(pod, &pod.Spec.Volumes[i])
		if pv == nil {
			continue
		}
		asks, suits := "", []string(nil)
		for _, node := range p.Snapshot.Nodes {
			unmet := UnmetAffinity(pv, node)
			if Virtual(node) || unmet != "" {
				asks = cmp.Or(unmet, asks)
				continue
			}
			name := node.Name
			switch {
			case !reconcile.NodeReady(node):
				name += " (not Ready)"
			case node.Spec.Unschedulable:
				name += " (cordoned)"
			}
			suits = append(suits, name)
		}
		switch n := len(suits); {
		case asks == "":
		case n == 0:
			list = append(list, fmt.Sprintf("volume %s can be used only where %s, and no node has that", pv.Name, asks))
		case n > mostSuiting:
			list = append(list, fmt.Sprintf("volume %s can be used only where %s, which %d nodes have", pv.Name, asks, n))
		default:
			list = append(list, fmt.Sprintf("volume %s can be used only where %s: %s", pv.Name, asks, strings.Join(suits, ", ")))
		}
	}
	return list
}

// OnlyMachine is the pod's volume whose node affinity names one machine, and that machine: no new
// node can suit. Both are nil where the pod has no such volume, or the machine is not there.
func (p *View) OnlyMachine(pod *corev1.Pod) (*corev1.PersistentVolume, *corev1.Node) {
	for i := range pod.Spec.Volumes {
		pv := p.BoundVolume(pod, &pod.Spec.Volumes[i])
		if pv == nil || pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil || len(pv.Spec.NodeAffinity.Required.NodeSelectorTerms) != 1 {
			continue
		}
		for _, r := range pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions {
			if r.Operator != corev1.NodeSelectorOpIn || len(r.Values) != 1 {
				continue
			}
			for _, node := range p.Snapshot.Nodes {
				if (r.Values[0] == node.Name || r.Key == corev1.LabelHostname) && node.Labels[r.Key] == r.Values[0] {
					return pv, node
				}
			}
		}
	}
	return nil, nil
}

// mostSuiting is the largest number of suitable nodes that are named; more are counted.
const mostSuiting = 3

// UnmetAffinity is the volume's node affinity, as text, where the node does not meet it; ""
// where the volume may be used there.
func UnmetAffinity(pv *corev1.PersistentVolume, node *corev1.Node) string {
	if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return ""
	}
	selector, err := nodeaffinity.NewNodeSelector(pv.Spec.NodeAffinity.Required)
	if err != nil || selector.Match(node) {
		return "" // an affinity that cannot be read proves nothing
	}
	return AffinityText(pv)
}

// AffinityText is the volume's required node affinity as text. The volume must have one.
func AffinityText(pv *corev1.PersistentVolume) string {
	text := ""
	for _, term := range pv.Spec.NodeAffinity.Required.NodeSelectorTerms {
		if text != "" {
			text += " or "
		}
		text += termText(term)
	}
	return text
}

func termText(term corev1.NodeSelectorTerm) string {
	text := ""
	for i, r := range append(append([]corev1.NodeSelectorRequirement{}, term.MatchExpressions...), term.MatchFields...) {
		if i > 0 {
			text += ", "
		}
		text += r.Key + " " + string(r.Operator)
		if len(r.Values) > 0 {
			text += fmt.Sprintf(" %v", r.Values)
		}
	}
	return text
}
