package trace

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/kubeletwords"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// schedulerTakes is how long the scheduler may take to bind a pod that fits on a node.
const schedulerTakes = facts.SchedulerMaxBackoff + 20*time.Second

// claimProtection keeps a claim while pods use it. The kubelet treats a claim that is being
// deleted and has lost it as gone.
const claimProtection = "kubernetes.io/pvc-protection"

// scheduled is the pod's own first stage.
func (t *tracer) scheduled() Stage {
	if t.pod.Spec.NodeName != "" {
		return done(StageScheduled, facts.BoundAt(t.pod), "on node "+t.pod.Spec.NodeName)
	}
	s := Stage{Stage: StageScheduled, State: StageWaiting, On: Scheduler, Detail: "the scheduler has not spoken",
		Ends: "the scheduler binds the pod to a node"}
	since := t.pod.CreationTimestamp
	if c := facts.Condition(t.pod, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse && c.Message != "" {
		s.State, s.Detail = StageBlocked, "no node suits the pod"
		switch {
		case c.Reason == corev1.PodReasonSchedulingGated:
			s.Detail = "the pod has scheduling gates: the scheduler does not look at it before they are taken off"
			s.On, s.Ends = "whoever set the scheduling gates of the pod", "its scheduling gates are taken off"
		case c.Reason == corev1.PodReasonSchedulerError || strings.Contains(c.Message, "PreBind plugin"):
			s.Detail = "the scheduler could not bind the pod to a node, though one suits it"
		}
		s.Said = []Said{{By: "the scheduler, condition PodScheduled", At: &c.LastTransitionTime, Text: c.Message, Means: schedulerMeans(c.Message)}}
		if s.do = schedulerHelps(c.Message); s.do != "" {
			s.never = "delete the claim and make it again and again: that makes no room"
		}
		if facts.KeptOffByPlace(t.pod) {
			s.Said[0].Means = strings.Join(append([]string{s.Said[0].Means}, t.VolumePlaces(t.pod)...), "; ")
			if pv, node := onlyMachine(t.View, t.pod); pv != nil {
				s.do = fmt.Sprintf("{change} make the pod fit on %s (its room, taints and the pod's own rules): volume %s is on that machine alone, and no other node will do", node.Name, pv.Name)
			}
		}
		starts := t.addStartUpTaint(&s)
		t.doubtTime(&s, snapshot.Nodes, snapshot.Events) // the taint stands on a node, and an event says that one is ordered
		t.addAutoscaler(&s)
		if s.On == Scheduler && strings.Contains(c.Message, volumeBinding) {
			s.On = cmp.Or(t.bindsClaims(), s.On)
		}
		since = facts.Latest(since, c.LastTransitionTime)
		if t.Age(starts) < facts.RegistrationGrace {
			return t.due(s, facts.Latest(since, starts), facts.RegistrationGrace)
		}
		if strings.Contains(strings.ToLower(c.Message), onePod) {
			holder, goes := t.hasClaim()
			if holder != nil {
				s.On, s.Ends = "pod "+facts.PodName(holder), "that pod ends, which may never happen"
				return t.due(s, since, facts.ConflictGrace)
			}
			t.doubt(&s, snapshot.Pods, snapshot.Claims)
			since = facts.Latest(since, goes)
		}
	}
	if ordered := t.NodeOrdered(t.pod); !ordered.IsZero() && t.Age(ordered) < facts.NodeComes {
		s.Detail += "; an autoscaler brings a node for it"
		return t.due(s, facts.Latest(since, ordered), facts.NodeComes)
	}
	return t.due(s, since, schedulerTakes)
}

// volumeBinding is part of the scheduler's message where a node suits the pod, and its claims
// were not bound to volumes for that node in time (PreBind, volumebinding/volume_binding.go).
const volumeBinding = `PreBind plugin "VolumeBinding"`

// bindsClaims is who makes the volume of the pod's first claim that has none; "" where that is not known.
func (t *tracer) bindsClaims() string {
	for _, name := range facts.ClaimNames(t.pod) {
		claim := t.Snapshot.Claim(facts.ClaimKey(t.pod, name))
		if claim != nil && claim.Spec.VolumeName == "" {
			if about := t.Unbound(claim); about.Provisioner != "" {
				return provisionerOf(about.Provisioner)
			}
		}
	}
	return ""
}

func provisionerOf(driver string) string { return "the provisioner of " + driver }

// hasClaim is the other pod that uses the claim and is not being deleted. Without one, goes is
// when the last user that is being deleted has to have ended: until then the scheduler rightly
// waits.
func (t *tracer) hasClaim() (holder *corev1.Pod, goes metav1.Time) {
	for _, name := range facts.ClaimNames(t.pod) {
		claim := t.Snapshot.Claim(facts.ClaimKey(t.pod, name))
		if claim == nil {
			continue
		}
		for _, pod := range t.ClaimUsers(claim) {
			switch {
			case pod == t.pod || !facts.Started(pod):
			case pod.DeletionTimestamp == nil:
				return pod, goes
			default:
				goes = facts.Latest(goes, *pod.DeletionTimestamp)
			}
		}
	}
	return nil, goes
}

// driverMissing is part of the scheduler's message about a node without a driver whose
// CSIDriver requires it there (checkCSIDriverOnNode, nodevolumelimits/csi.go; feature gate
// VolumeLimitScaling, on by default from 1.37).
const driverMissing = "csi driver is not installed"

// addKeptOff adds on how many nodes the volume's driver is, where the scheduler keeps the pod
// off the others.
func (t *tracer) addKeptOff(v *tracedVolume, s *Stage) {
	driver := t.Snapshot.CSIDriver(v.Driver)
	if s.State != StageBlocked || driver == nil || driver.Spec.PreventPodSchedulingIfMissing == nil || !*driver.Spec.PreventPodSchedulingIfMissing ||
		!strings.Contains(strings.ToLower(s.Said[0].Text), strings.ToLower(v.Driver)+" "+driverMissing) {
		return
	}
	said := Said{By: "csidriver/" + v.Driver, Text: "spec.preventPodSchedulingIfMissing: true", Means: "the scheduler takes no node on which the driver is not registered"}
	if t.knows(snapshot.CSINodes, "") && t.knows(snapshot.Nodes, "") {
		have := 0
		for _, node := range t.Snapshot.Nodes {
			if facts.Registers(t.Snapshot.CSINode(types.NodeName(node.Name)), v.Driver) {
				have++
			}
		}
		said.Means += fmt.Sprintf("; it is on %d of %d", have, len(t.Snapshot.Nodes))
	}
	s.Said = append(s.Said, said)
}

// onePod is part of the scheduler's message about a ReadWriteOncePod claim that another pod has
// (ErrReasonReadWriteOncePodConflict, volumerestrictions).
const onePod = "readwriteoncepod access mode"

// volumeRefusals are parts of the scheduler's messages about volumes that keep a pod off a node,
// with their meaning, and with the advice where another node does not help.
var volumeRefusals = []struct{ text, means, helps string }{
	{"unbound immediate persistentvolumeclaims", "a claim is not bound yet, and its class does not wait for the pod", ""},
	{"volume node affinity conflict", "the volume is in another zone or on another machine", ""},
	{"persistentvolume's node affinity", "the volume is in another zone or on another machine", ""},
	{facts.MaxVolumes, "the nodes have as many volumes as they can attach", ""},
	{"available persistent volumes to bind", "no free PV suits the claim on those nodes, and none is made there",
		"create a PersistentVolume of the claim's class, size and access modes that a node for the pod can use, or {final} make one free; or {change} correct the class of the claim"},
	{"enough free storage", "the driver reports too little capacity there",
		"{change} add room to the storage that the class uses, or {final} free some: the CSIStorageCapacity objects of the class have what the driver reports for each place; or ask for less"},
	{"bound to non-existent p", "the claim is bound to a PV that does not exist", ""},
	{"no available volume zone", "the volume is in another zone", ""},
	{"no available disk", "the disk is in use there", ""},
	{onePod, "another pod uses the claim, which only one pod may", ""},
	{driverMissing, "the driver is not registered there", ""},
	{strings.ToLower(volumeBinding), "a node suits the pod, and its claims were not bound to volumes in time", ""},
	{"persistentvolumeclaim \"", "a claim is missing or being deleted", ""}, // the last: others that name a claim say more
}

func schedulerMeans(message string) string {
	var means []string
	for _, r := range volumeRefusals {
		if r.text == volumeRefusals[len(volumeRefusals)-1].text && len(means) > 0 {
			break
		}
		if strings.Contains(strings.ToLower(message), r.text) && !slices.Contains(means, r.means) {
			means = append(means, r.means)
		}
	}
	return strings.Join(means, "; ")
}

// schedulerHelps is the advice where the scheduler names a single cause about volumes, which no
// other node would change; else "".
func schedulerHelps(message string) string {
	means, helps := 0, ""
	for _, r := range volumeRefusals {
		if strings.Contains(strings.ToLower(message), r.text) {
			means++
			helps = r.helps
		}
	}
	if means != 1 {
		return ""
	}
	return helps
}

func nodesCounted(n int) string {
	if n == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", n)
}

// bound is the stage in which the claim is bound to a volume that points back to it. It sets
// both in v.
func (t *tracer) bound(v *tracedVolume) Stage {
	s := Stage{Stage: StageClaimBound, State: StageBlocked}
	name := "claim " + t.pod.Namespace + "/" + v.Claim
	claim := t.Snapshot.Claim(facts.ClaimKey(t.pod, v.Claim))
	if claim == nil {
		if !t.knows(snapshot.Claims, t.pod.Namespace) {
			return unread(StageClaimBound, snapshot.Claims)
		}
		s.On, s.Detail, s.Ends = "whoever is to create persistentvolumeclaim/"+v.Claim, name+" does not exist", name+" is created"
		s.lacks = ", whose claim does not exist"
		if v.source.Ephemeral != nil {
			s.On, s.Ends = EphemeralController, "the controller makes the claim for the pod"
			s.never = "make the claim by hand: the controller takes only one that it has made for this pod"
			if e := t.LastEvent(t.pod, func(e *corev1.Event) bool {
				return e.Reason == "FailedBinding" && facts.ContainsAny(e.Message, v.Claim)
			}); e != nil {
				s.State, s.Said = StageBlocked, []Said{quote(e, "the controller fails to make the claim, and tries again")}
			}
			return t.due(s, t.pod.CreationTimestamp, facts.ClaimBinds)
		}
		s.permanent = t.knows(snapshot.Pods, t.pod.Namespace) // nothing that is under way makes it
		if made := t.mayBeMade(v.Claim); made != "" {
			s.permanent = false
			s.Detail += made
		}
		return t.due(s, t.pod.CreationTimestamp, facts.ListsGrace) // it may have been made after the claims were read
	}
	v.claim = claim
	switch {
	case v.source.Ephemeral != nil && !metav1.IsControlledBy(claim, t.pod):
		s.On, s.Detail = kubeletwords.WorkloadOwner, name+" has the name of the pod's own claim but belongs to another"
		s.Ends = "the pod is made again under another name, or with another name for this volume; its own claim is named after both"
		s.lacks = ", whose claim's name is taken"
		s.never = "delete the claim for this pod's sake: its data may be somebody else's, and goes with it"
		return t.due(s, t.pod.CreationTimestamp, facts.ListsGrace)
	case claim.Status.Phase == corev1.ClaimLost && t.Snapshot.Volume(claim.Spec.VolumeName) == nil && (claim.Spec.VolumeName == "" || t.knows(snapshot.Volumes, "")):
		s.On, s.Detail = Nobody, fmt.Sprintf("%s is Lost: its PV %q is gone", name, claim.Spec.VolumeName)
		return t.due(s, metav1.Time{}, 0)
	case claim.DeletionTimestamp != nil && !slices.Contains(claim.Finalizers, claimProtection):
		s.On, s.Detail, s.lacks = Nobody, name+" is being deleted and has lost its protection: the kubelet refuses it", ", whose claim is being deleted"
		s.Ends = "the pod is made again, once the claim is gone, with a claim that stays"
		return t.due(s, *claim.DeletionTimestamp, 0)
	case claim.Spec.VolumeName == "" || claim.Status.Phase != corev1.ClaimBound && t.Snapshot.Volume(claim.Spec.VolumeName) == nil:
		return t.unbound(v, name)
	}
	return t.boundTo(v, name, s)
}

// mayBeMade is how a StatefulSet may still make the claim; "" where none does. Such a claim is named after
// its template and its pod, as data-web-0 is. It is made with that pod, and again while the pod is Pending
// (processReplica, pkg/controller/statefulset, 1.37). A pod that is Terminating has a successor, one that is
// young may have its claim, and between the two there is none.
func (t *tracer) mayBeMade(claim string) string {
	for i, c := range claim {
		if c != '-' {
			continue
		}
		pod := t.Snapshot.Pod(types.NamespacedName{Namespace: t.pod.Namespace, Name: claim[i+1:]})
		switch {
		case pod == nil || !facts.ControlledBy(pod, "StatefulSet") || !slices.Contains(facts.ClaimNames(pod), claim):
		case pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodPending || t.Age(pod.CreationTimestamp) < facts.ListsGrace:
			return ": the StatefulSet of pod " + facts.PodName(pod) + " makes it for each pod of that name that is Pending"
		default:
			return ""
		}
	}
	if ofStatefulSet.MatchString(claim) {
		return "; if a StatefulSet has named it, it is made with the next pod of that name"
	}
	return ""
}

// ofStatefulSet are the names that a StatefulSet may give to a claim.
var ofStatefulSet = regexp.MustCompile(`^.+-.+-\d+$`)

// boundTo checks the volume of a claim that names one.
func (t *tracer) boundTo(v *tracedVolume, name string, s Stage) Stage {
	claim := v.claim
	pv := t.Snapshot.Volume(claim.Spec.VolumeName)
	since := facts.Latest(t.pod.CreationTimestamp, claim.CreationTimestamp)
	s.On, s.Ends = "the persistent volume controller", "claim and volume name each other, and both are Bound"
	switch {
	case pv == nil && !t.knows(snapshot.Volumes, ""):
		return unread(StageClaimBound, snapshot.Volumes)
	case pv == nil:
		s.On, s.Ends = Nobody, ""
		s.Detail = fmt.Sprintf("%s is bound to %s, which does not exist", name, claim.Spec.VolumeName)
		return t.due(s, since, facts.ListsGrace)
	case pv.Spec.ClaimRef == nil:
		s.Detail = fmt.Sprintf("%s has no claimRef: the kubelet takes it for not bound", pv.Name)
		return t.due(s, since, facts.ClaimBinds)
	case pv.Spec.ClaimRef.UID == "" && (claim.UID != "" || pv.Status.Phase != corev1.VolumeBound) && // else all UIDs were taken away
		pv.Spec.ClaimRef.Name == claim.Name && pv.Spec.ClaimRef.Namespace == claim.Namespace:
		s.Detail = fmt.Sprintf("%s is reserved for %s by its name, and not bound yet", pv.Name, name)
		return t.due(s, since, facts.ClaimBinds)
	case pv.Spec.ClaimRef.UID != claim.UID:
		s.On, s.Ends = Nobody, ""
		s.Detail = fmt.Sprintf("%s is bound to a claim with uid %s, and %s has %s", pv.Name, pv.Spec.ClaimRef.UID, name, claim.UID)
		return t.due(s, since, facts.ListsGrace)
	}
	v.pv = pv
	if claim.Status.Phase != corev1.ClaimBound {
		s.State, s.Detail = StageWaiting, fmt.Sprintf("%s is %s, though it names %s", name, claim.Status.Phase, pv.Name)
		return t.due(s, since, facts.ClaimBinds)
	}
	return done(StageClaimBound, metav1.Time{}, "to "+pv.Name)
}

// unbound is the stage of a claim that has no volume yet.
func (t *tracer) unbound(v *tracedVolume, name string) Stage {
	claim := v.claim
	s := Stage{Stage: StageClaimBound, State: StageWaiting, On: "the persistent volume controller", Ends: "a volume is found or made for the claim"}
	s.never = "recreate the claim as it is: the new one waits for the same"
	about := t.Unbound(claim)
	since, bound := about.Since, t.Takes(about)
	switch {
	case claim.Spec.VolumeName != "" && !t.knows(snapshot.Volumes, ""):
		return unread(StageClaimBound, snapshot.Volumes)
	case claim.Spec.VolumeName != "":
		s.State, s.On, s.Ends, s.never = StageBlocked, "whoever is to create the volume", "the volume is created", ""
		s.Detail = fmt.Sprintf("%s asks for volume %s, which does not exist", name, claim.Spec.VolumeName)
		bound = facts.ListsGrace
	case !about.ClassFound && about.Class != "" && about.Provisioner == "" && !t.knows(snapshot.StorageClasses, ""):
		return unread(StageClaimBound, snapshot.StorageClasses)
	case about.ForNode && t.pod.Spec.NodeName == "":
		s.On, s.Detail = Scheduler, name+" is bound once the scheduler has chosen a node for the pod"
		bound = schedulerTakes
	case about.ForNode:
		s.State, s.On = StageBlocked, Nobody
		s.Detail = name + " waits for the scheduler to choose a node, but the pod was put on its node without it (spec.nodeName)"
		bound = 0
	case !about.ClassFound && about.Class != "" && about.Provisioner == "":
		s.State, s.On = StageBlocked, "whoever is to create the storage class"
		s.Detail = fmt.Sprintf("%s names the storage class %s, which does not exist", name, about.Class)
	case about.Provisioner != "":
		s.On, s.Detail = provisionerOf(about.Provisioner), name+" is not bound yet"
		if node := claim.Annotations[reconcile.SelectedNodeAnnotation]; node != "" {
			s.Detail += "; the volume is to be made for node " + node
		}
		t.doubtTime(&s, snapshot.Events)
		if !about.Tries.IsZero() {
			s.Detail += "; the provisioner tries to make it, last since " + facts.Stamp(about.Tries)
		}
	default:
		s.On = "whoever is to create a volume for the claim"
		s.Detail = name + " is not bound: no PV suits it, and nobody makes one"
	}
	t.doubt(&s, snapshot.Events)
	for _, e := range about.Failures {
		if !t.CopyGoesOn(about) {
			s.State = StageBlocked
		}
		s.Said = append(s.Said, quote(e, ""))
		if entry, known := facts.DriverSays(about.Provisioner, e.Message); known {
			s.On = cmp.Or(facts.WhoActs(entry), s.On)
		}
	}
	return t.due(s, since, bound)
}

// onlyMachine is the pod's volume whose node affinity names one machine, and that machine: no new
// node can suit. Both are nil where the pod has no such volume, or the machine is not there.
func onlyMachine(p *facts.View, pod *corev1.Pod) (*corev1.PersistentVolume, *corev1.Node) {
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
