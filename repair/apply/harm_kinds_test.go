package apply

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// The harm of the kinds that delete neither attachments nor finalizers; see harm_test.go.

func ran(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodRunning || pod.Status.Phase == corev1.PodSucceeded ||
		slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
			return c.State.Running != nil || c.RestartCount > 0
		})
}

// writer names a pod on the node whose containers have the disk.
func writer(s *snapshot.Snapshot, node, handle string) string {
	for _, pod := range s.PodsOnNode(types.NodeName(node)) {
		for _, v := range pod.Spec.Volumes {
			if v.PersistentVolumeClaim == nil || !ran(pod) || pod.Status.Phase == corev1.PodSucceeded {
				continue
			}
			claim := s.Claim(types.NamespacedName{Namespace: pod.Namespace, Name: v.PersistentVolumeClaim.ClaimName})
			if claim == nil {
				continue
			}
			if pv := s.Volume(claim.Spec.VolumeName); pv != nil && pv.Spec.CSI.VolumeHandle == handle {
				return "pod " + pod.Name
			}
		}
	}
	return ""
}

// nudgeHarm is the harm of a detach that succeeds sooner.
func (w truth) nudgeHarm(s *snapshot.Snapshot, va *storagev1.VolumeAttachment) string {
	handle, _ := disk(s, va)
	if who := writer(s, va.Spec.NodeName, handle); who != "" {
		return "detached in use by " + who
	}
	waits := user(s, va.Spec.NodeName, handle, "")
	if node := s.Node(types.NodeName(va.Spec.NodeName)); ready(node) && !strings.HasPrefix(waits, "pod") && waits != "" {
		return "detached in use by " + waits
	}
	return ""
}

// republishHarm is the harm of publishing once more.
func (w truth) republishHarm(s *snapshot.Snapshot, va *storagev1.VolumeAttachment) string {
	handle, pv := disk(s, va)
	switch who := writer(s, va.Spec.NodeName, handle); {
	case who != "":
		return "published anew, which may be elsewhere, under " + who
	case !slices.Contains(w.consent.Allow, repair.Republish):
		return "a driver that is not idempotent attaches anew, without the user's word"
	case machine(s, va) != va.Annotations[reconcile.NodeIDAnnotation] && va.Annotations[reconcile.NodeIDAnnotation] != "",
		va.CreationTimestamp.Before(&s.Node(types.NodeName(va.Spec.NodeName)).CreationTimestamp):
		return "published to another machine, while the first still has it"
	}
	if slices.Contains(pv.Spec.AccessModes, corev1.ReadWriteMany) {
		return ""
	}
	for _, other := range s.VolumeAttachments {
		if same, _ := disk(s, other); same == handle && other.Spec.NodeName != va.Spec.NodeName {
			return "two nodes have a volume for one: " + other.Spec.NodeName
		}
	}
	return ""
}

// free reports whether the storage system is known to have the disk on no machine.
func (w truth) free(handle string) bool {
	machines, known := w.backend[handle]
	return known && len(machines) == 0
}

// createHarm is the harm of a new VolumeAttachment and, where it is for another node than the
// finding's, of its deletion after that.
func (w truth) createHarm(s *snapshot.Snapshot, op repair.Operation) string {
	var va storagev1.VolumeAttachment
	if err := json.Unmarshal(op.Object, &va); err != nil {
		w.t.Fatal(err)
	}
	handle, pv := disk(s, &va)
	detaches := strings.HasPrefix(va.Annotations[repair.MarkAnnotation], string(repair.UnpublishOrphan))
	node := s.Node(types.NodeName(va.Spec.NodeName))
	switch who := user(s, va.Spec.NodeName, handle, ""); {
	case pv == nil || pv.DeletionTimestamp != nil:
		return "a volume that is being deleted gets an attachment, and its attacher's finalizer a reason to stay"
	case detaches && who != "":
		return "detached in use by " + who
	case detaches && node != nil && facts.Lists(node, uniqueName(handle)):
		return "volumesAttached lies to a kubelet"
	case detaches && !slices.Contains(w.consent.Allow, repair.UnpublishOrphan):
		return "detached from a node that may have it mounted, without the user's word"
	case detaches && !ready(node) && !w.off(s, va.Spec.NodeName):
		return "detached from a node that may write, without the user's word"
	case detaches && machine(s, &va) == "":
		return "a record is made that the attacher cannot act on: the driver has no name for the node"
	case detaches && w.free(handle):
		return "published to " + va.Spec.NodeName + ", where no pod wants it, until the driver has detached it again"
	}
	for _, other := range s.VolumeAttachments {
		same, _ := disk(s, other)
		switch {
		case same != handle:
		case other.Spec.NodeName == va.Spec.NodeName:
			return "a second record of one attachment: when it goes, the first one's volume goes"
		case slices.Contains(pv.Spec.AccessModes, corev1.ReadWriteMany):
		case detaches && other.Status.Attached:
			return "a driver that moves volumes takes it from " + other.Spec.NodeName
		case !detaches:
			return "two nodes have a volume for one: " + other.Spec.NodeName
		}
	}
	if !detaches && writer(s, va.Spec.NodeName, handle) != "" {
		return "published anew under a container that runs"
	}
	for _, pod := range s.Pods {
		if !detaches && pod.Spec.NodeName != va.Spec.NodeName && user(s, pod.Spec.NodeName, handle, "") != "" {
			return "two nodes want a volume for one: " + pod.Spec.NodeName
		}
	}
	return ""
}

// pruneHarm is the harm of taking an entry off volumesAttached: a kubelet that starts does
// not know that the controller guards the mount.
func (w truth) pruneHarm(s *snapshot.Snapshot, node *corev1.Node, removed corev1.UniqueVolumeName) string {
	_, handle, _ := reconcile.ParseCSI(removed)
	if who := user(s, node.Name, handle, ""); who != "" {
		return "a mount loses its guard: " + who
	}
	for _, va := range s.VolumeAttachments {
		if same, _ := disk(s, va); same == handle && va.Spec.NodeName == node.Name {
			return "a record is lost: VolumeAttachment " + va.Name + " says that it is attached"
		}
	}
	return ""
}

// taintHarm is the harm of setting or removing a node's taint.
func (w truth) taintHarm(s *snapshot.Snapshot, op repair.Operation) string {
	node := s.Node(types.NodeName(op.Target.Name))
	if node == nil || node.UID != op.Target.UID {
		return "" // the preconditions fail
	}
	if strings.Contains(string(op.Patch), `"op":"remove"`) {
		for _, volume := range node.Status.VolumesInUse {
			_, handle, _ := reconcile.ParseCSI(volume)
			attached := slices.ContainsFunc(s.VolumeAttachments, func(va *storagev1.VolumeAttachment) bool {
				same, _ := disk(s, va)
				return same == handle && va.Spec.NodeName == node.Name && va.Status.Attached
			})
			if !attached {
				return "pods come back to the mount of a disk that is gone: " + string(volume)
			}
		}
		return ""
	}
	switch {
	case ready(node):
		return "detached under the mounts of a node that lives"
	case !w.off(s, node.Name):
		return "detached from a node that may write, without the user's word"
	case !slices.Contains(w.consent.Allow, repair.OutOfServiceTaint):
		return "pods are removed without the user's word"
	}
	return diskHarm(s, s.PodsOnNode(types.NodeName(node.Name)))
}

// diskHarm is the harm to disks when the pods end: the disk of a claim that is being deleted
// goes with the last pod that names the claim.
func diskHarm(s *snapshot.Snapshot, ended []*corev1.Pod) string {
	for _, claim := range s.Claims {
		names := func(pod *corev1.Pod) bool {
			return pod.Namespace == claim.Namespace && pod.Spec.NodeName != "" && slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
				return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim.Name
			})
		}
		left := slices.ContainsFunc(s.Pods, func(pod *corev1.Pod) bool { return names(pod) && !slices.Contains(ended, pod) })
		pv := s.Volume(claim.Spec.VolumeName)
		if claim.DeletionTimestamp != nil && !left && slices.ContainsFunc(ended, names) && pv != nil && pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
			return "the disk is deleted with its data"
		}
	}
	return ""
}

// deleteClaim: somebody has deleted the claim of pv1, and its pod keeps it.
func deleteClaim(m *memory) {
	at := ago(10 * time.Minute)
	for _, claim := range m.objects.Claims {
		if claim.Name == "pv1" {
			claim.DeletionTimestamp, claim.Finalizers = &at, []string{"kubernetes.io/pvc-protection"}
		}
	}
	m.volume("pv1").Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
}

// withoutClaims hides the claims.
var withoutClaims = unseen(snapshot.Claims, func(o *snapshot.Objects) { o.Claims = nil })

// podHarm is the harm of deleting a pod.
func (w truth) podHarm(s *snapshot.Snapshot, op repair.Operation) string {
	pod := s.Pod(types.NamespacedName{Namespace: op.Target.Namespace, Name: op.Target.Name})
	if pod == nil || pod.UID != op.Target.UID {
		return "" // the preconditions fail
	}
	owner := metav1.GetControllerOf(pod)
	switch {
	case ran(pod):
		return "a pod that has run goes, with its log"
	case owner == nil:
		return "nobody makes the pod anew"
	case owner.Kind == "Job":
		return "the Job may take it for a failure and give up"
	}
	return diskHarm(s, []*corev1.Pod{pod})
}
