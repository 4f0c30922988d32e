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
	// uses are those of all pods, in the order of the snapshot.
	uses []diskUse
}

// diskUse is a pod and those of the disk's volumes that it uses, each once.
type diskUse struct {
	pod     *corev1.Pod
	volumes []*corev1.PersistentVolume
}

func runDuplicateVolumeHandle(p *Pass) {
	for _, d := range p.sameDisks().all {
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

// sameDisks are all, and their places by name.
type sameDisks struct {
	all    []sameDisk
	places map[corev1.UniqueVolumeName]int
}

func (p *Pass) sameDisks() sameDisks {
	return p.remember().sameDisks.get(func() sameDisks {
		disks := sameDisks{p.findSameDisks(), map[corev1.UniqueVolumeName]int{}}
		for i, d := range disks.all {
			disks.places[d.name] = i
		}
		p.findDiskUses(disks)
		return disks
	})
}

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
		all = append(all, sameDisk{name, p.Snapshot.Volumes[i : i+1 : i+1], err == nil, nil})
	}
	return slices.Clone(slices.DeleteFunc(all, func(d sameDisk) bool { return len(d.volumes) < 2 }))
}

// findDiskUses finds the pods that use the disks, in one walk.
func (p *Pass) findDiskUses(disks sameDisks) {
	if len(disks.all) == 0 {
		return
	}
	of := map[*corev1.PersistentVolume]*sameDisk{}
	for i := range disks.all {
		for _, pv := range disks.all[i].volumes {
			of[pv] = &disks.all[i]
		}
	}
	for _, pod := range p.Snapshot.Pods {
		for i := range pod.Spec.Volumes {
			pv := p.boundVolume(pod, &pod.Spec.Volumes[i])
			d := of[pv]
			if d == nil {
				continue
			}
			if last := len(d.uses) - 1; last < 0 || d.uses[last].pod != pod {
				d.uses = append(d.uses, diskUse{pod: pod})
			}
			if use := &d.uses[len(d.uses)-1]; !slices.Contains(use.volumes, pv) {
				use.volumes = append(use.volumes, pv)
			}
		}
	}
}

// differentVolumes says that the two claims are bound to different volumes which
// are one disk.
func (p *Pass) differentVolumes(disk corev1.UniqueVolumeName, a, b *corev1.PersistentVolumeClaim) bool {
	if a == nil || b == nil || a.Spec.VolumeName == b.Spec.VolumeName {
		return false
	}
	_, same := p.sameDisks().places[disk]
	return same
}

// twiceInOnePod finds a pod that uses the disk through two volumes and does not
// start: the kubelet tells volumes apart by driver and handle, and up to 1.34
// waited for a second volume of one name for ever.
func (p *Pass) twiceInOnePod(d sameDisk) (*corev1.Pod, []*corev1.PersistentVolume) {
	used := map[*corev1.Pod][]*corev1.PersistentVolume{}
	var pods []*corev1.Pod
	for _, use := range d.uses {
		node := p.Snapshot.Node(types.NodeName(use.pod.Spec.NodeName))
		if len(use.volumes) < 2 || !isPending(use.pod) || node == nil || !parseKubelet(node.Status.NodeInfo.KubeletVersion).before(oneClaimTwice) ||
			reconcile.PodTerminated(use.pod) || p.Age(boundAt(use.pod)) < conflictSettles {
			continue
		}
		pods, used[use.pod] = append(pods, use.pod), use.volumes
	}
	if len(pods) == 0 {
		return nil, nil
	}
	longestFirst(pods)
	return pods[0], used[pods[0]]
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
	for _, use := range d.uses {
		if reconcile.PodTerminated(use.pod) || use.pod.DeletionTimestamp != nil || use.pod.Spec.NodeName == "" {
			continue
		}
		users = append(users, use.pod)
		for _, pv := range use.volumes {
			if used[pv.Name] == nil {
				used[pv.Name] = use.pod
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
