package diagnose

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var attachLimit = Check{
	Code:     "VD608",
	Name:     "attach-limit",
	Title:    "A node has, or is to have, as many volumes attached as the driver's limit allows",
	Severity: Error,
	Needs: []snapshot.Kind{
		snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSIDrivers, snapshot.CSINodes, snapshot.Leases,
	},
	Run: runAttachLimit,
}

func runAttachLimit(p *Pass) {
	loads := p.loads()
	drivers := p.attachers()
	for _, node := range p.Snapshot.Nodes {
		for _, driver := range drivers {
			if l := loads[nodeDriver{node.Name, driver}]; l != nil {
				p.attachLimit(l)
			}
		}
	}
	p.limitForecast(loads)
}

type nodeDriver struct{ node, driver string }

// load is what one driver has to attach to one node.
type load struct {
	node   *corev1.Node
	driver string
	// limit is how many volumes the driver says fit; 0 where it does not say.
	limit int
	// held are attached, those on their way off the node among them, which take up
	// room until they have left; wanted are to be attached by what pods want. Both
	// are by name, so that each counts once.
	held, wanted sets.Set[corev1.UniqueVolumeName]
	// refused are the tasks that the driver has refused for want of room.
	refused []task
	// waits are the attaches without such a word that have had their time.
	waits []task
	// freeing says that a detach is under way, which makes room.
	freeing bool
}

// loads are those of all nodes and drivers that have any attachment.
func (p *Pass) loads() map[nodeDriver]*load { return p.remember().loads.get(p.findLoads) }

func (p *Pass) findLoads() map[nodeDriver]*load {
	loads := make(map[nodeDriver]*load, len(p.Snapshot.Nodes))
	for _, va := range p.Snapshot.VolumeAttachments {
		key := nodeDriver{va.Spec.NodeName, va.Spec.Attacher}
		l := loads[key]
		if l == nil {
			l = &load{node: p.Snapshot.Node(types.NodeName(key.node)), driver: key.driver, limit: limitOf(p.Snapshot.CSINode(types.NodeName(key.node)), key.driver),
				held: sets.New[corev1.UniqueVolumeName](), wanted: sets.New[corev1.UniqueVolumeName]()}
			loads[key] = l
		}
		pair, ok := p.taskPair(task{VolumeAttachment: va})
		if !ok {
			pair.Volume = corev1.UniqueVolumeName(va.Name) // its volume is gone, and it takes up room all the same
		}
		if va.Status.Attached {
			l.held.Insert(pair.Volume)
		}
		if va.DeletionTimestamp != nil && p.Age(*va.DeletionTimestamp) < slowDetachSettles {
			l.freeing = true
		}
	}
	for pair, row := range p.World.Desired {
		driver, _, _ := row.Spec.CSI()
		if l := loads[nodeDriver{string(pair.Node), driver}]; l != nil {
			l.wanted.Insert(pair.Volume)
		}
	}
	for _, driver := range p.attachers() {
		for _, t := range p.tasks(driver) {
			if t.DeletionTimestamp == nil {
				p.loadTask(loads[nodeDriver{t.Spec.NodeName, driver}], t)
			}
		}
	}
	return loads
}

func (p *Pass) loadTask(l *load, t task) {
	switch {
	case limitError(t.failure):
		if p.Age(t.since) >= refusalSettles && p.Age(t.failure.Time) < attacherSilent {
			l.refused = append(l.refused, t)
		}
	case p.Age(t.since) >= attachSettles && (t.failure == nil || unanswered(t.failure.Message)):
		l.waits = append(l.waits, t)
	}
}

func limitOf(csiNode *storagev1.CSINode, driver string) int {
	if csiNode == nil {
		return 0
	}
	for _, d := range csiNode.Spec.Drivers {
		if d.Name == driver && d.Allocatable != nil && d.Allocatable.Count != nil {
			return int(*d.Allocatable.Count)
		}
	}
	return 0
}

// limitError says that the driver has no room left on the node. The CSI
// specification keeps ResourceExhausted for that; some providers use it for
// calls that come too fast, too.
func limitError(e *storagev1.VolumeError) bool {
	if e == nil || throttled(e.Message) {
		return false
	}
	return e.ErrorCode != nil && *e.ErrorCode == resourceExhausted ||
		containsAny(e.Message, "ResourceExhausted", "AttachmentLimitExceeded", "max number of volumes", "maximum number of volumes",
			"maximum number of data disks", "maximum number of disks", "maximum volumes", "volume limit", "attachment limit", "attach limit")
}

func (p *Pass) attachLimit(l *load) {
	full := l.limit > 0 && l.held.Len() >= l.limit
	stuck := l.refused
	if len(stuck) == 0 && full && p.attacherAtWork(l.driver) {
		stuck = l.waits
	}
	pods := p.taskPods(stuck)
	switch {
	case len(pods) > 0 && !l.freeing:
		p.limitReached(l, stuck, pods)
	case len(p.rejected(l)) > 0:
		p.limitAftermath(l, p.rejected(l))
	case full && reconcile.NodeReady(l.node):
		p.limitFull(l)
	case l.limit > 0 && l.all() > l.limit && reconcile.NodeReady(l.node):
		p.limitFull(l)
	}
}

func (p *Pass) limitReached(l *load, stuck []task, pods []*corev1.Pod) {
	f := p.limitFinding(l)
	since := stuck[0].since
	f.Since, f.Pods = &since, podNames(pods)
	f.Message = fmt.Sprintf("Pod %s waits on node %s for volume %s, which does not fit: %s",
		podName(pods[0]), l.node.Name, p.taskVolume(p.lead(stuck)), l.text())
	f.Cause = "the driver attaches no more volumes to the node; the scheduler did not know, because the driver gives no limit, or one that is too high, " +
		"or other devices take up room, or the pod names its node itself"
	f.Evidence = append(f.Evidence, taskEvidence(stuck)...)
	f.SelfHeals.Because = "it fits once another volume is detached from the node; nobody moves the pod"
	f.Advice = fmt.Sprintf("let the pod start elsewhere: cordon %s, delete the pod, uncordon; and give the driver the right limit (its volume-attach-limit "+
		"or reserved-volume-attachments setting)", l.node.Name)
	if p.leftWaiting(l, stuck) {
		f.SelfHeals.Because += "; the kubelet would reject the pod, and its workload make another, if the CSIDriver had nodeAllocatableUpdatePeriodSeconds"
		f.Advice += "; and set nodeAllocatableUpdatePeriodSeconds in the CSIDriver, so that the limit follows what the driver finds and such pods are rejected"
	}
	p.Report(f)
}

// leftWaiting says that the kubelet would reject the pod but for a setting of the
// driver: it does from 1.35 on where the attacher records the code, and the
// CSIDriver says how often the limit is to be asked for (VerifyExhaustedResource).
func (p *Pass) leftWaiting(l *load, stuck []task) bool {
	d := p.Snapshot.CSIDriver(l.driver)
	kubelet := parseKubelet(l.node.Status.NodeInfo.KubeletVersion)
	return d != nil && d.Spec.NodeAllocatableUpdatePeriodSeconds == nil && kubelet >= limitRejection &&
		slices.ContainsFunc(stuck, func(t task) bool {
			return t.failure != nil && t.failure.ErrorCode != nil && *t.failure.ErrorCode == resourceExhausted
		})
}

// rejected are the pods that the kubelet refused because of the limit, that have
// failed, and whose attachment stays as long as they are there.
func (p *Pass) rejected(l *load) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, pod := range p.podsByRole().refused[nodeName(l.node)] {
		if pod.DeletionTimestamp != nil || p.Age(boundAt(pod)) < attachSettles {
			continue
		}
		stays := func(va *storagev1.VolumeAttachment) bool { return !va.Status.Attached && va.DeletionTimestamp == nil }
		for i := range pod.Spec.Volumes {
			name, spec, err := p.World.PodVolume(pod, &pod.Spec.Volumes[i])
			if err != nil || !inUse(l.node, name) {
				continue
			}
			pair := reconcile.VolumeNode{Volume: name, Node: nodeName(l.node)}
			if d, _, _ := spec.CSI(); d == l.driver && slices.ContainsFunc(p.World.Attachments(pair), stays) && p.World.Desired[pair] == nil {
				pods = append(pods, pod)
				break
			}
		}
	}
	return pods
}

func (p *Pass) limitAftermath(l *load, pods []*corev1.Pod) {
	f := p.limitFinding(l)
	since := boundAt(pods[0])
	f.Severity, f.Since, f.Pods = Warning, &since, podNames(pods)
	f.Message = fmt.Sprintf("Pod %s, which node %s refused because its volume does not fit, has failed and still keeps the attachment there waiting: %s",
		podName(pods[0]), l.node.Name, l.text())
	f.Cause = "a pod whose volume was never mounted keeps it in volumesInUse for as long as the pod exists, and so the attachment, which the attacher " +
		"tries again and the scheduler counts"
	f.Evidence = append(f.Evidence, Evidence{"pod/" + podName(pods[0]), "status.reason", pods[0].Status.Reason})
	f.SelfHeals.Because = "only the deletion of the failed pod lets the attachment go; a StatefulSet deletes it, a ReplicaSet does not"
	f.Advice = fmt.Sprintf("delete the failed pod: kubectl -n %s delete pod %s", pods[0].Namespace, pods[0].Name)
	p.Report(f)
}

// limitFull tells of a node on which nothing waits, or not yet.
func (p *Pass) limitFull(l *load) {
	f := p.limitFinding(l)
	f.Severity = Info
	f.Message = fmt.Sprintf("Node %s takes no more volumes of %s: %s", l.node.Name, l.driver, l.text())
	f.Cause = "as many volumes as the driver allows are attached to the node"
	f.SelfHeals.Because = "the scheduler knows of the limit and sends pods with further volumes elsewhere"
	f.Advice = "nothing needs to be done; a pod that must start here needs a volume to leave first, or a node of another size"
	if over := l.all() - l.limit; over > 0 {
		f.Message = fmt.Sprintf("Pods on node %s want more volumes of %s than fit: %s", l.node.Name, l.driver, l.text())
		f.Cause = "the pods name the node themselves, or were scheduled while the driver gave no limit"
		f.SelfHeals.Because = "what does not fit waits until another volume leaves the node; nobody moves the pods"
		f.Advice = fmt.Sprintf("a pod there that does not come to its volume within minutes has to start elsewhere: %d of the volumes cannot be attached", over)
	}
	p.Report(f)
}

func (p *Pass) limitFinding(l *load) Finding {
	limit := "none given"
	if l.limit > 0 {
		limit = fmt.Sprint(l.limit)
	}
	f := Finding{
		Subject:  p.driverObject(l.driver),
		Node:     nodeName(l.node),
		Evidence: []Evidence{{"csinode/" + l.node.Name, "spec.drivers[" + l.driver + "].allocatable.count", limit}},
	}
	f.Evidence = append(f.Evidence, Evidence{"volumeattachments", "status.attached", fmt.Sprintf("true of %d on the node", l.held.Len())})
	for _, name := range sets.List(l.held) {
		if pair := (reconcile.VolumeNode{Volume: name, Node: nodeName(l.node)}); p.forgotten(pair) {
			f.Evidence = append(f.Evidence, Evidence{"node/" + l.node.Name, "status.volumesInUse", "lacks " + string(name) + ", which is attached and which no pod there uses"})
		}
	}
	return f
}

// all counts what is attached and what is to be.
func (l *load) all() int {
	n := l.held.Len()
	for volume := range l.wanted {
		n += boolToInt(!l.held.Has(volume))
	}
	return n
}

func (l *load) text() string {
	all := l.all()
	if l.limit > 0 {
		return fmt.Sprintf("%d of at most %d volumes are attached, %d with those that pods want there", l.held.Len(), l.limit, all)
	}
	return fmt.Sprintf("%d volumes are attached, %d with those that pods want there, and the driver gives no limit", l.held.Len(), all)
}
