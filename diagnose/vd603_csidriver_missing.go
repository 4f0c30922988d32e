package diagnose

import (
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var csiDriverMissing = Check{
	Code:     "VD603",
	Name:     "csidriver-missing",
	Title:    "A driver without a CSIDriver object is asked to attach, and has nobody who could",
	Severity: Error,
	Needs: []snapshot.Kind{
		snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSIDrivers, snapshot.CSINodes, snapshot.Leases,
	},
	Run: runCSIDriverMissing,
}

// csiDriverSettles is how long the installation of a driver may take from its
// node plugins to its CSIDriver object and its attacher.
const csiDriverSettles = 10 * time.Minute

func runCSIDriverMissing(p *Pass) {
	seen := map[string]bool{}
	for _, va := range p.Snapshot.VolumeAttachments {
		driver := va.Spec.Attacher
		if seen[driver] {
			continue
		}
		seen[driver] = true
		if p.attachesByMistake(driver) {
			p.askedInVain(driver)
		}
	}
}

// attachesByMistake says that the controller has a driver's volumes attached for
// no better reason than that no CSIDriver object says otherwise: nodes have the
// driver registered, and nothing in the cluster shows that it ever had an
// attacher.
func (p *Pass) attachesByMistake(driver string) bool {
	finalizer := "external-attacher/" + attacherName(driver)
	return p.Snapshot.CSIDriver(driver) == nil &&
		slices.ContainsFunc(p.Snapshot.CSINodes, func(n *storagev1.CSINode) bool { return registers(n, driver) }) &&
		!slices.ContainsFunc(p.Snapshot.Leases, func(l *coordinationv1.Lease) bool {
			return strings.HasPrefix(l.Name, "external-attacher-leader-"+attacherName(driver))
		}) &&
		!slices.ContainsFunc(p.Snapshot.Volumes, func(pv *corev1.PersistentVolume) bool { return slices.Contains(pv.Finalizers, finalizer) }) &&
		!slices.ContainsFunc(p.Snapshot.VolumeAttachments, func(va *storagev1.VolumeAttachment) bool {
			return va.Spec.Attacher == driver && (va.Status.Attached || va.Status.AttachError != nil || va.Status.DetachError != nil ||
				len(va.Finalizers) > 0 || len(va.Annotations) > 0)
		})
}

// askedInVain makes one finding of the driver, if pods wait for it.
func (p *Pass) askedInVain(driver string) {
	var list []podVolume
	var vas []attachment
	for _, va := range p.attachments() {
		row := p.World.Desired[va.VolumeNode]
		if va.Spec.Attacher != driver || !va.ours() || row == nil || row.Spec.Migrated || p.Age(va.CreationTimestamp) < csiDriverSettles ||
			!registers(p.Snapshot.CSINode(va.Node), driver) {
			continue // the drivers of volumes that were in-tree attach; csinode-driver-missing comes first
		}
		for _, pod := range pending(p.wantingPods(row)) {
			list, vas = append(list, podVolume{pod, va.Volume, p.shortVolume(va.Volume)}), append(vas, va)
		}
	}
	pods := podsOf(list)
	if len(pods) == 0 {
		return
	}
	longestFirst(pods)
	i := slices.IndexFunc(list, func(v podVolume) bool { return v.pod == pods[0] })
	first, va := list[i], vas[i]
	f := Finding{
		Subject: Object{Kind: "CSIDriver", Name: driver},
		Pods:    podNames(pods),
		Since:   &va.CreationTimestamp,
		Message: fmt.Sprintf("Pod %s waits on node %s for volume %s to be attached, but its driver %s has no CSIDriver object and, as far as the objects show, "+
			"nothing that attaches%s", podName(first.pod), va.Node, first.name, driver, alike(pods)),
		Cause: "without a CSIDriver object the controller has every volume of the driver attached; a driver that needs no attach brings no attacher, and " +
			"says so in that object with attachRequired: false",
		Evidence: []Evidence{
			{"csidriver/" + driver, "metadata.name", "there is no such object"},
			{va.object(), "metadata", fmt.Sprintf("made %s; no attacher has put its finalizer on it, and there is no error", stamp(va.CreationTimestamp))},
			{"leases", "metadata.name", "none is called external-attacher-leader-" + attacherName(driver)},
		},
		SelfHeals: SelfHeals{Because: "the controller asks again for ever, 2 min at a time, and nobody answers"},
		Advice: fmt.Sprintf("install the CSIDriver object as the release of %s ships it; then delete the VolumeAttachment, which nothing holds, and the pod. Do not "+
			"make one up: attachRequired: false on a driver that does attach lets two nodes write to one volume", driver),
	}
	p.Report(f)
}
