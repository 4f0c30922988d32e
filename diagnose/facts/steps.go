package facts

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/step"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// AddSteps gives the finding a step, with the pods that it hits, for each one of its
// advice that deletes or restarts something.
func (p *View) AddSteps(f *finding.Finding) {
	f.Steps = p.steps(*f, f.Steps, f.Advice, false)
	f.Steps = p.steps(*f, f.Steps, f.ByHand, true)
}

// SafeOnceSteps are the steps of what would make a refused repair of the finding safe.
func (p *View) SafeOnceSteps(f finding.Finding, text string) []finding.Step {
	return p.steps(f, nil, text, false)
}

// steps adds those of the text to the list, which has each kind once.
func (p *View) steps(f finding.Finding, list []finding.Step, text string, byHand bool) []finding.Step {
	kinds, _ := step.In(text)
	for _, kind := range kinds {
		if !slices.ContainsFunc(list, func(s finding.Step) bool { return s.Kind == kind }) {
			s := p.stepOf(kind, f, text)
			s.Kind, s.ByHand = kind, byHand
			list = append(list, s)
		}
	}
	return list
}

func (p *View) stepOf(kind step.Kind, f finding.Finding, text string) finding.Step {
	driver, node := p.DriverOf(f), p.nodeOf(f, text)
	switch kind {
	case step.DeletePod:
		return p.deletion(f, text)
	case step.RestartNodePlugin:
		if driver != "" {
			return p.RestartOfPlugin(driver, node)
		}
		return p.ofDriver("a restart of a node plugin", "", nil, "their mounts may end with the plugin's pod")
	case step.RestartController:
		return p.ofDriver("a restart of the controller", driver, nil, "none is attached or detached meanwhile")
	case step.RestartDriver:
		return p.ofDriver("a restart of all pods", driver, p.mountersOfLost(""), "their mounts may end with the node plugin's pod on their node")
	case step.RestartManager:
		return p.hits(reconcile.ControllerManager, p.users("", ""), func(who string) string {
			return fmt.Sprintf("a restart of kube-controller-manager hits %s with volumes: none is attached or detached meanwhile, and what it only "+
				"remembers is lost", who)
		})
	default:
		return p.ofNode(kind, node)
	}
}

// namedNode is a node in the words of an advice.
var namedNode = regexp.MustCompile(`\b(?:node|on|cordon) ([a-z0-9]([a-z0-9.-]*[a-z0-9])?)\b`)

// nodeOf is the node that the advice of the finding speaks of.
func (p *View) nodeOf(f finding.Finding, text string) types.NodeName {
	for _, m := range namedNode.FindAllStringSubmatch(text, -1) {
		if p.Snapshot.Node(types.NodeName(m[1])) != nil {
			return types.NodeName(m[1])
		}
	}
	return f.Node
}

// hits is a step that hits the pods; says makes the sentence of how many they are.
func (p *View) hits(object string, pods []*corev1.Pod, says func(who string) string) finding.Step {
	if !p.countsUsers() {
		return finding.Step{Object: object, Says: says("an unknown number of pods")}
	}
	names := PodNames(pods)
	return finding.Step{Object: object, Hits: new(len(names)), Pods: names, Says: says(amount(names))}
}

// countsUsers reports whether all objects were read that tell who uses a volume.
func (p *View) countsUsers() bool {
	return p.Snapshot.Complete(snapshot.Pods) && p.Snapshot.Complete(snapshot.Claims) && p.Snapshot.Complete(snapshot.Volumes)
}

// amount is how many pods there are, and the names of the first.
func amount(names []string) string {
	const few = 3
	switch {
	case len(names) == 0:
		return "no pod"
	case len(names) == 1:
		return "1 pod (" + names[0] + ")"
	case len(names) <= few+1:
		return fmt.Sprintf("%d pods (%s)", len(names), strings.Join(names, ", "))
	default:
		return fmt.Sprintf("%d pods (%s and %d more)", len(names), strings.Join(names[:few], ", "), len(names)-few)
	}
}

// mountersOf are the users of volumes of the driver on the node that may have them mounted.
func (p *View) mountersOf(driver string, node types.NodeName) []*corev1.Pod {
	return slices.DeleteFunc(p.users(driver, node), func(pod *corev1.Pod) bool { return !MayUseVolumes(pod) })
}

// mountersOfLost are the pods on the node that may have a volume mounted whose claim or
// volume is gone, or leads to another one: nobody can tell its driver any more.
func (p *View) mountersOfLost(node types.NodeName) []*corev1.Pod {
	pods := p.Snapshot.Pods
	if node != "" {
		pods = p.Snapshot.PodsOnNode(node)
	}
	var lost []*corev1.Pod
	for _, pod := range pods {
		if pod.Spec.NodeName != "" && !endedForGood(pod) && MayUseVolumes(pod) &&
			slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return p.leadsNowhere(pod, &v) }) {
			lost = append(lost, pod)
		}
	}
	return lost
}

// leadsNowhere reports whether the pod's volume is one of a claim that leads to no volume.
func (p *View) leadsNowhere(pod *corev1.Pod, v *corev1.Volume) bool {
	if reconcile.ClaimName(pod, v) == "" || p.BoundVolume(pod, v) != nil {
		return false
	}
	driver, _ := p.CsiVolume(pod, v)
	return driver == ""
}

// withVolumesOf says of pods that they have volumes of the driver, or that so many of them
// may have.
func withVolumesOf(driver string, unknown int) string {
	if unknown == 0 {
		return "with volumes of " + driver
	}
	return fmt.Sprintf("that have or may have volumes of %s (of %d a claim or volume is gone, so that its driver is not known)", driver, unknown)
}

// users are the pods with volumes of the driver that are on the node and have not ended;
// "" is any driver, or any node.
func (p *View) users(driver string, node types.NodeName) []*corev1.Pod {
	pods := p.Snapshot.Pods
	if node != "" {
		pods = p.Snapshot.PodsOnNode(node)
	}
	var users []*corev1.Pod
	for _, pod := range pods {
		if pod.Spec.NodeName != "" && !endedForGood(pod) && slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
			if driver == "" {
				return reconcile.CanBeAttached(&v)
			}
			name, _ := p.CsiVolume(pod, &v)
			return name == driver
		}) {
			users = append(users, pod)
		}
	}
	return users
}

// endedForGood reports whether nothing of the pod will run again and nobody waits for
// its volumes to be unmounted.
func endedForGood(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && (pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed)
}

// ofDriver is a step that hits all pods with volumes of the driver, and those that may
// have one.
func (p *View) ofDriver(what, driver string, lost []*corev1.Pod, effect string) finding.Step {
	if driver == "" {
		return finding.Step{Says: fmt.Sprintf("%s of the driver hits an unknown number of pods, as the objects do not tell the driver: %s", what, effect)}
	}
	users := p.users(driver, "")
	all := EachOnce(slices.Concat(users, lost))
	return p.hits("csidriver/"+driver, all, func(who string) string {
		return fmt.Sprintf("%s of %s hits %s %s: %s", what, driver, who, withVolumesOf("it", len(all)-len(users)), effect)
	})
}

// onNode are the sentences of the steps that hit all pods of a node.
var onNode = map[step.Kind]string{
	step.RestartService: "a restart of a service of node %s hits all pods there whose volumes go through it, at most %s with volumes",
	step.RestartKubelet: "a restart of the kubelet of %s hits all pods there, among them %s with volumes: none is started or mounted meanwhile",
	step.DrainNode:      "a drain of %s evicts all pods there but those of DaemonSets, among them %s with volumes",
	step.RebootNode:     "the restart or the end of machine %s ends all pods there, among them %s with volumes",
	step.DeleteNode:     "the deletion of Node %s deletes all pods there, among them %s with volumes",
}

func (p *View) ofNode(kind step.Kind, node types.NodeName) finding.Step {
	if node == "" {
		return finding.Step{Says: fmt.Sprintf(onNode[kind], "(which the objects do not name)", "an unknown number of pods")}
	}
	pods := p.users("", node)
	if kind == step.DrainNode {
		pods = slices.DeleteFunc(pods, func(pod *corev1.Pod) bool { return DaemonSet(pod) != "" })
	}
	return p.hits("node/"+string(node), pods, func(who string) string { return fmt.Sprintf(onNode[kind], node, who) })
}

// namedPod is a pod in the words of an advice, or in a command that deletes one.
var namedPod = regexp.MustCompile(`\bpod ([a-z0-9.-]+/[a-z0-9]([a-z0-9.-]*[a-z0-9])?)`)

// deletion is the deletion of the pods that the advice names, or that the finding is
// about.
func (p *View) deletion(f finding.Finding, text string) finding.Step {
	var pods []*corev1.Pod
	for _, m := range namedPod.FindAllStringSubmatch(text, -1) {
		pods = append(pods, p.podNamed(m[1]))
	}
	if pods == nil && f.Subject.Kind == "Pod" {
		pods = append(pods, p.podNamed(f.Subject.Namespace+"/"+f.Subject.Name))
	}
	if pods == nil {
		for _, name := range f.Pods {
			pods = append(pods, p.podNamed(name))
		}
	}
	return DeletionOf(slices.DeleteFunc(pods, func(pod *corev1.Pod) bool { return pod == nil })...)
}

func (p *View) podNamed(name string) *corev1.Pod {
	namespace, name, _ := strings.Cut(name, "/")
	return p.Snapshot.Pod(types.NamespacedName{Namespace: namespace, Name: name})
}

// DeletionOf is the step that deletes the pods, or some of them.
func DeletionOf(pods ...*corev1.Pod) finding.Step {
	names, containers := PodNames(pods), 0
	for _, pod := range pods {
		for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			if c.State.Running != nil {
				containers++
			}
		}
	}
	s := finding.Step{Kind: step.DeletePod, Hits: new(len(names)), Pods: names}
	runs := "no container runs"
	if containers > 0 {
		runs = containersRun(containers)
	}
	switch len(names) {
	case 0:
		s.Hits, s.Says = nil, "the deletion of a pod hits that pod alone, and its containers; which one it is, the objects do not say"
	case 1:
		s.Object, s.Says = "pod/"+names[0], fmt.Sprintf("deletion hits 1 pod (%s): %s", names[0], runs)
	default:
		s.Says = fmt.Sprintf("deletion hits at most %s: %s", amount(names), runs)
	}
	return s
}

func containersRun(n int) string {
	if n == 1 {
		return "1 container runs"
	}
	return fmt.Sprintf("%d containers run", n)
}
