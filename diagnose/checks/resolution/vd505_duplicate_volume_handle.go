package resolution

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var DuplicateVolumeHandle = check.Check{
	Code:     "VD505",
	Name:     "duplicate-volume-handle",
	Title:    "Two persistent volumes stand for one disk",
	Severity: finding.Warning,
	Breaks:   check.Holds,
	Needs:    []snapshot.Kind{snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.CSIDrivers},
	Never:    "delete either before both have policy Retain: the disk goes with it",
	Run:      runDuplicateVolumeHandle,
}

func runDuplicateVolumeHandle(p *check.Run) {
	for _, d := range p.SameDisks().All {
		if pod, pvs := twiceInOnePod(p.View, d); pod != nil {
			twiceInPod(p, d, pod, pvs)
			continue
		}
		// File shares are meant to be used through several volumes.
		if !d.Attachable || !slices.ContainsFunc(d.Volumes, func(pv *corev1.PersistentVolume) bool { return !(&reconcile.VolumeSpec{PV: pv}).MultiAttach() }) {
			continue
		}
		twoVolumes(p, d)
	}
}

// twiceInOnePod finds a pod that uses the disk through two volumes and does not start. The
// kubelet identifies volumes by driver and handle; up to 1.34 it waits for ever for a second
// volume with one name. From 1.35 on one volume may have several names in the pod, from one claim
// or from two.
func twiceInOnePod(p *facts.View, d facts.SameDisk) (*corev1.Pod, []*corev1.PersistentVolume) {
	used := map[*corev1.Pod][]*corev1.PersistentVolume{}
	var pods []*corev1.Pod
	for _, use := range d.Uses {
		node := p.Snapshot.Node(types.NodeName(use.Pod.Spec.NodeName))
		if len(use.Volumes) < 2 || !facts.IsPending(use.Pod) || node == nil || !facts.ParseKubelet(node.Status.NodeInfo.KubeletVersion).Before(facts.OneClaimTwice) ||
			reconcile.PodTerminated(use.Pod) || !p.Lasted(facts.BoundAt(use.Pod), facts.HandOverTakes) {
			continue
		}
		pods, used[use.Pod] = append(pods, use.Pod), use.Volumes
	}
	if len(pods) == 0 {
		return nil, nil
	}
	facts.LongestFirst(pods)
	return pods[0], used[pods[0]]
}

func twiceInPod(p *check.Run, d facts.SameDisk, pod *corev1.Pod, pvs []*corev1.PersistentVolume) {
	f := sameDiskFinding(d)
	f.Severity, f.Pods, f.Since, f.Node = finding.Error, facts.PodNames([]*corev1.Pod{pod}), new(facts.BoundAt(pod)), types.NodeName(pod.Spec.NodeName)
	f.Message = fmt.Sprintf("Pod %s on node %s does not start: its volumes %s and %s are one disk", facts.PodName(pod), pod.Spec.NodeName, pvs[0].Name, pvs[1].Name)
	f.Detail = "the kubelet takes them for one volume"
	f.SelfHeals.Because = "the kubelet waits for one of the two for ever; the kubelet mounts the disk for the other, without a word; a kubelet of 1.35 or later does not"
	f.Evidence = append(f.Evidence, finding.Evidence{Object: "node/" + pod.Spec.NodeName, Field: "status.nodeInfo.kubeletVersion",
		Value: p.Snapshot.Node(f.Node).Status.NodeInfo.KubeletVersion})
	f.Advice = "let the pod use one of the two, or {change} give each its own volumeHandle; {change} set the policy of both to Retain before any of them is deleted"
	p.Report(f)
}

func twoVolumes(p *check.Run, d facts.SameDisk) {
	f := sameDiskFinding(d)
	var users []*corev1.Pod
	used := map[string]*corev1.Pod{}
	for _, use := range d.Uses {
		if reconcile.PodTerminated(use.Pod) || use.Pod.DeletionTimestamp != nil || use.Pod.Spec.NodeName == "" {
			continue
		}
		users = append(users, use.Pod)
		for _, pv := range use.Volumes {
			if used[pv.Name] == nil {
				used[pv.Name] = use.Pod
			}
		}
	}
	deletes := slices.ContainsFunc(d.Volumes, func(pv *corev1.PersistentVolume) bool {
		return pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
	})
	first, second := d.Volumes[0], d.Volumes[1]
	f.Message = fmt.Sprintf("Volumes %s and %s are one disk, and both are bound", first.Name, second.Name)
	f.Advice = "{change} set the policy of both to Retain, find out which one the data belongs to, and {final} take the other out of use before it is deleted"
	switch {
	case len(used) > 1 && len(users) > 1:
		var places []*corev1.Pod
		for _, pv := range d.Volumes {
			if pod := used[pv.Name]; pod != nil {
				places = append(places, pod)
			}
		}
		f.Pods = facts.PodNames(users)
		if slices.ContainsFunc(users, func(pod *corev1.Pod) bool { return pod.Spec.NodeName != users[0].Spec.NodeName }) {
			f.Severity = finding.Error // either they cannot both have it, or both write
		}
		f.Message += " and used"
		f.Detail = facts.PodPlaces(places)
		f.Advice = "{note} end the pods of one of the two before both write: {stop-pod any}; {do} " + f.Advice
	case deletes:
		f.Severity = finding.Info
		f.Detail = "the deletion of one takes the other's data with it"
	default:
		return // a policy keeps them, and at most one is used
	}
	p.Report(f)
}

func sameDiskFinding(d facts.SameDisk) finding.Finding {
	f := finding.Finding{
		Subject:          facts.PvObject(d.Volumes[0]),
		Volume:           d.Name,
		PersistentVolume: d.Volumes[0].Name,
		Cause:            "the volumes were made by hand, or restored from a backup beside their originals, with one driver and handle",
		SelfHeals:        finding.SelfHeals{Because: "nothing compares the handles of volumes"},
	}
	for _, pv := range d.Volumes {
		if f.Since == nil || f.Since.Before(&pv.CreationTimestamp) {
			f.Since = &pv.CreationTimestamp
		}
		claim := ptr.Deref(pv.Spec.ClaimRef, corev1.ObjectReference{})
		f.Evidence = append(f.Evidence, finding.Evidence{Object: "persistentvolume/" + pv.Name, Field: "volume handle", Value: fmt.Sprintf("%s; modes %v, policy %s, claim %s/%s",
			d.Name, pv.Spec.AccessModes, pv.Spec.PersistentVolumeReclaimPolicy, claim.Namespace, claim.Name)})
	}
	return f
}
