package diagnose

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var duplicateVolumeHandle = Check{
	Code:     "VD505",
	Name:     "duplicate-volume-handle",
	Title:    "Two persistent volumes stand for one disk",
	Severity: Warning,
	Needs:    []snapshot.Kind{snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.CSIDrivers},
	Run:      runDuplicateVolumeHandle,
}

// sameDisk are several volumes with one driver and handle.
type sameDisk struct {
	name       corev1.UniqueVolumeName
	volumes    []*corev1.PersistentVolume
	attachable bool
}

func runDuplicateVolumeHandle(p *Pass) {
	for _, d := range p.sameDisks() {
		if pod, pvs := p.twiceInOnePod(d); pod != nil {
			p.twiceInPod(d, pod, pvs)
			continue
		}
		// File shares are made to be used through several volumes.
		if !d.attachable || !slices.ContainsFunc(d.volumes, func(pv *corev1.PersistentVolume) bool { return !(&reconcile.VolumeSpec{PV: pv}).MultiAttach() }) {
			continue
		}
		p.twoVolumes(d)
	}
}

func (p *Pass) sameDisks() []sameDisk { return p.remember().sameDisks.get(p.findSameDisks) }

func (p *Pass) findSameDisks() []sameDisk {
	places := make(map[corev1.UniqueVolumeName]int, len(p.Snapshot.Volumes))
	all := make([]sameDisk, 0, len(p.Snapshot.Volumes))
	for i, pv := range p.Snapshot.Volumes {
		// One that is not Bound is a reserve, or what a Retain policy kept.
		if pv.DeletionTimestamp != nil || pv.Status.Phase != corev1.VolumeBound {
			continue
		}
		name, err := p.World.VolumeName(pv)
		if err != nil && pv.Spec.CSI != nil {
			name = corev1.UniqueVolumeName("kubernetes.io/csi/" + pv.Spec.CSI.Driver + "^" + pv.Spec.CSI.VolumeHandle)
		}
		if name == "" {
			continue
		}
		if place, ok := places[name]; ok {
			all[place].volumes = append(all[place].volumes, pv)
			continue
		}
		places[name] = len(all)
		all = append(all, sameDisk{name, p.Snapshot.Volumes[i : i+1 : i+1], err == nil})
	}
	return slices.DeleteFunc(all, func(d sameDisk) bool { return len(d.volumes) < 2 })
}

// differentVolumes says that the two claims are bound to different volumes which
// are one disk.
func (p *Pass) differentVolumes(disk corev1.UniqueVolumeName, a, b *corev1.PersistentVolumeClaim) bool {
	return a != nil && b != nil && a.Spec.VolumeName != b.Spec.VolumeName &&
		slices.ContainsFunc(p.sameDisks(), func(d sameDisk) bool { return d.name == disk })
}

// twiceInOnePod finds a pod that uses the disk through two volumes and does not
// start: the kubelet tells volumes apart by driver and handle, and up to 1.34
// waited for a second volume of one name for ever.
func (p *Pass) twiceInOnePod(d sameDisk) (*corev1.Pod, []*corev1.PersistentVolume) {
	pods := p.pendingPods()
	longestFirst(pods)
	for _, pod := range pods {
		node := p.Snapshot.Node(types.NodeName(pod.Spec.NodeName))
		if node == nil || !parseKubelet(node.Status.NodeInfo.KubeletVersion).before(oneClaimTwice) ||
			reconcile.PodTerminated(pod) || p.Age(boundAt(pod)) < conflictSettles {
			continue
		}
		if used := p.usedOf(d, pod); len(used) > 1 {
			return pod, used
		}
	}
	return nil, nil
}

// usedOf are those of the volumes that the pod uses.
func (p *Pass) usedOf(d sameDisk, pod *corev1.Pod) []*corev1.PersistentVolume {
	var used []*corev1.PersistentVolume
	for i := range pod.Spec.Volumes {
		pv := p.boundVolume(pod, &pod.Spec.Volumes[i])
		if pv != nil && slices.Contains(d.volumes, pv) && !slices.Contains(used, pv) {
			used = append(used, pv)
		}
	}
	return used
}

func (p *Pass) twiceInPod(d sameDisk, pod *corev1.Pod, pvs []*corev1.PersistentVolume) {
	f := p.sameDiskFinding(d)
	since := boundAt(pod)
	f.Severity, f.Pods, f.Since, f.Node = Error, podNames([]*corev1.Pod{pod}), &since, types.NodeName(pod.Spec.NodeName)
	f.Message = fmt.Sprintf("Pod %s on node %s uses volumes %s and %s, which are one disk, and does not start: the kubelet takes them for one volume",
		podName(pod), pod.Spec.NodeName, pvs[0].Name, pvs[1].Name)
	f.SelfHeals.Because = "the kubelet mounts the disk for one of the two and waits for the other for ever and without a word; one of 1.35 or later does not"
	f.Evidence = append(f.Evidence, Evidence{"node/" + pod.Spec.NodeName, "status.nodeInfo.kubeletVersion",
		p.Snapshot.Node(f.Node).Status.NodeInfo.KubeletVersion})
	f.Advice = "let the pod use one of the two, or give each its own volumeHandle; set the policy of both to Retain before any of them is deleted"
	p.Report(f)
}

func (p *Pass) twoVolumes(d sameDisk) {
	f := p.sameDiskFinding(d)
	var users []*corev1.Pod
	used := map[string]*corev1.Pod{}
	for _, pod := range p.Snapshot.Pods {
		if reconcile.PodTerminated(pod) || pod.DeletionTimestamp != nil || pod.Spec.NodeName == "" {
			continue
		}
		for _, pv := range p.usedOf(d, pod) {
			if used[pv.Name] == nil {
				used[pv.Name] = pod
			}
			if !slices.Contains(users, pod) {
				users = append(users, pod)
			}
		}
	}
	deletes := slices.ContainsFunc(d.volumes, func(pv *corev1.PersistentVolume) bool {
		return pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
	})
	first, second := d.volumes[0], d.volumes[1]
	f.Message = fmt.Sprintf("Volumes %s and %s are one disk, and both are bound", first.Name, second.Name)
	f.Advice = "set the policy of both to Retain, find out which one the data belongs to, and take the other out of use before it is deleted"
	switch {
	case len(used) > 1 && len(users) > 1:
		var places []*corev1.Pod
		for _, pv := range d.volumes {
			if pod := used[pv.Name]; pod != nil {
				places = append(places, pod)
			}
		}
		f.Pods = podNames(users)
		if slices.ContainsFunc(users, func(pod *corev1.Pod) bool { return pod.Spec.NodeName != users[0].Spec.NodeName }) {
			f.Severity = Error // they cannot have it both, or both write
		}
		f.Message += " and used: " + podPlaces(places)
		f.Advice = "end the pods of one of the two in the ordinary way before both write. Then " + f.Advice
	case deletes:
		f.Severity = Info
		f.Message += ": the deletion of one takes the other's data with it"
	default:
		return // kept by policy, and used through one at most
	}
	p.Report(f)
}

func (p *Pass) sameDiskFinding(d sameDisk) Finding {
	f := Finding{
		Subject:          pvObject(d.volumes[0]),
		Volume:           d.name,
		PersistentVolume: d.volumes[0].Name,
		Cause:            "the volumes were made by hand, or restored from a backup beside their originals, with one driver and handle",
		SelfHeals:        SelfHeals{Because: "nothing in the cluster compares the handles of volumes"},
	}
	for _, pv := range d.volumes {
		if f.Since == nil || f.Since.Before(&pv.CreationTimestamp) {
			f.Since = &pv.CreationTimestamp
		}
		f.Evidence = append(f.Evidence, Evidence{"persistentvolume/" + pv.Name, "volume handle", fmt.Sprintf("%s; modes %v, policy %s, claim %s/%s",
			d.name, pv.Spec.AccessModes, pv.Spec.PersistentVolumeReclaimPolicy, claimNamespace(pv), claimName(pv))})
	}
	return f
}

func claimNamespace(pv *corev1.PersistentVolume) string {
	if pv.Spec.ClaimRef == nil {
		return ""
	}
	return pv.Spec.ClaimRef.Namespace
}

func claimName(pv *corev1.PersistentVolume) string {
	if pv.Spec.ClaimRef == nil {
		return ""
	}
	return pv.Spec.ClaimRef.Name
}
