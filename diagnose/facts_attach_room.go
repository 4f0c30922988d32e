package diagnose

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// limitForecast tells of pods without a node that want more volumes of a driver
// than all nodes together have room for. Where a single node gives no limit, or
// cannot be asked for one, there is no forecast.
func (p *Pass) limitForecast(loads map[nodeDriver]*load) {
	unplaced := p.unplaced()
	for _, driver := range slices.Sorted(maps.Keys(unplaced)) {
		if pods, volumes := podsOf(unplaced[driver]), volumesOf(unplaced[driver]); len(volumes) > 0 {
			p.noRoomAhead(driver, pods, volumes, loads)
		}
	}
}

// unplaced are the volumes by driver, attached nowhere, of pods that have had no
// node for a while. One that is attached may be used where it is.
func (p *Pass) unplaced() map[string][]podVolume {
	byDriver := map[string][]podVolume{}
	for _, pod := range p.Snapshot.Pods {
		if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodPending || p.Age(pod.CreationTimestamp) < listsSettle {
			continue
		}
		for i := range pod.Spec.Volumes {
			claim := p.Snapshot.Claim(claimKey(pod, reconcile.ClaimName(pod, &pod.Spec.Volumes[i])))
			if claim == nil {
				continue
			}
			driver, volume := p.csiVolume(pod, &pod.Spec.Volumes[i])
			if claim.Spec.VolumeName == "" {
				driver = p.provisioner(claim)
			}
			name := claim.Namespace + "/" + claim.Name
			attached := claim.Spec.VolumeName != "" && len(p.attachmentsNaming(claim.Spec.VolumeName)) > 0
			if driver != "" && !attached {
				byDriver[driver] = append(byDriver[driver], podVolume{pod, volume.volume, name})
			}
		}
	}
	return byDriver
}

// provisioner is the driver that will make the claim's volume; "" where its
// class is not known.
func (p *Pass) provisioner(claim *corev1.PersistentVolumeClaim) string {
	for _, class := range p.Snapshot.StorageClasses {
		if claim.Spec.StorageClassName != nil && class.Name == *claim.Spec.StorageClassName {
			return class.Provisioner
		}
	}
	return ""
}

// volumesOf are the names of the list's volumes, each once.
func volumesOf(list []podVolume) []string {
	var names []string
	for _, v := range list {
		names = append(names, v.name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (p *Pass) noRoomAhead(driver string, pods []*corev1.Pod, volumes []string, loads map[nodeDriver]*load) {
	const enough = 5
	room, nodes := 0, 0
	var evidence []Evidence
	for _, node := range p.Snapshot.Nodes {
		if !registers(p.Snapshot.CSINode(nodeName(node)), driver) || !reconcile.NodeReady(node) || node.Spec.Unschedulable {
			continue
		}
		limit := limitOf(p.Snapshot.CSINode(nodeName(node)), driver)
		if limit == 0 {
			return
		}
		used := 0
		if l := loads[nodeDriver{node.Name, driver}]; l != nil {
			used = l.all()
		}
		nodes++
		room += max(limit-used, 0)
		if len(evidence) < enough {
			evidence = append(evidence, Evidence{"csinode/" + node.Name, "spec.drivers[" + driver + "].allocatable.count", fmt.Sprintf("%d, of which %d are taken", limit, used)})
		}
	}
	if nodes == 0 || len(volumes) <= room {
		return
	}
	longestFirst(pods)
	since := pods[0].CreationTimestamp
	p.Report(Finding{
		Severity: Info,
		Subject:  p.driverObject(driver),
		Pods:     podNames(pods),
		Since:    &since,
		Message: fmt.Sprintf("Pods without a node want %d more volumes of %s, and the %d nodes that can be scheduled to have room for %d; pod %s has waited longest",
			len(volumes), driver, nodes, room, podName(pods[0])),
		Cause:     "the nodes are too few, or too small, for as many volumes of the driver",
		Evidence:  evidence,
		SelfHeals: SelfHeals{Because: "the scheduler places the pods as volumes leave the nodes, or nodes come; an autoscaler that counts volumes brings them"},
		Advice:    "add nodes, or take volumes off those that there are; see that the driver's limit is not lower than the machines' own",
	})
}
