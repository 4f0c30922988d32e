package cluster

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/fields"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/trim"
)

const (
	// containerTrim and statusTrim are what trim.Object drops of each container
	// and of its status.
	containerTrim = ": command args workingDir ports env resources livenessProbe readinessProbe lifecycle terminationMessagePath " +
		"imagePullPolicy envFrom terminationMessagePolicy startupProbe resizePolicy restartPolicyRules"
	statusTrim = ": imageID allocatedResources resources volumeMounts user allocatedResourcesStatus stopSignal"
)

// trimmed lists, for the kinds of which trim.Object drops much, the part that it
// leaves: what it drops need not be decoded first. trimmedOf has all kinds.
var trimmed = map[snapshot.Kind]*fields.Part{
	snapshot.Pods: annotated(fields.AllBut[corev1.Pod](": metadata.managedFields",
		"spec.containers"+containerTrim, "spec.initContainers"+containerTrim, "spec.ephemeralContainers.ephemeralContainerCommon"+containerTrim,
		"status.containerStatuses"+statusTrim, "status.initContainerStatuses"+statusTrim, "status.ephemeralContainerStatuses"+statusTrim)),
	snapshot.Nodes:   annotated(fields.AllBut[corev1.Node](": status.images")), // some of the managed fields are kept
	snapshot.Volumes: attributed(annotated(fields.AllBut[corev1.PersistentVolume](": metadata.managedFields"))),
}

// trimmedOf is the part of the kind that trim.Object leaves.
func trimmedOf[T any](kind snapshot.Kind) *fields.Part {
	if p := trimmed[kind]; p != nil {
		return p
	}
	return annotated(fields.AllBut[T](": metadata.managedFields"))
}

// attributed leaves those attributes of a volume that trim.Object may leave.
func attributed(p *fields.Part) *fields.Part {
	fields.At[corev1.PersistentVolume](p, "spec.persistentVolumeSource.csi.volumeAttributes").Wants = func(_ *corev1.Pod, key []byte) bool {
		return trim.KeepsAttribute(string(key))
	}
	return p
}

// annotated leaves those annotations in the part of an object that trim.Object
// leaves.
func annotated(p *fields.Part) *fields.Part {
	const metadata, annotations = 1, 12 // of every object
	*p.Field(metadata).Field(annotations) = fields.Part{Wants: func(_ *corev1.Pod, key []byte) bool { return trim.KeepsAnnotation(string(key)) }}
	return p
}
