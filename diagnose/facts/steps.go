package facts

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/step"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// Advise turns the advice of the finding into actions, each with its sentence, its command and
// the pods it hits. An action to wait goes where the wait is past its usual end.
func (p *View) Advise(f *finding.Finding) {
	p.spareTheLiving(f)
	asked := f.AdviceCommands
	byHand, advised := p.actions(*f, f.ByHand, true), p.actions(*f, f.Advice, false)
	first := 0 // looks come before what a person does by hand
	for len(byHand) > 0 && first < len(advised) && advised[first].When == finding.Check {
		first++
	}
	f.Do, f.AdviceCommands = slices.Concat(advised[:first], byHand, advised[first:]), nil
	for _, command := range asked {
		place(f, command)
	}
	f.Advised()
	f.ByHand, f.Advice = finding.Sentences(byHand), finding.Sentences(advised)
	for _, a := range f.Do {
		if a.Command != "" {
			f.AdviceCommands = append(f.AdviceCommands, a.Command)
		}
	}
	for _, command := range asked {
		if !slices.Contains(f.AdviceCommands, command) {
			f.AdviceCommands = append(f.AdviceCommands, command)
		}
	}
}

// place puts the command below the sentence that names its object: a look below a look, and all
// else below an act. Of several sentences about one object, the next command goes below the next
// sentence. Without another sentence it follows the commands that are there, and without any it
// comes last.
func place(f *finding.Finding, command string) {
	does := f.Commanded(command)
	i := -1
	for at, a := range f.Do {
		if a.Told || !a.Names(does.Object) || (does.Kind == finding.Look) != (a.When == finding.Check) || does.Kind != finding.Look && !a.InWords() {
			continue
		}
		if i < 0 {
			i = at
		}
		if a.Command == "" {
			i = at
			break
		}
		if _, object := finding.ObjectOf(a.Command); object != does.Object {
			break // the sentence is about several objects, each with a command
		}
	}
	if i < 0 {
		return
	}
	if f.Do[i].Command == "" {
		f.Do[i].Command = command
		return
	}
	for i++; i < len(f.Do) && f.Do[i].Told; i++ {
	}
	does.Advised, does.ByHand = true, f.Do[i-1].ByHand
	f.Do = slices.Insert(f.Do, i, does)
}

// SafeOnce is the action that would make a refused repair of the finding safe.
func (p *View) SafeOnce(f finding.Finding, text string) finding.Action {
	var a finding.Action
	a.Sentence = step.Say(text, func(m step.Mark) string {
		says, _ := p.act(f, m, &a)
		return strings.ReplaceAll(says, nextStep, ", ")
	})
	return a
}

// actions parses the advice text of the finding into actions.
func (p *View) actions(f finding.Finding, text string, byHand bool) []finding.Action {
	var list []finding.Action
	text = nodeNamed(text, f.Node)
	if f.Stays() {
		text = step.PastWait(text)
	}
	for _, part := range step.Actions(text) {
		a := finding.Action{Kind: finding.DoAsTheySay, When: finding.Now, Advised: true, ByHand: byHand}
		var commands []string
		a.Sentence = Clause(step.Say(part, func(m step.Mark) string {
			says, does := p.act(f, m, &a)
			commands = append(commands, does...)
			return says
		}))
		if len(commands) > 0 {
			a.Command = commands[0]
		}
		for _, sentence := range strings.Split(a.Sentence, nextStep) {
			a.Sentence = sentence
			list = append(list, a)
			a.Command = ""
		}
		for _, command := range commands[min(1, len(commands)):] {
			further := f.Commanded(command)
			further.Advised, further.ByHand = true, byHand
			list = append(list, further)
		}
	}
	return list
}

// nextStep stands in the text for a mark between the sentences of its steps. The command belongs to
// the first one.
const nextStep = "\n"

// act adds the mark's step to the action. It returns the text for the mark, and the commands
// that do it.
func (p *View) act(f finding.Finding, m step.Mark, a *finding.Action) (says string, commands []string) {
	switch m.Kind {
	case step.Do:
		return "", nil
	case step.Check:
		a.Kind, a.When = finding.Look, finding.Check
		return "", nil
	case step.ReadLog:
		a.Kind, a.When = finding.Look, finding.Check
		return p.readLog(p.DriverOf(f), f.Node, m.Object != "")
	case step.Place:
		if m.Object == "" && f.Node != "" {
			return string(f.Node), nil
		}
		_, says = p.speaker(p.DriverOf(f), "", true)
		return says, nil
	case step.Later: // nothing changes now
		a.Kind, a.When = finding.ActionKind(step.Note), finding.Later
		return "", nil
	case step.Wait:
		a.Kind = finding.Wait
		return "wait", nil
	case step.If:
		return m.Object, nil
	case step.Change, step.Reversible, step.Final, step.Fix, step.Note:
		if a.Kind == finding.DoAsTheySay {
			a.Kind = finding.ActionKind(m.Kind)
		}
		if m.Kind == step.Reversible {
			a.Kind = finding.ActionKind(step.Change)
		}
		return "", nil
	default: // it ends or restarts something
	}
	s, says, commands := p.stepOf(f, m)
	s.Kind = m.Kind
	a.Kind, a.When, a.Object = finding.ActionKind(m.Kind), finding.Now, s.Object
	a.Hits = append(a.Hits, s)
	return says, commands
}

// stepOf is the step that the mark names, with its sentence and its commands: none where
// something that runs would end.
func (p *View) stepOf(f finding.Finding, m step.Mark) (s finding.Step, says string, commands []string) {
	node, driver := f.Node, p.DriverOf(f)
	switch m.Kind {
	case step.DeletePod:
		return p.deletion(f, m.Object)
	case step.StopPod:
		s, says = p.stop(f, m.Object)
		return s, says, nil
	case step.RestartNodePlugin:
		if named, on, everywhere := strings.Cut(m.Object, "@"); named != "" {
			driver = named
			if everywhere {
				node = types.NodeName(strings.TrimPrefix(on, "*"))
			}
		}
		return p.restartPlugin(driver, node)
	case step.RestartController:
		return p.restartController(driver, m.Object)
	case step.RestartDriver:
		return p.ofDriver("a restart of all pods", driver, p.mountersOfLost(""), "their mounts may end with the node plugin's pod on their node"),
			"restart all pods of " + cmp.Or(driver, "the driver"), nil
	case step.RestartManager:
		return p.hits(reconcile.ControllerManager, p.users("", ""), func(who string) string {
			return fmt.Sprintf("a restart of kube-controller-manager hits %s with volumes: none is attached or detached meanwhile, and what it only "+
				"remembers is lost", who)
		}), "restart the kube-controller-manager leader", nil
	case step.RestartService:
		return p.ofNode(f, m.Kind, node), fmt.Sprintf("restart %s on %s", m.Object, cmp.Or(node, "the node")), nil
	case step.BlockAddress: // the finding's node only waits for the other machine
		return p.ofNode(f, m.Kind, f.Holder), fmt.Sprintf("block the address of %s", cmp.Or(f.Holder, "that machine")), nil
	default: // it is done to a whole node
	}
	if m.Object != "" {
		node = types.NodeName(m.Object)
	}
	return p.ofNode(f, m.Kind, node), fmt.Sprintf(ofNodeSays[m.Kind], cmp.Or(node, "the node")), nil
}

var ofNodeSays = map[step.Kind]string{
	step.RestartKubelet: "restart the kubelet on %s",
	step.TaintNode:      "taint %s out-of-service",
	step.DrainNode:      "drain %s",
	step.RebootNode:     "restart machine %s",
	step.PowerOff:       "power off the machine behind %s",
	step.DeleteNode:     "delete Node %s",
}

// restartController is the step that restarts the driver's controller: the named pod, or the
// pod that holds the attacher's lease.
func (p *View) restartController(driver, named string) (s finding.Step, says string, commands []string) {
	s = p.ofDriver("a restart of the controller", driver, nil, "none is attached or detached meanwhile")
	says = "restart the controller of " + cmp.Or(driver, "the driver")
	pod := p.podNamed(named)
	if lease := p.AttacherLease(driver); pod == nil && driver != "" && lease != nil {
		pod = p.LeaseHolder(lease)
	}
	if pod == nil {
		return s, says, nil
	}
	return s, says + " (delete pod " + PodName(pod) + ")", []string{deletePod(pod)}
}

// readLog is the look at the log of the driver's controller or, where controller is false, of
// its node plugin on the node.
func (p *View) readLog(driver string, node types.NodeName, controller bool) (says string, commands []string) {
	pod, says := p.speaker(driver, node, controller)
	if pod != nil {
		commands = []string{Logs(pod)}
	}
	return "read the log of " + says, commands
}

// speaker is the driver's controller or, where controller is false, its node plugin on the node, and
// its name in a sentence. The pod is nil where the objects do not show which one it is.
func (p *View) speaker(driver string, node types.NodeName, controller bool) (pod *corev1.Pod, says string) {
	where := ""
	if lease := p.AttacherLease(driver); controller && lease != nil {
		pod, where = p.LeaseHolder(lease), " in namespace "+lease.Namespace
	} else if !controller && driver != "" {
		if plugins := p.pluginsOn(driver, node); len(plugins) == 1 {
			pod = plugins[0]
		}
	}
	switch {
	case pod != nil:
		return pod, "pod " + PodName(pod)
	case controller || node == "":
		return nil, "the controller of " + cmp.Or(driver, "the driver") + where
	default:
		return nil, fmt.Sprintf("the node plugin of %s on %s", cmp.Or(driver, "the driver"), node)
	}
}

// hits is a step that hits the pods; says makes its sentence from their number.
func (p *View) hits(object string, pods []*corev1.Pod, says func(who string) string) finding.Step {
	if !p.countsUsers() {
		return finding.Step{Object: object, Says: says("an unknown number of pods")}
	}
	names := PodNames(pods)
	return finding.Step{Object: object, Hits: new(len(names)), Pods: names, Says: says(amount(names))}
}

// countsUsers reports whether all objects were read that show who uses a volume.
func (p *View) countsUsers() bool {
	return p.Snapshot.Complete(snapshot.Pods) && p.Snapshot.Complete(snapshot.Claims) && p.Snapshot.Complete(snapshot.Volumes)
}

// amount is the number of pods, and the names of the first.
func amount(names []string) string {
	switch len(names) {
	case 0:
		return "no pod"
	case 1:
		return "1 pod (" + names[0] + ")"
	}
	return fmt.Sprintf("%d pods (%s)", len(names), some(names))
}

// few is the largest number of pods that are named.
const few = 3

func some(names []string) string {
	if len(names) <= few+1 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
}

// mountersOf are the pods on the node that may have a volume of the driver mounted.
func (p *View) mountersOf(driver string, node types.NodeName) []*corev1.Pod {
	return slices.DeleteFunc(p.users(driver, node), func(pod *corev1.Pod) bool { return !MayUseVolumes(pod) })
}

// mountersOfLost are the pods on the node that may have a volume mounted whose claim or volume is
// gone or was replaced: its driver is no longer known.
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

// leadsNowhere reports whether the pod's volume comes from a claim that leads to no volume.
func (p *View) leadsNowhere(pod *corev1.Pod, v *corev1.Volume) bool {
	if reconcile.ClaimName(pod, v) == "" || p.BoundVolume(pod, v) != nil {
		return false
	}
	driver, _ := p.CsiVolume(pod, v)
	return driver == ""
}

// withVolumesOf is a clause: the pods have volumes of the driver, or that many of them may
// have.
func withVolumesOf(driver string, unknown int) string {
	if unknown == 0 {
		return "with volumes of " + driver
	}
	return fmt.Sprintf("that have or may have volumes of %s (of %d a claim or volume is gone, so that its driver is not known)", driver, unknown)
}

// users are the pods on the node with volumes of the driver that have not ended; "" means any
// driver, or any node.
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

// endedForGood reports whether the pod has ended, will not run again, and is not being deleted.
func endedForGood(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && (pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed)
}

// ofDriver is a step that hits all pods with volumes of the driver, and the pods in lost, which
// may have one.
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
	step.TaintNode:      "the taint on %s ends all pods there that do not tolerate it, among them %s with volumes",
	step.DrainNode:      "a drain of %s evicts all pods there but those of DaemonSets, among them %s with volumes",
	step.RebootNode:     "the restart of machine %s ends all pods there, among them %s with volumes",
	step.PowerOff:       "the end of machine %s ends all pods there, among them %s with volumes",
	step.BlockAddress:   "the block of the address of machine %s ends all mounts of that storage there, at most of %s with volumes; what they have not written yet is lost",
	step.DeleteNode:     "the deletion of Node %s deletes all pods there, among them %s with volumes",
}

func (p *View) ofNode(f finding.Finding, kind step.Kind, node types.NodeName) finding.Step {
	if node == "" {
		return finding.Step{Says: fmt.Sprintf(onNode[kind], "(which the objects do not name)", "an unknown number of pods")}
	}
	pods := p.users("", node)
	switch kind {
	case step.DrainNode:
		pods = slices.DeleteFunc(pods, func(pod *corev1.Pod) bool { return DaemonSet(pod) != "" })
	case step.TaintNode:
		pods = slices.DeleteFunc(pods, toleratesOutOfService)
	default: // nothing of the node is spared
	}
	s := p.hits("node/"+string(node), pods, func(who string) string { return fmt.Sprintf(onNode[kind], node, who) })
	if kind == step.TaintNode {
		s.Says += p.controllersOn(node)
	}
	if kind == step.TaintNode || kind == step.DrainNode || kind == step.RebootNode || kind == step.DeleteNode {
		s.Says += p.disksGo(f, pods)
	}
	return s
}

// TaintHits is the step of setting the out-of-service taint on the finding's node.
func (p *View) TaintHits(f finding.Finding) finding.Step {
	s := p.ofNode(f, step.TaintNode, f.Node)
	s.Kind = step.TaintNode
	return s
}

// toleratesOutOfService reports whether the pod stays on a node with the out-of-service taint.
func toleratesOutOfService(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
		return t.TolerationSeconds == nil && (t.Effect == "" || t.Effect == corev1.TaintEffectNoExecute) &&
			(t.Key == "" || t.Key == corev1.TaintNodeOutOfService) && (t.Operator == corev1.TolerationOpExists || t.Value == outOfServiceValue)
	})
}

// outOfServiceValue is the value of the taint as the documentation of Kubernetes sets it.
const outOfServiceValue = "nodeshutdown"

// disksGo is the clause that disks are deleted with the pods, except those whose Retain command
// the finding already advises; "" for none.
func (p *View) disksGo(f finding.Finding, pods []*corev1.Pod) string {
	disks := slices.DeleteFunc(p.DisksThatGo(pods), func(pv *corev1.PersistentVolume) bool { return slices.Contains(f.AdviceCommands, Retain(pv)) })
	if len(disks) == 0 {
		return ""
	}
	return "; " + diskGoes(disks, "set")
}

// podsToEnd are the named pods, or else the finding's pods. any reports that "any " stands before
// the names: one of them.
func (p *View) podsToEnd(f finding.Finding, named string) (pods []*corev1.Pod, any bool) {
	any = named == "any" || strings.HasPrefix(named, "any ")
	named = strings.TrimPrefix(strings.TrimPrefix(named, "any"), " ")
	switch {
	case named != "":
		for _, name := range strings.Split(named, ",") {
			pods = append(pods, p.podNamed(name))
		}
	case f.Subject.Kind == "Pod" && !any:
		pods = append(pods, p.podNamed(f.Subject.Namespace+"/"+f.Subject.Name))
	default:
		for _, name := range f.Pods {
			pods = append(pods, p.podNamed(name))
		}
	}
	return slices.DeleteFunc(pods, func(pod *corev1.Pod) bool { return pod == nil }), any
}

// deletion is the deletion of podsToEnd.
func (p *View) deletion(f finding.Finding, named string) (s finding.Step, says string, commands []string) {
	pods, any := p.podsToEnd(f, named)
	s, running := deletionOf(pods)
	if disks := p.disksGo(f, pods); disks != "" {
		s.Says, s.Told = s.Says+disks, false
	}
	names := PodNames(pods)
	switch {
	case len(names) == 0:
		return s, "delete the pod", nil
	case any && len(names) > 1:
		says = "delete one of the pods " + some(names)
		if bare := goneForGood(pods); bare != "" {
			says += " (" + strings.TrimPrefix(bare, "; ") + ")"
		}
		return s, says, nil
	case len(names) == 1:
		says = "delete pod " + names[0] + " (" + runs(running) + goneForGood(pods) + ")"
	default:
		says = fmt.Sprintf("delete the %d pods %s (%s)", len(names), some(names), runs(running)+goneForGood(pods))
	}
	if running > 0 || goneForGood(pods) != "" {
		return s, says, nil
	}
	for _, pod := range pods[:min(few, len(pods))] {
		commands = append(commands, deletePod(pod))
	}
	return s, says, commands
}

func (p *View) podNamed(name string) *corev1.Pod {
	namespace, name, _ := strings.Cut(name, "/")
	return p.Snapshot.Pod(types.NamespacedName{Namespace: namespace, Name: name})
}

// deletionOf is the step that deletes the pods, or some of them, and the number of their
// running containers.
func deletionOf(pods []*corev1.Pod) (s finding.Step, running int) {
	names := PodNames(pods)
	for _, pod := range pods {
		for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			if c.State.Running != nil {
				running++
			}
		}
	}
	s = finding.Step{Kind: step.DeletePod, Hits: new(len(names)), Pods: names}
	switch len(names) {
	case 0:
		s.Hits, s.Says = nil, "the deletion of a pod hits that pod alone, and its containers; which one it is, the objects do not say"
	case 1:
		s.Object, s.Told = "pod/"+names[0], true
		s.Says = fmt.Sprintf("the deletion hits 1 pod (%s): %s", names[0], runs(running))
	default:
		s.Says = fmt.Sprintf("the deletion hits at most %s: %s", amount(names), runs(running))
	}
	return s, running
}

// goneForGood is a clause about the pods that no controller recreates; "" for none.
func goneForGood(pods []*corev1.Pod) string {
	bare := 0
	for _, pod := range pods {
		if Bare(pod) {
			bare++
		}
	}
	switch {
	case bare == 0:
		return ""
	case len(pods) == 1:
		return "; save its manifest: nobody else makes it again"
	case bare == len(pods):
		return "; save their manifests: nobody else makes them again"
	}
	return fmt.Sprintf("; save their manifests: nobody else makes %d of them again", bare)
}

// runs is a clause: how many containers run.
func runs(containers int) string {
	switch containers {
	case 0:
		return "no container runs"
	case 1:
		return "1 container runs"
	}
	return fmt.Sprintf("%d containers run", containers)
}
