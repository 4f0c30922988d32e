package invariant

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// world is what the audit log tells of pods and of the volumes they want.
type world struct {
	wants []want
	// shared are the handles of volumes that several nodes may have.
	shared map[string]bool
}

// want is a pod that wants a volume on its node, from its creation until
// somebody asks for its deletion.
type want struct {
	pod, attachment string
	namespace, name string
	span            span
}

func readWorld(events []auditv1.Event) *world {
	w := &world{shared: map[string]bool{}}
	volumes := map[string]corev1.PersistentVolume{}
	claims := map[string]string{} // namespace/name -> volume
	for i := range events {
		e := &events[i]
		if e.ObjectRef == nil || e.ObjectRef.Subresource != "" || !stored(e) {
			continue
		}
		switch e.Verb + " " + e.ObjectRef.Resource {
		case "create persistentvolumes":
			var pv corev1.PersistentVolume
			if json.Unmarshal(body(e), &pv) == nil && pv.Spec.CSI != nil {
				volumes[pv.Name] = pv
				w.shared[pv.Spec.CSI.VolumeHandle] = slices.ContainsFunc(pv.Spec.AccessModes, func(m corev1.PersistentVolumeAccessMode) bool {
					return m == corev1.ReadWriteMany || m == corev1.ReadOnlyMany
				})
			}
		case "create persistentvolumeclaims":
			var claim corev1.PersistentVolumeClaim
			if json.Unmarshal(body(e), &claim) == nil {
				claims[e.ObjectRef.Namespace+"/"+claim.Name] = claim.Spec.VolumeName
			}
		case "create pods":
			var pod corev1.Pod
			if json.Unmarshal(body(e), &pod) == nil {
				w.pod(e, &pod, claims, volumes)
			}
		case "delete pods", "deletecollection pods":
			for i := range w.wants {
				if w := &w.wants[i]; w.namespace == e.ObjectRef.Namespace && (w.name == e.ObjectRef.Name || e.ObjectRef.Name == "") && w.span.until.IsZero() {
					w.span.until = e.RequestReceivedTimestamp.Time
				}
			}
		}
	}
	return w
}

func (w *world) pod(e *auditv1.Event, pod *corev1.Pod, claims map[string]string, volumes map[string]corev1.PersistentVolume) {
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim == nil {
			continue
		}
		pv, known := volumes[claims[e.ObjectRef.Namespace+"/"+v.PersistentVolumeClaim.ClaimName]]
		if !known {
			continue
		}
		w.wants = append(w.wants, want{
			pod:        e.ObjectRef.Namespace + "/" + pod.Name,
			attachment: reconcile.VolumeAttachmentName(pv.Spec.CSI.VolumeHandle, pv.Spec.CSI.Driver, nodeName(pod)),
			namespace:  e.ObjectRef.Namespace, name: pod.Name,
			span: span{from: e.StageTimestamp.Time},
		})
	}
}

func nodeName(pod *corev1.Pod) types.NodeName { return types.NodeName(pod.Spec.NodeName) }
