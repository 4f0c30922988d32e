package driver

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// limitForecast reports pods without a node that want more volumes of a driver than all nodes
// together have room for. Where the limit of one node is not known, there is no forecast.
func limitForecast(p *check.Run, loads map[facts.NodeDriver]*facts.Load) {
	unplaced := unplaced(p.View)
	for _, driver := range slices.Sorted(maps.Keys(unplaced)) {
		if pods, volumes := facts.LongestFirst(facts.PodsOf(unplaced[driver])), volumesOf(unplaced[driver]); len(volumes) > 0 {
			noRoomAhead(p, driver, pods, volumes, loads)
		}
	}
}

// unplaced are the volumes, by driver, of pods that have had no node for a while. An attached
// volume does not count: it may be used where it is.
func unplaced(p *facts.View) map[string][]facts.PodVolume {
	byDriver := map[string][]facts.PodVolume{}
	for _, pod := range p.Snapshot.Pods {
		if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodPending || p.Age(pod.CreationTimestamp) < facts.ListsGrace {
			continue
		}
		for i := range pod.Spec.Volumes {
			claim := p.ClaimOf(pod, &pod.Spec.Volumes[i])
			if claim == nil {
				continue
			}
			driver, volume := p.CsiVolume(pod, &pod.Spec.Volumes[i])
			if claim.Spec.VolumeName == "" {
				driver = provisioner(p, claim)
			}
			name := claim.Namespace + "/" + claim.Name
			attached := claim.Spec.VolumeName != "" && len(p.AttachmentsNaming(claim.Spec.VolumeName)) > 0
			if driver != "" && !attached {
				byDriver[driver] = append(byDriver[driver], facts.PodVolume{Pod: pod, Volume: volume.Volume, Name: name})
			}
		}
	}
	return byDriver
}

// provisioner is the driver that will make the claim's volume; "" where its class is not known.
func provisioner(p *facts.View, claim *corev1.PersistentVolumeClaim) string {
	for _, class := range p.Snapshot.StorageClasses {
		if claim.Spec.StorageClassName != nil && class.Name == *claim.Spec.StorageClassName {
			return class.Provisioner
		}
	}
	return ""
}

// volumesOf are the names of the volumes in the list, each once.
func volumesOf(list []facts.PodVolume) []string {
	var names []string
	for _, v := range list {
		names = append(names, v.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func noRoomAhead(p *check.Run, driver string, pods []*corev1.Pod, volumes []string, loads map[facts.NodeDriver]*facts.Load) {
	const enough = 5
	room, nodes := 0, 0
	var evidence []finding.Evidence
	for _, node := range p.Snapshot.Nodes {
		if !facts.Registers(p.Snapshot.CSINode(facts.NodeName(node)), driver) || !reconcile.NodeReady(node) || node.Spec.Unschedulable {
			continue
		}
		limit, limited := facts.AttachLimit(p.Snapshot.CSINode(facts.NodeName(node)), driver)
		if !limited {
			return
		}
		used := 0
		if l := loads[facts.NodeDriver{Node: node.Name, Driver: driver}]; l != nil {
			used = l.All()
		}
		nodes++
		room += max(limit-used, 0)
		if len(evidence) < enough {
			evidence = append(evidence, finding.Evidence{Object: "csinode/" + node.Name, Field: "spec.drivers[" + driver + "].allocatable.count", Value: fmt.Sprintf("%d, of which %d are taken", limit, used)})
		}
	}
	if nodes == 0 || len(volumes) <= room {
		return
	}
	severity := finding.Info
	message := fmt.Sprintf("Pods without a node want more volumes of %s than nodes can take", driver)
	if kept := slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool { return !keptOffByLimit(pod) }); len(kept) > 0 {
		severity, pods = finding.Warning, kept // the forecast has come true
		message = fmt.Sprintf("Pod %s gets no node that has room for its volumes of %s", facts.PodName(pods[0]), driver)
		if n := len(pods); n > 1 {
			message = fmt.Sprintf("%d pods get no node that has room for their volumes of %s", n, driver)
		}
	}
	atLeast := ""
	if !p.Snapshot.Complete(snapshot.StorageClasses) { // for the classes of claims that have no volume yet
		atLeast = "at least "
	}
	p.Report(finding.Finding{
		Severity: severity,
		Subject:  p.DriverObject(driver),
		Pods:     facts.PodNames(pods),
		Since:    &pods[0].CreationTimestamp,
		Message:  message,
		Detail: fmt.Sprintf("they want "+atLeast+"%d more, and the %d nodes that can be scheduled to have room for %d; pod %s has waited longest",
			len(volumes), nodes, room, facts.PodName(pods[0])),
		Cause:     "the nodes are too few, or too small, for as many volumes of the driver",
		Evidence:  evidence,
		SelfHeals: finding.SelfHeals{Unknown: true, Because: "volumes have to leave the nodes, or nodes to come; the scheduler then places the pods; an autoscaler that counts volumes brings them"},
		Advice:    "add nodes, or {reversible} scale down workloads whose volumes are not needed; see that the driver's limit is not lower than the machines' own",
	})
}

// keptOffByLimit reports whether the scheduler says that nodes have reached their volume limit.
func keptOffByLimit(pod *corev1.Pod) bool {
	return facts.SchedulerSays(pod, facts.MaxVolumes)
}
