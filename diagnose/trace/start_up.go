package trace

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/step"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// addStartUpTaint adds the meaning of the scheduler's message where it is about a start-up taint,
// which the driver's node plugin removes once it runs on the node. starts is when the last of
// these nodes, or its plugin, began to start; zero where none has the taint.
func (t *tracer) addStartUpTaint(s *Stage) (starts metav1.Time) {
	driver, nodes := t.startUpTaint(s.Said[0].Text)
	if driver == "" {
		return starts
	}
	if s.Said[0].Means == "" {
		s.On, s.Ends = "the node plugin of "+driver, "the driver's node plugin starts on a node and takes the taint off"
	}
	means := fmt.Sprintf("a taint of driver %s keeps the pod off; no node of those that were read has it now", driver)
	if len(nodes) > 0 {
		means = fmt.Sprintf("the start-up taint of driver %s is still on %s (first %s): its node plugin takes the taint off once it has started there",
			driver, nodesCounted(len(nodes)), nodes[0].Name)
	}
	for _, node := range nodes {
		plugins := t.NodePlugins(node, "/plugins/"+driver)
		starts = facts.Latest(starts, node.CreationTimestamp)
		if ready := facts.ReadyCondition(node); ready != nil {
			starts = facts.Latest(starts, ready.LastTransitionTime)
		}
		for _, plugin := range plugins {
			starts = facts.Latest(starts, plugin.CreationTimestamp)
		}
		if s.do == "" && t.knows(snapshot.Pods, "") {
			s.do = taintAdvice(driver, node, plugins)
			if i := slices.IndexFunc(plugins, facts.Ready); i >= 0 {
				means = fmt.Sprintf("the start-up taint of driver %s is still on %s, though its node plugin is Ready there (pod %s): it has not taken the taint off",
					driver, node.Name, facts.PodName(plugins[i]))
			}
		}
	}
	s.Said[0].Means = strings.TrimPrefix(s.Said[0].Means+"; "+means, "; ")
	return starts
}

// taintAdvice is the first step about a start-up taint that stays on the node.
func taintAdvice(driver string, node *corev1.Node, plugins []*corev1.Pod) string {
	switch {
	case len(plugins) == 0:
		return fmt.Sprintf("{check} find out why no node plugin of %s runs on %s: it takes the start-up taint off once it has started", driver, node.Name)
	case slices.ContainsFunc(plugins, facts.Ready):
		return fmt.Sprintf("%s: it is Ready on %s and has left its start-up taint there", step.RestartNodePlugin.Of(driver+"@"+node.Name), node.Name)
	default:
		return fmt.Sprintf("{check} see why pod %s, the node plugin of %s on %s, is not Ready (%s): it takes the start-up taint off once it has started",
			facts.PodName(plugins[0]), driver, node.Name, facts.PluginState(plugins[0]))
	}
}

// startUpTaint returns the driver of the start-up taint in the scheduler's message, and the nodes
// with the taint. The taint's key begins with its driver's name. driver is "" for other messages.
func (t *tracer) startUpTaint(message string) (driver string, tainted []*corev1.Node) {
	if !strings.Contains(message, "untolerated taint") {
		return "", nil
	}
	for _, driver := range t.Snapshot.CSIDrivers {
		for _, node := range t.Snapshot.Nodes {
			if slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
				// Releases that write "untolerated taint(s)" do not name the taint.
				named := strings.Contains(message, "{"+taint.Key) || strings.Contains(message, "taint(s)")
				return named && strings.HasPrefix(taint.Key, driver.Name+"/")
			}) {
				tainted = append(tainted, node)
			}
		}
		if len(tainted) > 0 || strings.Contains(message, "{"+driver.Name+"/") {
			return driver.Name, tainted
		}
	}
	return "", nil
}

// noScaleUp is the reason of the cluster autoscaler's event about a pod for which it adds no node.
const noScaleUp = "NotTriggerScaleUp"

// noCSINode is part of the autoscaler's message where it counts volumes
// (--enable-csi-node-aware-scheduling) and knows no CSINode for the machine that it would add. A
// group without a node may have none.
const noCSINode = "csi nodes "

// addAutoscaler adds what the cluster autoscaler says where volumes are among its reasons to add
// no node. Where the scheduler names no volume, the autoscaler comes first.
func (t *tracer) addAutoscaler(s *Stage) {
	e := t.lastEvent(noScaleUp)
	if e == nil || t.Age(snapshot.EventTime(e)) > facts.EventRepeats {
		return
	}
	means := schedulerMeans(e.Message)
	blind := strings.Contains(e.Message, noCSINode) && strings.Contains(e.Message, "not found")
	if blind {
		means = "the cluster autoscaler knows no CSINode of the machine that it would add, and so cannot count its volumes"
	}
	if means == "" {
		return
	}
	said := quote(e, means)
	if s.Said[0].Means != "" {
		s.Said = append(s.Said, said)
		return
	}
	s.On, s.Ends = "the cluster autoscaler", "the autoscaler adds a node, or a node suits the pod"
	s.Said[0].Means, s.Said = "the scheduler names no volume", slices.Insert(s.Said, 0, said)
	s.do = "{change} add a node that suits the pod, or {fix} see to the reason that the autoscaler gives"
	if blind {
		s.do = "add the first node of the autoscaler's node group by hand, or {change} turn off its flag --enable-csi-node-aware-scheduling: it may know no CSINode for an empty group"
	}
}
