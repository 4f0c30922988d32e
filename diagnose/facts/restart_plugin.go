package facts

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/step"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
)

// atStake are the pods that have volumes mounted through a node plugin, and the fate of those
// mounts when the plugin's pod ends.
type atStake struct {
	pods    []*corev1.Pod
	drivers []string // the drivers that the plugin serves, with volumes there
	serving Serving  // the worst of their mounts
	unknown int      // the number of pods that are at stake only because a claim or volume is gone
}

// servedBy are the pods at stake with the driver's node plugin on the node; node "" means all
// nodes. A plugin's pod may serve several drivers.
func (p *View) servedBy(driver string, node types.NodeName) atStake {
	drivers := []string{driver}
	for on, plugins := range p.Plugins()[driver] {
		for _, plugin := range plugins {
			if node == "" || on == node {
				drivers = append(drivers, SocketDirectories(plugin)...)
			}
		}
	}
	slices.Sort(drivers)
	stake := atStake{serving: ServesNone}
	var known []*corev1.Pod
	for _, driver := range slices.Compact(drivers) {
		users, lost := p.mountersOf(driver, node), p.mountersOfLost(node)
		lost = slices.DeleteFunc(lost, func(pod *corev1.Pod) bool {
			m := Mount{HostNetwork: hostNetwork(p.Plugins()[driver][NodeOf(pod)]), Unknown: true}
			return slices.Contains(users, pod) || NodePluginServesMounts(driver, m) == ServesNone
		})
		if len(users) == 0 && len(lost) == 0 {
			continue
		}
		stake.pods, stake.drivers = slices.Concat(stake.pods, users, lost), append(stake.drivers, driver)
		known = append(known, users...)
		if len(lost) > 0 {
			stake.serving = worse(stake.serving, mayServe) // the driver of the mount is not known
		}
		for _, pod := range users {
			for i := range pod.Spec.Volumes {
				if name, _ := p.CsiVolume(pod, &pod.Spec.Volumes[i]); name == driver {
					stake.serving = worse(stake.serving, NodePluginServesMounts(driver, p.mount(pod, &pod.Spec.Volumes[i], p.Plugins()[driver][NodeOf(pod)])))
				}
			}
		}
	}
	stake.pods = EachOnce(stake.pods)
	stake.unknown = len(stake.pods) - len(EachOnce(known))
	return stake
}

// mount describes how the pod's volume is mounted through the plugins.
func (p *View) mount(pod *corev1.Pod, v *corev1.Volume, plugins []*corev1.Pod) Mount {
	m := Mount{HostNetwork: hostNetwork(plugins)}
	if v.CSI != nil {
		m.Attributes = v.CSI.VolumeAttributes
	} else if pv := p.BoundVolume(pod, v); pv != nil {
		m.Shared = slices.Contains(pv.Spec.AccessModes, corev1.ReadWriteMany)
		if pv.Spec.CSI != nil {
			m.Attributes = pv.Spec.CSI.VolumeAttributes
		}
	}
	return m
}

// hostNetwork reports whether all the plugins are known to use the machine's network.
func hostNetwork(plugins []*corev1.Pod) bool {
	return len(plugins) > 0 && !slices.ContainsFunc(plugins, func(pod *corev1.Pod) bool { return !pod.Spec.HostNetwork })
}

func worse(a, b Serving) Serving {
	for _, s := range []Serving{serves, mayServe} {
		if a == s || b == s {
			return s
		}
	}
	return ServesNone
}

// RestartOfPlugin is the step that restarts the driver's node plugin on the node; node "" means
// on all nodes, one after the other.
func (p *View) RestartOfPlugin(driver string, node types.NodeName) finding.Step {
	stake := p.servedBy(driver, node)
	what, object, there, drain := "the node plugin of "+driver+" on "+string(node), "csidriver/"+driver+" on node/"+string(node), "there", string(node)
	if node == "" {
		what, object, there, drain = "the node plugins of "+driver, "csidriver/"+driver, "on its nodes", "each node"
	}
	s := p.hits(object, stake.pods, func(who string) string {
		mounted := fmt.Sprintf("%s %s mounted %s", who, withVolumesOf(strings.Join(stake.drivers, " and "), stake.unknown), there)
		hits := fmt.Sprintf("a restart of %s hits ", what)
		switch first := fmt.Sprintf("; cordon %s and drain these pods first", drain); {
		case !p.countsUsers():
			return fmt.Sprintf("%s%s, as not all objects were read: the mounts of those with volumes of it %s may end with the plugin's pod%s", hits, who, there, first)
		case len(stake.pods) == 0:
			return fmt.Sprintf("%sno pod: none %s has a volume of it mounted", hits, there)
		case stake.serving == ServesNone:
			return fmt.Sprintf("%sno pod: no mount of %s %s depends on it, as %s", hits, who, there, whyNone(stake.drivers))
		case stake.serving == serves:
			return hits + mounted + ": a process in the plugin's pod serves these mounts, which end with it, and what is not yet written is lost" + first
		default:
			return hits + mounted + ": these mounts may end with the plugin's pod, and what is not yet written with them" + first
		}
	})
	if s.Hits != nil && stake.serving == ServesNone {
		s.Hits, s.Pods = new(0), nil
	}
	s.Kind = step.RestartNodePlugin
	return s
}

// restartPlugin is the step that restarts the driver's node plugin on the node. Where mounts
// may end with the plugin, the pods that have them must go first, and no command deletes the
// plugin.
func (p *View) restartPlugin(driver string, node types.NodeName) (s finding.Step, says string, commands []string) {
	if driver == "" {
		return p.ofDriver("a restart of a node plugin", "", nil, "their mounts may end with the plugin's pod"), "restart the driver's node plugin on the node", nil
	}
	s = p.RestartOfPlugin(driver, node)
	plugins := p.pluginsOn(driver, node)
	switch {
	case node == "":
		return s, "restart the node plugins of " + driver, nil
	case s.Hits == nil || *s.Hits > 0:
		s.Says, _, _ = strings.Cut(s.Says, "; cordon ") // steps of their own say that
		return s, strings.Join([]string{fmt.Sprintf("cordon %s (%s)", node, step.ForNow),
				fmt.Sprintf("drain %s of the pods with volumes of %s (%s)", node, driver, step.DrainNode.Undo()),
				fmt.Sprintf("delete the driver's node plugin pod on %s, when they have left", node)}, nextStep),
			[]string{safetext.Kubectl("cordon", "node/"+string(node))}
	case len(plugins) == 0:
		return s, fmt.Sprintf("restart the node plugin of %s on %s", driver, node), nil
	}
	for _, plugin := range plugins {
		commands = append(commands, deletePod(plugin))
	}
	return s, fmt.Sprintf("delete the node plugin of %s on %s, pod %s", driver, node, some(PodNames(plugins))), commands
}

// pluginsOn are the pods of the driver's node plugin on the node: those that register it, or
// else all that mount its directory.
func (p *View) pluginsOn(driver string, node types.NodeName) []*corev1.Pod {
	all := p.Plugins()[driver][node]
	if len(all) == 0 && p.Snapshot.Node(node) != nil {
		all = p.NodePlugins(p.Snapshot.Node(node), "/plugins/"+driver)
	}
	if registrars := slices.DeleteFunc(slices.Clone(all), func(pod *corev1.Pod) bool { return !Registrar(pod) }); len(registrars) > 0 {
		return registrars
	}
	return all
}
