package apply

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/long"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// A guard prevents a harm, or serves a convenience. For a harm there is a case in which this
// guard alone prevents it: with all other guards the write would be made, and harm, which
// knows nothing of the guards, says what would happen. The purpose of any other guard stands
// in harmless.

// truth is a world with the facts that no API shows.
type truth struct {
	*memory
	// backend are the machines that the storage system has each disk on.
	backend map[string][]string
	// mounted reports whether the maker of the VolumeAttachment has the disk mounted without
	// the kubelet.
	mounted bool
}

// harm says which invariant a write to the world would violate; "" where none. It follows
// from what attacher, controller and kubelet do with the objects, not from the guards.
func (w truth) harm(op repair.Operation) string {
	s, err := w.Snapshot(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	if !op.Conditional() {
		return "a write without preconditions"
	}
	switch op.Target.Kind {
	case "Node":
		if op.Subresource == "" {
			return w.taintHarm(s, op)
		}
		return w.entryHarm(s, op)
	case "Pod":
		return w.podHarm(s, op)
	case "VolumeAttachment":
		if op.Verb == repair.VerbCreate {
			return w.createHarm(s, op)
		}
		va := s.VolumeAttachment(op.Target.Name)
		switch {
		case va == nil || va.UID != op.Target.UID:
			return "" // the preconditions fail
		case op.Verb == repair.VerbDelete:
			return w.detachHarm(s, va)
		case op.Subresource == "status":
			return w.republishHarm(s, va)
		case op.Merge:
			return w.nudgeHarm(s, va)
		}
		return w.stripHarm(s, va)
	}
	return ""
}

// disk is the handle about which the attacher asks the driver: that of the volume as it is
// now, or of the inline volume that the object carries.
func disk(s *snapshot.Snapshot, va *storagev1.VolumeAttachment) (handle string, pv *corev1.PersistentVolume) {
	if inline := va.Spec.Source.InlineVolumeSpec; inline != nil {
		return inline.CSI.VolumeHandle, nil
	}
	if pv = s.Volume(*va.Spec.Source.PersistentVolumeName); pv == nil {
		return "", nil
	}
	return pv.Spec.CSI.VolumeHandle, pv
}

// machine is the machine that the attacher names to the driver.
func machine(s *snapshot.Snapshot, va *storagev1.VolumeAttachment) string {
	if csi := s.CSINode(types.NodeName(va.Spec.NodeName)); csi != nil {
		for _, d := range csi.Spec.Drivers {
			if d.Name == va.Spec.Attacher {
				return d.NodeID
			}
		}
	}
	return va.Annotations[reconcile.NodeIDAnnotation]
}

// user names who has the disk on the node: a pod that has not ended, going by its claim
// alone, or the kubelet.
func user(s *snapshot.Snapshot, node, handle, pvName string) string {
	for _, pod := range s.PodsOnNode(types.NodeName(node)) {
		ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		for _, v := range pod.Spec.Volumes {
			if v.PersistentVolumeClaim == nil || ended {
				continue
			}
			claim := s.Claim(types.NamespacedName{Namespace: pod.Namespace, Name: v.PersistentVolumeClaim.ClaimName})
			if claim == nil {
				continue
			}
			pv := s.Volume(claim.Spec.VolumeName)
			if claim.Spec.VolumeName == pvName || pv != nil && pv.Spec.CSI.VolumeHandle == handle {
				return "pod " + pod.Name
			}
		}
	}
	if n := s.Node(types.NodeName(node)); n != nil && slices.Contains(n.Status.VolumesInUse, uniqueName(handle)) {
		return "the kubelet"
	}
	return ""
}

func ready(node *corev1.Node) bool {
	return node != nil && slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// off reports whether the user says that the node is off and nothing contradicts it.
func (w truth) off(s *snapshot.Snapshot, node string) bool {
	return slices.Contains(w.consent.Fenced, types.NodeName(node)) && !ready(s.Node(types.NodeName(node)))
}

// detachHarm is the harm of deleting a VolumeAttachment.
func (w truth) detachHarm(s *snapshot.Snapshot, va *storagev1.VolumeAttachment) string {
	handle, pv := disk(s, va)
	node := s.Node(types.NodeName(va.Spec.NodeName))
	switch who := user(s, va.Spec.NodeName, handle, *va.Spec.Source.PersistentVolumeName); {
	case len(va.OwnerReferences) > 0 || va.Labels["app.kubernetes.io/managed-by"] != "" || slices.ContainsFunc(va.Finalizers, func(f string) bool { return f != ebsFinalizer }):
		return "it is somebody else's"
	case !slices.Contains(va.Finalizers, ebsFinalizer) && va.Status.Attached:
		return "the record is lost: nobody detaches"
	case handle == "" || !slices.Contains(va.Finalizers, ebsFinalizer):
		return "" // no driver is asked, and no record is lost
	case strings.HasPrefix(who, "pod"):
		return "a desired state that stands: " + who
	case who != "" && !w.off(s, va.Spec.NodeName):
		return "detached in use by " + who
	case !ready(node) && !w.off(s, va.Spec.NodeName):
		return "detached from a node that may write, without the user's word"
	case w.mounted && !slices.Contains(w.consent.Allow, repair.DeleteAttachment):
		return "detached under whoever made it"
	case va.Name != reconcile.VolumeAttachmentName(handle, driver, types.NodeName(va.Spec.NodeName)) &&
		(len(va.Name) == len("csi-")+64 || va.CreationTimestamp.Before(&pv.CreationTimestamp)):
		return "another disk is detached than was attached"
	case machine(s, va) != va.Annotations[reconcile.NodeIDAnnotation], node != nil && va.CreationTimestamp.Before(&node.CreationTimestamp):
		return "another machine is asked, and the record of the one that has the disk is lost"
	case ready(node) && facts.Lists(node, uniqueName(handle)):
		return "volumesAttached lies to a kubelet"
	case pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete && (pv.DeletionTimestamp != nil || pv.Status.Phase == corev1.VolumeReleased):
		return "the disk is deleted with its data"
	}
	for _, other := range s.VolumeAttachments {
		same, _ := disk(s, other)
		switch {
		case other.Name == va.Name || same != handle || !other.Status.Attached:
		case other.Spec.NodeName == va.Spec.NodeName:
			return "detached under VolumeAttachment " + other.Name
		case !slices.Contains(pv.Spec.AccessModes, corev1.ReadWriteMany):
			return "a driver that goes by the disk alone detaches it under VolumeAttachment " + other.Name
		}
	}
	return ""
}

// stripHarm is the harm of removing the attacher's finalizer.
func (w truth) stripHarm(s *snapshot.Snapshot, va *storagev1.VolumeAttachment) string {
	handle, _ := disk(s, va)
	allowed := slices.Contains(w.consent.Allow, repair.StripFinalizer)
	switch who := user(s, va.Spec.NodeName, handle, *va.Spec.Source.PersistentVolumeName); {
	case va.DeletionTimestamp == nil:
		return "a trap: the next deletion detaches nothing"
	case who != "" && !w.off(s, va.Spec.NodeName):
		return "the record is lost of what is in use by " + who
	case !allowed:
		return "a record is given up without the user's word"
	case !w.off(s, va.Spec.NodeName) && !ready(s.Node(types.NodeName(va.Spec.NodeName))):
		return "the record is given up of a node that may write, without the user's word"
	case len(w.backend["vol-1"]) > 0:
		return fmt.Sprintf("the record is lost: the storage system has the disk on %v", w.backend["vol-1"])
	}
	return ""
}

// entryHarm is the harm of adding an entry to volumesAttached: the kubelet mounts.
func (w truth) entryHarm(s *snapshot.Snapshot, op repair.Operation) string {
	node := s.Node(types.NodeName(op.Target.Name))
	if node == nil || node.UID != op.Target.UID {
		return "" // the preconditions fail
	}
	var added corev1.AttachedVolume
	const list = "/status/volumesAttached/"
	var steps []struct {
		Op, Path string
		Value    json.RawMessage
	}
	if err := json.Unmarshal(op.Patch, &steps); err != nil {
		w.t.Fatal(err)
	}
	for _, step := range steps {
		if index, found := strings.CutPrefix(step.Path, list); step.Op == "remove" && found {
			i, err := strconv.Atoi(index)
			if err != nil {
				w.t.Fatal(err)
			}
			return w.pruneHarm(s, node, node.Status.VolumesAttached[i].Name)
		}
		if step.Op == "add" && step.Path == list+"-" {
			if err := json.Unmarshal(step.Value, &added); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	_, handle, _ := reconcile.ParseCSI(added.Name)
	name := reconcile.VolumeAttachmentName(handle, driver, types.NodeName(node.Name))
	va := s.VolumeAttachment(name)
	switch {
	case va == nil || va.DeletionTimestamp != nil || !va.Status.Attached || va.Spec.Attacher != driver || va.Spec.NodeName != node.Name:
		return "a lying entry: the volume is not attached"
	case machine(s, va) != va.Annotations[reconcile.NodeIDAnnotation] && va.Annotations[reconcile.NodeIDAnnotation] != "", va.CreationTimestamp.Before(&node.CreationTimestamp):
		return "a lying entry: it is attached to another machine"
	case va.Status.AttachError != nil || va.Status.DetachError != nil:
		return "a lying entry: the attacher doubts it"
	case facts.Lists(node, added.Name):
		return "an entry twice"
	}
	if same, pv := disk(s, va); same != handle {
		return "a lying entry: another disk is attached"
	} else if pv != nil && slices.Contains(pv.Spec.AccessModes, corev1.ReadWriteMany) {
		return ""
	}
	for _, other := range s.Nodes {
		if other.Name != node.Name && (slices.Contains(other.Status.VolumesInUse, added.Name) || facts.Lists(other, added.Name)) {
			return "two nodes have a volume for one: " + other.Name
		}
	}
	for _, other := range s.VolumeAttachments {
		if same, _ := disk(s, other); same == handle && other.Spec.NodeName != node.Name {
			return "two nodes have a volume for one: " + other.Spec.NodeName
		}
	}
	for _, pod := range s.Pods {
		if pod.Spec.NodeName != node.Name && user(s, pod.Spec.NodeName, handle, "") != "" {
			return "two nodes want a volume for one, and the controller may serve the other: " + pod.Spec.NodeName
		}
	}
	return ""
}

// harmCase is a world in which the guard alone prevents a harm. hide changes what the look
// sees of it.
type harmCase struct {
	guard string
	world func(testing.TB) *memory
	turn  func(*truth)
	hide  func(*memory)
}

func unseen(kind snapshot.Kind, drop func(*snapshot.Objects)) func(*memory) {
	return func(m *memory) {
		m.gaps = gap(kind, "")
		drop(&m.objects)
	}
}

func changed(change func(*memory)) func(*truth) { return func(w *truth) { change(w.memory) } }

// missOf is the near miss of that name for the guard.
func missOf(misses []nearMiss, guard, name string) func(*truth) {
	for _, miss := range misses {
		if miss.guard == guard && miss.name == name {
			return changed(miss.change)
		}
	}
	panic("no near miss " + name)
}

func has(machine string, change func(*memory)) func(*truth) {
	return func(w *truth) {
		w.backend["vol-1"] = []string{machine}
		change(w.memory)
	}
}

// free makes the driver detach the disk from where it was, as it may after a refusal.
func free(turn func(*truth)) func(*truth) {
	return func(w *truth) {
		w.backend["vol-1"] = nil
		turn(w)
	}
}

var harmCases = map[repair.Kind][]harmCase{
	repair.DeleteAttachment: {
		{repair.GuardComplete, dangling, changed((*memory).stranger), unseen(snapshot.Pods, func(o *snapshot.Objects) { o.Pods = o.Pods[:1] })},
		{"nobody-elses", dangling, missOf(detachMisses, "nobody-elses", "owned"), nil},
		{"no-live-pod", dangling, missOf(detachMisses, "no-live-pod", "pod runs with a stale claim"), nil},
		{"driver-is-asked", dangling, missOf(detachMisses, "driver-is-asked", "finalizer lost"), nil},
		{"own-name", dangling, missOf(detachMisses, "own-name", "volume made anew with another disk"), nil},
		{"own-name", byHand, changed(func(m *memory) { m.volume("pv1").CreationTimestamp = ago(time.Minute) }), nil},
		{"only-one-there", dangling, missOf(detachMisses, "only-one-there", "a second for the pair"), nil},
		{"not-attached-elsewhere", dangling, missOf(detachMisses, "not-attached-elsewhere", "attached elsewhere too"), nil},
		{"same-node-id", dangling, missOf(detachMisses, "same-node-id", "published to another machine"), nil},
		{"disk-stays", dangling, missOf(detachMisses, "disk-stays", "volume let go, to be deleted"), nil},
		{"node-lives", dangling, missOf(livingMisses, "node-lives", "node not ready"), nil},
		{"not-in-use", dangling, missOf(livingMisses, "not-in-use", "in use"), nil},
		{"not-listed", dangling, missOf(livingMisses, "not-listed", "listed"), nil},
		{"same-machine", dangling, missOf(detachMisses, "same-machine", "node registered since"), nil},
		{repair.GuardAllowed, byHand, func(w *truth) { w.mounted, w.consent.Allow = true, nil }, nil},
	},
	repair.DeleteFencedAttachment: {
		{repair.GuardComplete, lostNode, changed((*memory).stranger), unseen(snapshot.Pods, func(o *snapshot.Objects) { o.Pods = nil })},
		{"nobody-elses", lostNode, missOf(detachMisses, "nobody-elses", "owned"), nil},
		{"no-live-pod", lostNode, missOf(detachMisses, "no-live-pod", "pod runs with a stale claim"), nil},
		{"driver-is-asked", lostNode, missOf(detachMisses, "driver-is-asked", "finalizer lost"), nil},
		{"own-name", lostNode, missOf(detachMisses, "own-name", "volume made anew with another disk"), nil},
		{"only-one-there", lostNode, missOf(detachMisses, "only-one-there", "a second for the pair"), nil},
		{"not-attached-elsewhere", lostNode, missOf(detachMisses, "not-attached-elsewhere", "attached elsewhere too"), nil},
		{"same-node-id", lostNode, missOf(detachMisses, "same-node-id", "published to another machine"), nil},
		{"same-machine", lostNode, missOf(detachMisses, "same-machine", "node registered since"), nil},
		{"disk-stays", lostNode, missOf(detachMisses, "disk-stays", "volume let go, to be deleted"), nil},
		{"not-alive", lostNode, changed(func(m *memory) { m.node("n1").Status.Conditions[0].Status = corev1.ConditionTrue }), nil},
		{repair.GuardFenced, lostNode, changed(func(m *memory) { m.consent.Fenced = nil }), nil},
	},
	repair.StripFinalizer: {
		{repair.GuardComplete, stuck, changed((*memory).useStale), unseen(snapshot.Pods, func(o *snapshot.Objects) { o.Pods = o.Pods[:1] })},
		{"being-deleted", stuck, missOf(stripMisses, "being-deleted", "no longer deleted"), nil},
		{"no-live-pod", stuck, changed((*memory).useStale), nil},
		{"driver-says-detached", stuck, has("i-n1", says("volume vol-1 is busy")), nil},
		{"nothing-to-detach", flipped, has("i-n1", func(m *memory) { m.objects.CSIDrivers[0].Spec.AttachRequired = nil }), nil},
		{"no-attacher", flipped, has("i-n1", func(m *memory) { m.objects.Leases = append(m.objects.Leases, healthy(m.t).objects.Leases[1]) }), nil},
		{"volume-gone", volumeGone, has("i-n1", func(m *memory) { m.addVolume("n2", "imported", "vol-1", "other") }), nil},
		{"node-lives", volumeGone, changed(func(m *memory) { m.node("n1").Status.Conditions[0].Status = corev1.ConditionUnknown }), nil},
		{"storage-let-go", stuck, has("i-n1", listed("i-n1")), nil},
		{"not-in-use", stuck, missOf(livesMisses, "not-in-use", "in use"), nil},
		{"driver-says-no-machine", machineGone, has("i-n1", says("device is busy")), nil},
		{"not-alive", volumeGoneOnLostNode, has("i-n1", func(m *memory) { m.node("n1").Status.Conditions[0].Status = corev1.ConditionTrue }), nil},
		{repair.GuardFenced, machineGone, changed(func(m *memory) { m.consent.Fenced = nil }), nil},
		{repair.GuardDetached, volumeGone, has("i-n1", func(m *memory) { m.consent.Detached = nil }), nil},
		{repair.GuardAllowed, stuck, changed(func(m *memory) { m.consent.Allow = nil }), nil},
	},
	repair.TouchVolume: {},
	repair.Nudge: {
		{repair.GuardComplete, comingBack, changed(func(m *memory) { m.started(); m.unused("vol-1") }), unseen(snapshot.Pods, func(o *snapshot.Objects) { o.Pods = o.Pods[:1] })},
		{"not-mounted", comingBack, missOf(nudgeMisses, "not-mounted", "its pod runs"), nil},
		{"not-mounted", comingBack, missOf(nudgeMisses, "not-mounted", "mounted by nobody's leave"), nil},
	},
	repair.CreateAttachment: {
		{repair.GuardComplete, phantom, missOf(createMisses, "not-elsewhere", "attached elsewhere"),
			unseen(snapshot.VolumeAttachments, func(o *snapshot.Objects) { o.VolumeAttachments = o.VolumeAttachments[:1] })},
		{"only-waiting", phantom, missOf(createMisses, "only-waiting", "pod runs"), nil},
		{"volume-known", phantom, missOf(createMisses, "volume-known", "volume being deleted"), nil},
		{"none-of-pair", phantom, missOf(createMisses, "none-of-pair", "another one is there"), nil},
		{"not-elsewhere", phantom, missOf(createMisses, "not-elsewhere", "attached elsewhere"), nil},
		{"not-wanted-elsewhere", phantom, missOf(createMisses, "not-wanted-elsewhere", "wanted elsewhere"), nil},
	},
	repair.PruneNodeStatus: {
		{repair.GuardComplete, idle, missOf(pruneMisses, "none-of-pair", "an attachment by another name"),
			unseen(snapshot.VolumeAttachments, func(o *snapshot.Objects) { o.VolumeAttachments = o.VolumeAttachments[:1] })},
		{"not-used", idle, missOf(pruneMisses, "not-used", "in use after all"), nil},
		{"none-of-pair", idle, missOf(pruneMisses, "none-of-pair", "an attachment by another name"), nil},
	},
	repair.Republish: {
		{repair.GuardComplete, deviceMissing, missOf(republishMisses, "not-elsewhere", "attached elsewhere"),
			unseen(snapshot.VolumeAttachments, func(o *snapshot.Objects) { o.VolumeAttachments = o.VolumeAttachments[:2] })},
		{"only-waiting", deviceMissing, missOf(republishMisses, "only-waiting", "another pod runs with it"), nil},
		{"same-machine", deviceMissing, missOf(republishMisses, "same-machine", "attachment older than the node"), nil},
		{"node-id", deviceMissing, missOf(republishMisses, "node-id", "published to another machine"), nil},
		{"not-elsewhere", deviceMissing, missOf(republishMisses, "not-elsewhere", "attached elsewhere"), nil},
		{repair.GuardAllowed, deviceMissing, missOf(republishMisses, repair.GuardAllowed, "not allowed"), nil},
	},
	repair.CyclePod: {
		{"disk-stays", failedPod, changed(deleteClaim), nil},
		{"never-started", failedPod, missOf(cycleMisses, "never-started", "it has run"), nil},
		{"has-controller", failedPod, missOf(cycleMisses, "has-controller", "nobody would make it anew"), nil},
		{"has-controller", failedPod, missOf(cycleMisses, "has-controller", "a job might give up"), nil},
	},
	repair.UnpublishOrphan: {
		{repair.GuardComplete, orphan, missOf(orphanMisses, "not-used", "a pod on the holder"), unseen(snapshot.Pods, func(o *snapshot.Objects) { o.Pods = o.Pods[:2] })},
		{"volume-known", orphan, missOf(orphanMisses, "volume-known", "volume being deleted"), nil},
		{"holder-known", orphan, missOf(orphanMisses, "holder-known", "driver not on the holder"), nil},
		{"not-used", orphan, missOf(orphanMisses, "not-used", "in use on the holder"), nil},
		{"not-used", orphan, missOf(orphanMisses, "not-used", "a pod on the holder"), nil},
		{"not-reported", orphan, missOf(orphanMisses, "not-reported", "reported by the holder"), nil},
		{"none-of-pair", orphan, missOf(orphanMisses, "none-of-pair", "there is a record by another name"), nil},
		{"refused-alone", orphan, free(missOf(orphanMisses, "refused-alone", "nobody follows")), nil},
		{"refused-alone", orphan, free(missOf(orphanMisses, "refused-alone", "refused once since it is followed")), nil},
		{"refused-alone", orphan, free(missOf(orphanMisses, "refused-alone", "refused before it was followed")), nil},
		{"refused-alone", orphan, free(missOf(orphanMisses, "refused-alone", "another was there when it was refused")), nil},
		{"storage-has-it", orphan, free(missOf(orphanMisses, "storage-has-it", "attached to nothing at the storage system")), nil},
		{"nowhere-attached", orphan, missOf(orphanMisses, "nowhere-attached", "attached after all"), nil},
		{"node-lives", orphan, missOf(orphanMisses, "node-lives", "holder silent"), nil},
		{repair.GuardAllowed, orphan, missOf(orphanMisses, repair.GuardAllowed, "not allowed"), nil},
	},
	repair.OutOfServiceTaint: {
		{repair.GuardComplete, lostStatefulSet, changed(deleteClaim), withoutClaims},
		{"disk-stays", lostStatefulSet, changed(deleteClaim), nil},
		{"not-alive", lostStatefulSet, missOf(taintMisses, "not-alive", "node is back"), nil},
		{repair.GuardAllowed, lostStatefulSet, missOf(taintMisses, repair.GuardAllowed, "not allowed"), nil},
		{repair.GuardFenced, lostStatefulSet, missOf(taintMisses, repair.GuardFenced, "not said to be off"), nil},
	},
	repair.RemoveOutOfServiceTaint: {
		{"no-stale-mount", tainted, missOf(untaintMisses, "no-stale-mount", "detached under its mount"), nil},
	},
	repair.PatchNodeStatus: {
		{repair.GuardComplete, lostEntry, missOf(nearMisses, "not-elsewhere", "attached elsewhere"),
			unseen(snapshot.VolumeAttachments, func(o *snapshot.Objects) { o.VolumeAttachments = o.VolumeAttachments[:2] })},
		{"entry-missing", lostEntry, missOf(nearMisses, "entry-missing", "entry is there"), nil},
		{"attached", lostEntry, missOf(nearMisses, "attached", "not attached"), nil},
		{"attached", lostEntry, missOf(nearMisses, "attached", "being detached"), nil},
		{"no-attach-error", lostEntry, missOf(nearMisses, "no-attach-error", "detach error"), nil},
		{"same-machine", lostEntry, missOf(nearMisses, "same-machine", "attachment older than the node"), nil},
		{"node-id", lostEntry, missOf(nearMisses, "node-id", "published to another machine"), nil},
		{"not-elsewhere", lostEntry, missOf(nearMisses, "not-elsewhere", "attached elsewhere"), nil},
		{"not-elsewhere", lostEntry, missOf(nearMisses, "not-elsewhere", "in use elsewhere"), nil},
		{"controller-keeps-it", lostEntry, missOf(nearMisses, "controller-keeps-it", "wanted elsewhere too"), nil},
	},
}

// volumeGoneOnLostNode is volumeGone on a node that is off, as the user says.
func volumeGoneOnLostNode(t testing.TB) *memory {
	m := volumeGone(t)
	m.node("n1").Status.Conditions[0].Status = corev1.ConditionUnknown
	m.consent.Fenced = []types.NodeName{"n1"}
	return m
}

const (
	inMemory = "what a new leader is about to do is in no object; to have two at work at once is asking for trouble, though none follows from the objects"
	unneeded = "without it something is written that no longer helps"
	reviewed = "it keeps what was reviewed binding; the other guards judge the new object as well"
	worse    = "it says more than no-live-pod, which refuses whatever it does"
)

// harmless are the guards that alone prevent no harm, each with its purpose.
var harmless = map[repair.Kind]map[string]string{
	repair.DeleteAttachment: {
		repair.GuardController: inMemory, repair.GuardFinding: unneeded, "same-attachment": reviewed, "not-wanted": worse,
		"not-deleting":     "a second deletion changes nothing",
		"attacher-at-work": "the object waits for its attacher, and a pod that comes back to the node waits with it; no data is at stake",
	},
	repair.DeleteFencedAttachment: {
		repair.GuardController: inMemory, repair.GuardFinding: unneeded, "same-attachment": reviewed, "not-wanted": worse,
		"not-deleting":     "a second deletion changes nothing",
		"attacher-at-work": "the object waits for its attacher; no data is at stake",
	},
	repair.StripFinalizer: {
		repair.GuardController: inMemory, repair.GuardFinding: unneeded, "same-attachment": reviewed, "not-wanted": worse,
		"only-finalizer": "the object stays for the other owner, and the repair has achieved nothing",
	},
	repair.TouchVolume: {
		// The attacher decides by itself what to do with a volume that it looks at.
		repair.GuardComplete: unneeded, repair.GuardFinding: unneeded, "same-volume": unneeded, "volume-deleting": unneeded, "no-attachment": unneeded,
		"only-finalizer": unneeded, "attacher-at-work": unneeded, "not-touched-yet": unneeded,
	},
	repair.Nudge: {
		repair.GuardFinding: unneeded, "same-attachment": reviewed,
		"being-deleted": "the attacher looks at an object that nobody wants gone, and does nothing",
		"not-in-vain":   "a repair of higher risk is tried instead",
	},
	repair.CreateAttachment: {
		repair.GuardController: inMemory, repair.GuardFinding: unneeded,
		"node-ready":       "no kubelet waits for it",
		"node-managed":     "no controller keeps it, and it stays until somebody deletes it",
		"node-in-service":  "the controller detaches it again",
		"entry-there":      "the controller makes it by itself",
		"wanted":           "the controller detaches it again",
		"driver-on-node":   "the attacher cannot name the machine to the driver, and says so",
		"attacher-at-work": "the object waits for its attacher; no data is at stake",
	},
	repair.PruneNodeStatus: {
		repair.GuardController: "a new leader may have read the entry, and writes it again; it comes back as it was", repair.GuardFinding: unneeded, "same-node": reviewed,
		"node-ready":      "no kubelet reads the list",
		"node-managed":    "the kubelet does not heed the list there",
		"node-in-service": "the controller detaches from such a node whatever the list says",
		"listed-once":     "the second entry stays, and the repair has achieved nothing",
	},
	repair.Republish: {
		repair.GuardController: inMemory, repair.GuardFinding: unneeded, "same-attachment": reviewed,
		"node-ready":       "no kubelet waits for the device",
		"storage-lacks-it": "a driver changes nothing where the volume is attached, there or elsewhere (CSI, ControllerPublishVolume)",
		"node-managed":     "the kubelet attaches by itself there, and reads no VolumeAttachment",
		"node-in-service":  "the controller detaches it all the same",
		"wanted":           "nobody has it mounted, and the controller detaches it",
		"attached":         "there is nothing to take back: the attacher is at it already",
		"no-attach-error":  "the attacher is at it already",
		"attacher-at-work": "the pod waits as it did before; only-waiting makes sure that none runs",
	},
	repair.CyclePod: {
		repair.GuardComplete: "without its claim no volume leads to the pod, and nothing is proposed", repair.GuardFinding: unneeded, "same-pod": reviewed,
		"not-going": "a second deletion changes nothing",
	},
	repair.UnpublishOrphan: {
		repair.GuardController: inMemory, repair.GuardFinding: unneeded,
		"attacher-at-work": "the object waits for its attacher; no data is at stake",
	},
	repair.OutOfServiceTaint: {
		repair.GuardFinding: unneeded, "same-node": reviewed,
		"release": "the taint is not heeded",
	},
	repair.RemoveOutOfServiceTaint: {
		repair.GuardComplete: "the node was read, and a record that was not would only make the guard refuse", repair.GuardFinding: unneeded, "same-node": reviewed,
		"node-ready": "the node is out of service, and the taint is as it should be; it can be set again",
	},
	repair.PatchNodeStatus: {
		repair.GuardController: "the leader may be about to write the list itself; the patch tests the list, and one of the two fails",
		repair.GuardFinding:    unneeded,
		"same-node":            "a node that was made anew is younger than the VolumeAttachment, which same-machine refuses; one that is going takes the entry with it",
		"node-ready":           "no kubelet reads the entry",
		"node-managed":         "the kubelet does not wait for the entry there, and no controller keeps it",
		"node-in-service": "the controller detaches from such a node whatever the list says, and the kubelet's plugins are evicted; " +
			"what it would do to a mount it does with the entry or without",
		"in-use":          "no kubelet waits for the entry",
		"wanted":          "no pod mounts by it, and the controller takes the entry off when it detaches",
		"attach-required": "the kubelet does not ask the list about such a volume",
		"driver-on-node":  "the kubelet has no driver to mount with",
	},
}

// TestGuardsAreForSomething: each guard has either a harm case or a reason, and not both.
func TestGuardsAreForSomething(t *testing.T) {
	seen := map[repair.Kind]bool{}
	for _, world := range append(slices.Clone(worlds), byHand, volumeGoneOnLostNode) {
		r := world(t).only()
		cases := harmCases[r.Kind]
		seen[r.Kind] = true
		for _, guard := range r.Guards {
			proven := slices.ContainsFunc(cases, func(c harmCase) bool { return c.guard == guard.Name })
			if reason := harmless[r.Kind][guard.Name]; proven == (reason != "") {
				t.Errorf("%s: guard %s has a harm case: %v, and is for: %q", r.Kind, guard.Name, proven, reason)
			}
		}
	}
	for _, kind := range repair.Kinds() {
		if !seen[kind] {
			t.Errorf("no world has a %s", kind)
		}
	}
}

// TestHarm checks each harm case: every guard but one lets the write pass, that one does not,
// and the write would do harm. Without the turn it does none.
func TestHarm(t *testing.T) {
	for kind, cases := range harmCases {
		for _, c := range cases {
			t.Run(string(kind)+"/"+c.guard, func(t *testing.T) {
				w := truth{memory: c.world(t), backend: map[string][]string{}}
				r := w.only()
				if r.Kind != kind {
					t.Fatalf("the world is mended by %s", r.Kind)
				}
				if text := w.harm(r.Do); text != "" {
					t.Errorf("the repair is harmful as it is: %s", text)
				}
				c.turn(&w)
				seen := &memory{t: t, objects: w.objects, now: w.now, consent: w.consent, backends: w.backends, followed: w.followed}
				if c.hide != nil {
					c.hide(seen)
				}
				s, err := seen.Snapshot(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				v := repair.Look(s, diagnose.Options{}, w.consent)
				for _, guard := range r.Guards {
					err := guard.Check(v, &r)
					if guard.Name == repair.GuardFinding {
						continue // a finding says what is wrong, not what would be harmful: it is no protection
					}
					if (err != nil) != (guard.Name == c.guard) {
						t.Errorf("guard %s: %v", guard.Name, err)
					}
				}
				r.Guards = nil // what would happen without them
				fresh, err := r.Renew(v)
				if err != nil {
					t.Fatal(err)
				}
				if text := w.harm(fresh.Do); text == "" {
					t.Error("it does no harm")
				} else {
					t.Log(text)
				}
			})
		}
	}
}

// TestNoHarmPassesTheGuards mixes near misses: in every combination, a write that all guards
// let pass does no harm.
func TestNoHarmPassesTheGuards(t *testing.T) {
	long.Test(t)
	type mix struct {
		world  func(testing.TB) *memory
		misses []nearMiss
	}
	for name, mix := range map[string]mix{
		"living": {dangling, slices.Concat(detachMisses, livingMisses)},
		"fenced": {lostNode, slices.Concat(detachMisses, livingMisses)},
		"stuck":  {stuck, slices.Concat(stripMisses, livesMisses, []nearMiss{wantedMiss})},
		"status": {lostEntry, nearMisses},
		"nudged": {comingBack, nudgeMisses},
		"made":   {phantom, createMisses},
		"pruned": {idle, pruneMisses},
		"again":  {deviceMissing, republishMisses},
		"cycled": {failedPod, cycleMisses},
		"orphan": {orphan, orphanMisses},
		"taint":  {lostStatefulSet, taintMisses},
		"off":    {tainted, untaintMisses},
	} {
		t.Run(name, func(t *testing.T) {
			passed := 0
			rapid.Check(t, func(rt *rapid.T) {
				w := truth{memory: mix.world(t)}
				r := w.only()
				w.t = panics{t}
				var names []string
				for range rapid.IntRange(0, 3).Draw(rt, "how many") {
					miss := rapid.SampledFrom(mix.misses).Draw(rt, "miss")
					if tried(func() { miss.change(w.memory) }) {
						names = append(names, miss.name)
					}
				}
				s, err := w.Snapshot(t.Context())
				if err != nil {
					rt.Fatal(err)
				}
				v := repair.Look(s, diagnose.Options{}, w.consent)
				fresh, err := r.Renew(v)
				if err != nil {
					return
				}
				passed++
				if text := w.harm(fresh.Do); text != "" {
					rt.Fatalf("after %v: %s", names, text)
				}
			})
			if passed == 0 {
				t.Error("the guards let nothing pass")
			}
		})
	}
}

// tried makes a change that an earlier one may have made impossible.
func tried(change func()) (done bool) {
	defer func() { done = recover() == nil }()
	change()
	return true
}

// panics is a TB whose failure panics, so that tried can catch it.
type panics struct{ testing.TB }

func (panics) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func (panics) Fatal(args ...any) { panic(fmt.Sprint(args...)) }
