package resolution

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var TopologyMismatch = check.Check{
	Code:        "VD506",
	Name:        "topology-mismatch",
	Title:       "A pod waits on a node where its volume cannot be, or gets none where it can",
	Severity:    finding.Error,
	Needs:       check.AttachmentKinds(),
	OfNamespace: true,
	OfDriver:    true,
	Follows: []check.Relation{
		{From: []finding.Code{"VD310"}, Match: wantsLabel},
	},
	Never: "relabel the node for a zone where it is not: more pods would wait there",
	Run:   runTopologyMismatch,
}

func runTopologyMismatch(p *check.Run) {
	for _, node := range p.Snapshot.Nodes {
		// The labels of a new node come with its drivers.
		if p.Age(node.CreationTimestamp) < facts.RegistrationGrace || facts.Virtual(node) {
			continue
		}
		for _, pod := range p.PendingOn(facts.NodeName(node)) {
			if reconcile.PodTerminated(pod) || !p.Lasted(facts.BoundAt(pod), facts.MountFails) {
				continue
			}
			for i := range pod.Spec.Volumes {
				misplaced(p, node, pod, &pod.Spec.Volumes[i])
			}
		}
	}
	if !p.Snapshot.Complete(snapshot.Nodes) {
		return
	}
	for _, pod := range p.Snapshot.Pods {
		if pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && facts.KeptOffByPlace(pod) && p.Lasted(pod.CreationTimestamp, facts.NodeComes) {
			if !slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return nowhere(p, pod, &v) }) && !mayGetNode(p.View, pod) {
				apart(p, pod)
			}
		}
	}
}

// wantsLabel reports whether the cause's node has lost a label that the pod's volume asks for,
// and is therefore one of the nodes that do not suit. Its driver had set that label, and nothing
// else shows the node in another place.
func wantsLabel(p *facts.View, cause, effect finding.Finding) bool {
	pv, node, csiNode := p.Snapshot.Volume(effect.PersistentVolume), p.Snapshot.Node(cause.Node), p.Snapshot.CSINode(cause.Node)
	if pv == nil || node == nil || csiNode == nil || pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil || pv.Spec.CSI == nil || pv.Spec.CSI.Driver != p.DriverOf(cause) {
		return false
	}
	i := slices.IndexFunc(csiNode.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == pv.Spec.CSI.Driver })
	if i < 0 {
		return false
	}
	return slices.ContainsFunc(pv.Spec.NodeAffinity.Required.NodeSelectorTerms, func(term corev1.NodeSelectorTerm) bool {
		labels := map[string]string{}
		maps.Copy(labels, node.Labels)
		for _, r := range term.MatchExpressions {
			_, has := labels[r.Key]
			if !has && slices.Contains(csiNode.Spec.Drivers[i].TopologyKeys, r.Key) && len(r.Values) > 0 && mayBeIn(node, r) {
				labels[r.Key] = r.Values[0]
			}
		}
		if len(labels) == len(node.Labels) {
			return false
		}
		again := node.DeepCopy()
		again.Labels = labels
		return facts.UnmetAffinity(pv, again) == ""
	})
}

// mayBeIn reports whether the node may be in a place that the volume asks for: the value of a
// driver's zone key is the node's zone, where the node has one.
func mayBeIn(node *corev1.Node, r corev1.NodeSelectorRequirement) bool {
	zone, known := node.Labels[corev1.LabelTopologyZone]
	return !known || !strings.HasSuffix(r.Key, "/zone") || slices.Contains(r.Values, zone)
}

// mayGetNode reports whether an autoscaler may be bringing a node for the pod: it recently said
// so, or its events were not read.
func mayGetNode(p *facts.View, pod *corev1.Pod) bool {
	return !p.Snapshot.CompleteIn(snapshot.Events, pod.Namespace) || !p.Lasted(p.NodeOrdered(pod), facts.NodeComes)
}

// nowhere reports a pod without a node whose volume suits no node that takes pods.
func nowhere(p *check.Run, pod *corev1.Pod, v *corev1.Volume) bool {
	pv := p.BoundVolume(pod, v)
	if pv == nil || pv.Spec.Local == nil && mayGetNode(p.View, pod) { // no new node has the disk of another machine
		return false
	}
	terms, shut, advice := "", []string(nil), "{change} add a node where the volume can be used"
	never := "relabel a node for a place where it is not: the pod would go there and get stuck"
	for _, node := range p.Snapshot.Nodes {
		if facts.Virtual(node) {
			continue
		}
		if unmet := facts.UnmetAffinity(pv, node); unmet != "" {
			terms = unmet
			continue
		}
		switch {
		case !reconcile.NodeReady(node):
			shut = append(shut, node.Name+" is not Ready")
			advice = "{change} bring node " + node.Name + " back, or add a node where the volume can be used"
		case node.Spec.Unschedulable:
			shut = append(shut, node.Name+" is cordoned")
			never = "uncordon it while somebody works on it: the pod would have to leave"
			advice = "{reversible} uncordon node " + node.Name + " where nobody works on it any more, or add a node where the volume can be used"
		default:
			return false // a node suits the volume: something else keeps the pod off it
		}
	}
	if terms == "" && len(shut) == 0 {
		return false
	}
	where := "no node has that"
	if len(shut) > 0 {
		where = strings.Join(shut[:min(len(shut), 3)], ", ")
	}
	if terms == "" {
		terms = "what its nodeAffinity asks for"
	}
	name, err := p.World.VolumeName(pv)
	if err != nil {
		name = ""
	}
	further := "give the autoscaler a pool there, and see whether another rule of the pod (affinity, nodeSelector) forbids it"
	because := "the volume does not move; the pod is scheduled once such a node takes pods, which an autoscaler brings only where it has a pool"
	if pv.Spec.Local != nil {
		if len(shut) == 0 {
			advice = "{fix} bring the machine whose disk the volume is back under its node's name"
			never = "delete the claim or the volume while the machine may come back: they are the way to the data on its disk"
		}
		further = "where that machine is lost for good, its data is too: {change} restore it from a backup into a new claim"
		because = "the volume is a disk of one machine"
	}
	p.Report(finding.Finding{
		Subject:          facts.PodObject(pod),
		Volume:           name,
		PersistentVolume: pv.Name,
		Pods:             facts.PodNames([]*corev1.Pod{pod}),
		Since:            &pod.CreationTimestamp,
		Message:          fmt.Sprintf("Pod %s gets no node: none that takes pods can use volume %s", facts.PodName(pod), pv.Name),
		Detail:           fmt.Sprintf("the volume can be used only on nodes with %s, and %s", terms, where),
		Cause:            "the volume is in one place, and the nodes that take pods are in others",
		Evidence: []finding.Evidence{
			{Object: "persistentvolume/" + pv.Name, Field: "spec.nodeAffinity.required", Value: terms},
			{Object: "pod/" + facts.PodName(pod), Field: "status.conditions[PodScheduled]", Value: scheduledText(pod)},
		},
		SelfHeals: finding.SelfHeals{Because: because},
		Never:     never,
		Advice:    advice + "; " + further,
	})
	return true
}

// apart reports a pod without a node whose volumes are in different places: each suits some node,
// and no node suits all.
func apart(p *check.Run, pod *corev1.Pod) {
	var volumes []*corev1.PersistentVolume
	for i := range pod.Spec.Volumes {
		if pv := p.BoundVolume(pod, &pod.Spec.Volumes[i]); pv != nil && pv.Spec.NodeAffinity != nil {
			volumes = append(volumes, pv)
		}
	}
	suits := func(node *corev1.Node) bool {
		return !facts.Virtual(node) && !slices.ContainsFunc(volumes, func(pv *corev1.PersistentVolume) bool { return facts.UnmetAffinity(pv, node) != "" })
	}
	if len(volumes) < 2 || slices.ContainsFunc(p.Snapshot.Nodes, suits) {
		return
	}
	f := finding.Finding{
		Subject: facts.PodObject(pod), PersistentVolume: volumes[0].Name, Pods: []string{facts.PodName(pod)}, Since: &pod.CreationTimestamp,
		Message: fmt.Sprintf("Pod %s gets no node: its volumes %s and %s are in different places", facts.PodName(pod), volumes[0].Name, volumes[1].Name),
		Detail:  strings.Join(p.VolumePlaces(pod), "; "),
		Cause:   "no node can use all of its volumes, as happens where volumes are made before their pod has a node",
		Evidence: []finding.Evidence{
			{Object: "pod/" + facts.PodName(pod), Field: "status.conditions[PodScheduled]", Value: scheduledText(pod)},
		},
		SelfHeals: finding.SelfHeals{Because: "volumes do not move"},
		Never:     "relabel a node for a place where it is not: the pod would go there and get stuck",
		Advice: "{note} decide which of the volumes has the data; {change} copy the other one from a snapshot or a backup to the place of that one, and give the pod the claim of the copy; " +
			"{later} use a storage class with volumeBindingMode WaitForFirstConsumer",
	}
	for _, pv := range volumes {
		f.Evidence = append(f.Evidence, finding.Evidence{Object: "persistentvolume/" + pv.Name, Field: "spec.nodeAffinity.required", Value: facts.AffinityText(pv)})
	}
	p.Report(f)
}

func scheduledText(pod *corev1.Pod) string {
	if c := facts.Condition(pod, corev1.PodScheduled); c != nil {
		return c.Message
	}
	return ""
}

func misplaced(p *check.Run, node *corev1.Node, pod *corev1.Pod, v *corev1.Volume) {
	pv := p.BoundVolume(pod, v)
	if pv == nil || !facts.Referenced(pod, v.Name) {
		return
	}
	name, err := p.World.VolumeName(pv)
	if err != nil {
		name = ""
	}
	f := finding.Finding{
		Subject:          facts.PodObject(pod),
		Volume:           name,
		Node:             facts.NodeName(node),
		PersistentVolume: pv.Name,
		Pods:             facts.PodNames([]*corev1.Pod{pod}),
		Since:            new(facts.BoundAt(pod)),
		Cause:            "its template names the node, past the scheduler, or the node's labels have changed since",
		SelfHeals:        finding.SelfHeals{Because: "neither the pod nor the volume moves"},
		Advice: "take the nodeName out of the pod's template, or {change} give the node its labels back; {delete-pod}: its " +
			"successor is scheduled where the volume is",
	}
	if terms := facts.UnmetAffinity(pv, node); terms != "" {
		f.Message = fmt.Sprintf("Pod %s waits on node %s, where volume %s cannot be used", facts.PodName(pod), node.Name, pv.Name)
		f.Detail = "the volume can be used only on nodes with " + terms
		f.Evidence = []finding.Evidence{
			{Object: "persistentvolume/" + pv.Name, Field: "spec.nodeAffinity.required", Value: terms},
			{Object: "node/" + node.Name, Field: "metadata.labels", Value: ownLabels(pv, node)},
		}
		p.Report(f)
		return
	}
	va := p.Snapshot.VolumeAttachment(facts.AttachmentName(reconcile.VolumeNode{Volume: name, Node: facts.NodeName(node)}))
	if pv.Spec.NodeAffinity != nil || va == nil || va.Status.Attached || va.DeletionTimestamp != nil ||
		!p.StillRefused(p.AttachError(va)) || !otherZone(va.Status.AttachError.Message) {
		return
	}
	failure := va.Status.AttachError
	f.VolumeAttachment = va.Name
	f.Message = fmt.Sprintf("Pod %s waits on node %s: volume %s is in another zone", facts.PodName(pod), node.Name, pv.Name)
	f.Detail, f.Said = "the driver says so", p.QuoteAttach(va.Spec.Attacher, failure, []*corev1.Pod{pod})
	f.Cause = "the volume does not say where it is (it has no nodeAffinity), so that the scheduler could not know"
	f.Evidence = []finding.Evidence{
		facts.FailedAttach(va, failure),
		{Object: "persistentvolume/" + pv.Name, Field: "spec.nodeAffinity", Value: "none"},
	}
	f.Advice = "{change} keep the pod to nodes of the volume's zone (node affinity in its template); {delete-pod}; {later} give the volume a " +
		"nodeAffinity when you recreate it"
	p.Report(f)
}

// ownLabels are the node's labels for the keys that the volume asks for.
func ownLabels(pv *corev1.PersistentVolume, node *corev1.Node) string {
	var labels []string
	seen := map[string]bool{}
	for _, term := range pv.Spec.NodeAffinity.Required.NodeSelectorTerms {
		for _, r := range term.MatchExpressions {
			if seen[r.Key] {
				continue
			}
			seen[r.Key] = true
			if value, ok := node.Labels[r.Key]; ok {
				labels = append(labels, r.Key+"="+value)
			} else {
				labels = append(labels, r.Key+" is missing")
			}
		}
	}
	return cmp.Or(strings.Join(labels, ", "), "none that the volume asks for")
}

// otherZone reports whether the driver's message says that volume and node are in different
// zones. The word zone alone proves nothing: it is part of many resources' names.
func otherZone(message string) bool {
	return facts.ContainsAny(message, "ZoneMismatch", "not in the same availability zone", "not in the same zone", "different availability zone",
		"different zone", "zone mismatch", "zones do not match")
}
