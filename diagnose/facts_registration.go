package diagnose

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

const (
	// rolloutSettles is how long a DaemonSet's pod may be on its way from one
	// version to the next: the old one is deleted, the new one pulls its images
	// and registers. In between the driver is missing from its node.
	rolloutSettles = 10 * time.Minute
	// pluginDown is how long a node plugin may be without being Ready: a
	// container that crashes is started anew at most 5 min apart.
	pluginDown = 5 * time.Minute
	// fewRestarts is how often a container may have started anew and still count
	// as one that has just come; after more of them it is in a crash loop.
	fewRestarts = 3
)

// plugins are the pods that serve CSI drivers on nodes, by driver and node. What
// tells them is the directory of the driver's socket, which most name like the
// driver; of a driver that does not, nothing is known.
type plugins map[string]map[types.NodeName][]*corev1.Pod

func (p *Pass) plugins() plugins {
	return p.podsByRole().plugins
}

func (all plugins) add(pod *corev1.Pod) {
	for _, driver := range socketDirectories(pod) {
		if all[driver] == nil {
			all[driver] = map[types.NodeName][]*corev1.Pod{}
		}
		all[driver][nodeOf(pod)] = append(all[driver][nodeOf(pod)], pod)
	}
}

// socketDirectories are the names below the kubelet's plugins directory that the
// pod mounts.
func socketDirectories(pod *corev1.Pod) []string {
	var names []string
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].HostPath == nil {
			continue // as most are
		}
		dir, name := path.Split(hostPath(pod.Spec.Volumes[i]))
		if path.Base(dir) == "plugins" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// hostPath is the directory of the node that the volume is, as Linux writes it;
// "" where it is another kind of volume.
func hostPath(v corev1.Volume) string {
	if v.HostPath == nil {
		return ""
	}
	return strings.TrimRight(strings.ReplaceAll(v.HostPath.Path, `\`, "/"), "/")
}

// registrar says that the pod is made to register a driver: a DaemonSet's, with
// the directory in which the kubelet looks for sockets.
func registrar(pod *corev1.Pod) bool {
	return daemonSet(pod) != "" && registrationDirectory(pod) != ""
}

func registrationDirectory(pod *corev1.Pod) string {
	for _, v := range pod.Spec.Volumes {
		if dir := hostPath(v); path.Base(dir) == "plugins_registry" {
			return dir
		}
	}
	return ""
}

// daemonSet is the UID of the DaemonSet that the pod belongs to; "" where it
// belongs to none.
func daemonSet(pod *corev1.Pod) types.UID {
	if owner := metav1.GetControllerOf(pod); owner != nil && owner.Kind == "DaemonSet" {
		return owner.UID
	}
	return ""
}

// rolling says that the driver's node plugins are being replaced somewhere: one
// goes, or is younger than its node by more than a start takes.
func (p *Pass) rolling(pods map[types.NodeName][]*corev1.Pod) bool {
	for name, list := range pods {
		node := p.Snapshot.Node(name)
		for _, pod := range list {
			if node != nil && (pod.DeletionTimestamp != nil ||
				p.Age(pod.CreationTimestamp) < rolloutSettles && pod.CreationTimestamp.Sub(node.CreationTimestamp.Time) > rolloutSettles) {
				return true
			}
		}
	}
	return false
}

// settled says that the node has been Ready long enough for its drivers to have
// registered.
func (p *Pass) settled(node *corev1.Node) bool {
	return reconcile.NodeReady(node) && !virtual(node) && p.Age(node.CreationTimestamp) >= registrationSettles &&
		p.Age(readyCondition(node).LastTransitionTime) >= registrationSettles
}

// pluginSettled says that the plugin has had its time to register: it has been
// Ready, or has failed to be, for long enough, and is not starting just now.
func (p *Pass) pluginSettled(pod *corev1.Pod) bool {
	grace := pluginDown
	if ready(pod) {
		grace = registrationSettles
	}
	if pod.DeletionTimestamp != nil || p.Age(pod.CreationTimestamp) < grace || p.Age(readyChanged(pod)) < grace {
		return false
	}
	return !slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.State.Running != nil && c.RestartCount < fewRestarts && p.Age(c.State.Running.StartedAt) < registrationSettles
	})
}

// readyChanged is when the pod became Ready or ceased to be.
func readyChanged(pod *corev1.Pod) metav1.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.LastTransitionTime
		}
	}
	return pod.CreationTimestamp
}

// volumesByDriver are the volumes that the pods have from each driver that is
// wanted, for those pods that pass the test.
func (p *Pass) volumesByDriver(pods []*corev1.Pod, test func(*corev1.Pod) bool, wanted func(driver string) bool) map[string][]podVolume {
	byDriver := map[string][]podVolume{}
	for _, pod := range pods {
		for i := range pod.Spec.Volumes {
			v := &pod.Spec.Volumes[i]
			if !reconcile.CanBeAttached(v) && reconcile.ClaimName(pod, v) == "" {
				continue // as most are
			}
			if _, spec, err := p.World.PodVolume(pod, v); err == nil {
				if driver, _, _ := spec.CSI(); !wanted(driver) {
					continue // as nearly all are
				}
			}
			driver, volume := p.csiVolume(pod, v)
			if driver != "" && wanted(driver) && test(pod) && referenced(pod, v.Name) {
				byDriver[driver] = append(byDriver[driver], volume)
			}
		}
	}
	return byDriver
}

// mounted says that the kubelet has mounted the pod's volumes and will have to
// unmount them.
func mounted(pod *corev1.Pod) bool {
	return started(pod) && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// reportedAsMissing are the drivers that csinode-driver-missing reports of the
// node.
func (p *Pass) reportedAsMissing(node *corev1.Node) map[string]bool {
	missing := map[string]bool{}
	if p.settled(node) {
		for driver := range p.unregistered(node) {
			missing[driver] = p.installed(driver) && !p.pluginYoung(node, driver)
		}
	}
	return missing
}

// pluginEvidence is the state of the node's plugins for the driver, with how
// often each container has started anew: that is all the API shows of a
// registration that the kubelet refuses.
func pluginEvidence(pods []*corev1.Pod) []Evidence {
	var list []Evidence
	for _, pod := range pods {
		state := pluginState(pod)
		for _, c := range pod.Status.ContainerStatuses {
			if c.RestartCount > 0 {
				state += fmt.Sprintf(", container %s: %d restarts", c.Name, c.RestartCount)
			}
		}
		list = append(list, Evidence{"pod/" + podName(pod), "status", state})
	}
	return list
}

// othersUse says which pods are at stake, in a clause for a message.
func othersUse(pods []*corev1.Pod) string {
	switch len(pods) {
	case 0:
		return ""
	case 1:
		return "; pod " + podName(pods[0]) + " there has a volume of it mounted"
	default:
		return fmt.Sprintf("; pod %s and %d more there have volumes of it mounted", podName(pods[0]), len(pods)-1)
	}
}
