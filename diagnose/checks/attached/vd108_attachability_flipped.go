package attached

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/step"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

var AttachabilityFlipped = check.Check{
	Code:        "VD108",
	Name:        "attachability-flipped",
	Title:       "A driver no longer has its volumes attached, and VolumeAttachments from before are left",
	Severity:    finding.Warning,
	Needs:       check.AttachmentKinds(),
	OfNamespace: true,
	Never:       "take finalizers off before the storage shows that nothing is attached",
	Run:         runAttachabilityFlipped,
}

// flipGrace is how long the controller may take to detach the volumes that it knows after a
// driver no longer needs attaches: one look at the wanted volumes, one detach, and a few more
// operations.
const flipGrace = reconcile.PopulatorPeriod + reconcile.CSITimeout + 7*time.Minute

func runAttachabilityFlipped(p *check.Run) {
	for _, driver := range p.Snapshot.CSIDrivers {
		// attachRequired is immutable: the object was recreated with it.
		if p.AttachRequired(driver.Name) || p.Age(driver.CreationTimestamp) < flipGrace {
			continue
		}
		var left []*storagev1.VolumeAttachment
		for _, va := range p.Snapshot.VolumeAttachments {
			if va.Spec.Attacher == driver.Name && va.CreationTimestamp.Before(&driver.CreationTimestamp) && leftBehind(p.View, va) {
				left = append(left, va)
			}
		}
		if len(left) > 0 {
			// A repair takes the first, so those that no pod uses come first.
			slices.SortStableFunc(left, func(a, b *storagev1.VolumeAttachment) int {
				return facts.BoolToInt(usedOnNode(p.View, a)) - facts.BoolToInt(usedOnNode(p.View, b))
			})
			flipped(p, driver, left)
		}
	}
	waitInVain(p)
}

// waitInVain reports pods whose volume the kubelet expects to be attached first, because no
// CSIDriver said otherwise when they came. The kubelet does not ask again for a pod that it has.
func waitInVain(p *check.Run) {
	for _, node := range p.Snapshot.Nodes {
		if !reconcile.NodeReady(node) || p.HeartbeatStale(node) || facts.Virtual(node) {
			continue
		}
		byDriver := p.VolumesByDriver(p.PendingOn(facts.NodeName(node)), func(pod *corev1.Pod) bool {
			return !facts.MayUseVolumes(pod) && !reconcile.PodTerminated(pod)
		}, func(driver string) bool { return !p.AttachRequired(driver) })
		for _, name := range slices.Sorted(maps.Keys(byDriver)) {
			driver := p.Snapshot.CSIDriver(name)
			waiting := slices.DeleteFunc(byDriver[name], func(v facts.PodVolume) bool { return !tookForAttached(p.View, node, driver, v) })
			if len(waiting) > 0 {
				waitsForNoAttach(p, node, driver, waiting)
			}
		}
	}
}

// tookForAttached reports whether the kubelet lists the pod's volume as in use, while no pod there
// has it mounted and no event is about a mount of it. The kubelet lists only attached volumes.
func tookForAttached(p *facts.View, node *corev1.Node, driver *storagev1.CSIDriver, v facts.PodVolume) bool {
	pv := p.Snapshot.Volume(v.Name)
	if pv == nil || pv.Spec.CSI == nil || !facts.InUse(node, flippedVolume(pv)) ||
		p.Age(facts.Latest(facts.BoundAt(v.Pod), driver.CreationTimestamp)) < facts.MountTakes {
		return false
	}
	for i := range v.Pod.Spec.Volumes {
		own := &v.Pod.Spec.Volumes[i]
		if p.BoundVolume(v.Pod, own) == pv && len(p.MountFailures(v.Pod, pv.Name, own.Name)) > 0 {
			return false
		}
	}
	return !slices.ContainsFunc(p.Snapshot.PodsOnNode(facts.NodeName(node)), func(pod *corev1.Pod) bool {
		return facts.MayUseVolumes(pod) && slices.ContainsFunc(pod.Spec.Volumes, func(own corev1.Volume) bool { return p.BoundVolume(pod, &own) == pv })
	})
}

func waitsForNoAttach(p *check.Run, node *corev1.Node, driver *storagev1.CSIDriver, waiting []facts.PodVolume) {
	pods := facts.LongestFirst(facts.PodsOf(waiting))
	first := waiting[slices.IndexFunc(waiting, func(v facts.PodVolume) bool { return v.Pod == pods[0] })]
	volume := flippedVolume(p.Snapshot.Volume(first.Name))
	p.Report(facts.AboutNode(node, finding.Finding{
		Severity:         finding.Error,
		Volume:           volume,
		PersistentVolume: first.Name,
		Pods:             facts.PodNames(pods),
		Since:            new(facts.BoundAt(first.Pod)),
		Message: fmt.Sprintf("Pod %s waits on node %s for volume %s to be attached: driver %s attaches nothing",
			facts.PodName(first.Pod), node.Name, first.Name, driver.Name),
		Detail: facts.Alike(pods),
		Cause:  "when the pod came, or the kubelet started, no CSIDriver said that the driver attaches nothing; the kubelet keeps what it took the volume for until the pod is gone",
		Evidence: []finding.Evidence{
			{Object: "csidriver/" + driver.Name, Field: "spec.attachRequired", Value: "false, made " + facts.Stamp(driver.CreationTimestamp)},
			{Object: "node/" + node.Name, Field: "status.volumesInUse", Value: "lists " + string(volume) + ", as it does only volumes that are to be attached"},
		},
		SelfHeals: finding.SelfHeals{Because: "the controller attaches nothing for this driver; the kubelet decides only once for each pod"},
		Advice:    step.DeletePod.Of(facts.PodNames(pods)...) + ": for a new pod the kubelet asks the CSIDriver again",
	}))
}

// passesOver reports whether the controller started after the driver's object was made. It then
// ignores the driver's VolumeAttachments, whatever pods run ("no attacher interface found",
// attach_detach_controller.go).
func passesOver(p *facts.View, driver string) bool {
	d, start := p.Snapshot.CSIDriver(driver), p.ControllerStart()
	return d != nil && start.After(d.CreationTimestamp.Time)
}

// usedOnNode reports whether a pod on the attachment's node names its volume, or that
// the node lists it.
func usedOnNode(p *facts.View, va *storagev1.VolumeAttachment) bool {
	pv, node := p.Snapshot.Volume(*va.Spec.Source.PersistentVolumeName), types.NodeName(va.Spec.NodeName)
	n, volume := p.Snapshot.Node(node), flippedVolume(pv)
	return claimedOn(p, node, pv) || n != nil && (facts.InUse(n, volume) || facts.Lists(n, volume))
}

// leftBehind reports whether the attachment is the controller's and nothing will take it back:
// either the controller ignores it, or no pod and no kubelet uses it and the controller does not
// report it.
func leftBehind(p *facts.View, va *storagev1.VolumeAttachment) bool {
	if va.Spec.Source.PersistentVolumeName == nil || va.DeletionTimestamp != nil && p.Age(*va.DeletionTimestamp) < flipGrace {
		return false
	}
	pv := p.Snapshot.Volume(*va.Spec.Source.PersistentVolumeName)
	if pv == nil || pv.Spec.CSI == nil || pv.Spec.CSI.Driver != va.Spec.Attacher {
		return false
	}
	return va.Name == reconcile.VolumeAttachmentName(pv.Spec.CSI.VolumeHandle, pv.Spec.CSI.Driver, types.NodeName(va.Spec.NodeName)) &&
		(passesOver(p, va.Spec.Attacher) || !usedOnNode(p, va))
}

// flippedVolume is the volume's name in a node's status while its driver has it attached.
func flippedVolume(pv *corev1.PersistentVolume) corev1.UniqueVolumeName {
	return reconcile.CSIVolumeName(pv.Spec.CSI.Driver, pv.Spec.CSI.VolumeHandle)
}

// claimedOn reports whether a pod on the node that has not ended names the volume's claim.
func claimedOn(p *facts.View, node types.NodeName, pv *corev1.PersistentVolume) bool {
	return slices.ContainsFunc(p.Snapshot.PodsOnNode(node), func(pod *corev1.Pod) bool {
		return !reconcile.PodTerminated(pod) && slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
			claim := p.ClaimOf(pod, &v)
			return claim != nil && claim.Spec.VolumeName == pv.Name
		})
	})
}

func flipped(p *check.Run, driver *storagev1.CSIDriver, left []*storagev1.VolumeAttachment) {
	first := left[0]
	f := finding.Finding{
		Subject: finding.Object{Kind: "CSIDriver", Name: driver.Name, UID: driver.UID},
		// A repair takes them one by one.
		Volume:           flippedVolume(p.Snapshot.Volume(*first.Spec.Source.PersistentVolumeName)),
		Node:             types.NodeName(first.Spec.NodeName),
		PersistentVolume: *first.Spec.Source.PersistentVolumeName,
		VolumeAttachment: first.Name,
		Since:            &driver.CreationTimestamp,
		Message: fmt.Sprintf("Volume %s has an old VolumeAttachment to node %s: driver %s attaches nothing now",
			*first.Spec.Source.PersistentVolumeName, first.Spec.NodeName, driver.Name),
		Detail: "the VolumeAttachment is from before and stays",
		Cause:  "the CSIDriver object was recreated with attachRequired: false, or was missing before, while volumes of it were attached",
		Evidence: []finding.Evidence{
			{Object: "csidriver/" + driver.Name, Field: "spec.attachRequired", Value: "false"},
			{Object: "csidriver/" + driver.Name, Field: "metadata.creationTimestamp", Value: facts.Stamp(driver.CreationTimestamp)},
		},
		SelfHeals: finding.SelfHeals{Because: "the controller passes over it; a restart changes nothing: the driver attaches nothing"},
		Advice:    "{check} find out whether the driver ever attached anything, and if so check at the storage system that nothing is attached",
		ByHand: fmt.Sprintf("{final} delete the VolumeAttachments, such as %s: where no attacher runs, {final} take off their finalizer %s, which alone holds them",
			first.Name, reconcile.AttacherFinalizer(driver.Name)),
	}
	if usedOnNode(p.View, first) {
		f.ByHand = "{final} let the pods on the node that use the volume leave first; " + f.ByHand
		f.SelfHeals.Because = "the controller passes over it; the driver attaches nothing, and that holds once the pod has ended, too"
	}
	if len(left) > 1 {
		facts.Also(&f, "%d are left in all", len(left))
	}
	const enough = 5
	for _, va := range left[:min(len(left), enough)] {
		state := fmt.Sprintf("made %s for volume %s on node %s", facts.Stamp(va.CreationTimestamp), *va.Spec.Source.PersistentVolumeName, va.Spec.NodeName)
		if va.DeletionTimestamp != nil {
			state += ", being deleted since " + facts.Stamp(*va.DeletionTimestamp)
		}
		f.Evidence = append(f.Evidence, finding.Evidence{Object: "volumeattachment/" + va.Name, Field: "metadata", Value: state})
	}
	p.Report(f)
}
