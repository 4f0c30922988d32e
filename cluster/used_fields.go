package cluster

import (
	"slices"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/fields"
)

const (
	usedMeta        = "metadata: name namespace uid resourceVersion creationTimestamp deletionTimestamp deletionGracePeriodSeconds finalizers "
	usedOfOwner     = "metadata.ownerReferences: apiVersion kind name uid controller"
	usedOfContainer = ": name image volumeMounts.name volumeDevices.name securityContext.seLinuxOptions"
	usedOfStatus    = ": name state lastState ready restartCount"
)

// usedFields lists, for the kinds of which a large cluster has most, the fields that
// any code in this module uses: less than half of each object. All other fields are
// dropped before decoding. TestUsedFields finds fields that the code uses and the list
// lacks. A pod that a command names is decoded as trimmed says.
var usedFields = map[snapshot.Kind]*fields.Part{
	snapshot.Pods: usedFieldsOfPods(),
	snapshot.Nodes: annotated(fields.Only[corev1.Node](usedMeta+"labels managedFields", usedOfOwner,
		"spec: providerID unschedulable taints", "status: conditions volumesInUse volumesAttached nodeInfo.kubeletVersion")),
	snapshot.Claims: annotated(fields.Only[corev1.PersistentVolumeClaim](usedMeta, usedOfOwner,
		"spec: accessModes resources storageClassName volumeName volumeMode", "status: phase capacity conditions allocatedResourceStatuses healthStatus")),
	// What the translation of in-tree volumes reads is up to it.
	snapshot.Volumes: attributed(annotated(fields.AllBut[corev1.PersistentVolume](": metadata.managedFields", "spec: capacity mountOptions",
		"spec.persistentVolumeSource.csi: fsType nodeStageSecretRef nodePublishSecretRef controllerExpandSecretRef nodeExpandSecretRef"))),
}

func usedFieldsOfPods() *fields.Part {
	p := annotated(fields.Only[corev1.Pod](usedMeta+"labels", usedOfOwner,
		"spec: volumes nodeName hostNetwork terminationGracePeriodSeconds tolerations securityContext.seLinuxOptions securityContext.seLinuxChangePolicy securityContext.fsGroup securityContext.fsGroupChangePolicy",
		"spec.containers"+usedOfContainer, "spec.initContainers"+usedOfContainer, "spec.ephemeralContainers.ephemeralContainerCommon"+usedOfContainer,
		"status: phase message reason podIP startTime volumeHealth conditions.type conditions.status conditions.lastTransitionTime conditions.message",
		"status.containerStatuses"+usedOfStatus, "status.initContainerStatuses"+usedOfStatus, "status.ephemeralContainerStatuses"+usedOfStatus,
	))
	fields.At[corev1.Pod](p, "metadata.labels").Wants = labelIsRead
	fields.At[corev1.Pod](p, "spec.volumes").Wants = volumeIsRead
	fields.At[corev1.Pod](p, "status.conditions").Wants = conditionIsRead
	for _, containers := range []string{"spec.containers", "spec.initContainers", "spec.ephemeralContainers.ephemeralContainerCommon"} {
		fields.At[corev1.Pod](p, containers+".volumeMounts").Wants = volumeIsRead
		fields.At[corev1.Pod](p, containers+".volumeDevices").Wants = volumeIsRead
	}
	return p
}

// Reduce drops the fields that usedFields lacks from an object that was read otherwise
// than from a cluster.
func Reduce(object metav1.Object) {
	switch o := object.(type) {
	case *corev1.Pod:
		reduce(snapshot.Pods, o, o)
	case *corev1.Node:
		reduce(snapshot.Nodes, o, nil)
	case *corev1.PersistentVolumeClaim:
		reduce(snapshot.Claims, o, nil)
	case *corev1.PersistentVolume:
		reduce(snapshot.Volumes, o, nil)
	}
}

// encodings are an object and what is used of it, encoded: a large file has many.
type encodings struct{ whole, used []byte }

var encoders = sync.Pool{New: func() any { return &encodings{} }}

func reduce[T any, P interface {
	*T
	object
	Size() int
	MarshalToSizedBuffer([]byte) (int, error)
}](kind snapshot.Kind, o P, pod *corev1.Pod) {
	e := encoders.Get().(*encodings)
	defer encoders.Put(e)
	size := o.Size()
	e.whole = slices.Grow(e.whole[:0], size)[:size]
	if n, err := o.MarshalToSizedBuffer(e.whole); err != nil || n != size {
		return
	}
	var ok bool
	if e.used, ok = usedFields[kind].Of(e.used[:0], e.whole, pod); !ok {
		return
	}
	whole := *o
	*o = *new(T)
	if o.Unmarshal(e.used) != nil {
		*o = whole
	}
}

// labelIsRead says whether the key is that of a Deployment's revision. Values of other
// labels contain the pod's own name.
func labelIsRead(_ *corev1.Pod, key []byte) bool {
	return string(key) == appsv1.DefaultDeploymentUniqueLabelKey
}

// volumeIsRead says whether anything looks at the pod's volume of the name: it can be
// attached, it shows a driver's node plugin, or the pod's start or end may wait for it. The others
// cost memory, because the token of a service account has another name in each pod.
func volumeIsRead(pod *corev1.Pod, name []byte) bool {
	return pod.Status.Phase == corev1.PodPending || pod.DeletionTimestamp != nil || slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.Name == string(name) && (v.HostPath != nil || reconcile.CanBeAttached(&v))
	})
}

// conditionIsRead says whether anything looks at the pod's condition of the type. Any
// condition may show when a pod that has ended was last seen, and the sandbox of one
// that starts shows that its volumes are mounted (facts.MayUseVolumes).
func conditionIsRead(pod *corev1.Pod, name []byte) bool {
	lives := pod.DeletionTimestamp == nil && (pod.Status.Phase == corev1.PodRunning || pod.Status.Phase == corev1.PodPending)
	return !lives || string(name) == string(corev1.PodScheduled) || string(name) == string(corev1.PodReady) ||
		pod.Status.Phase == corev1.PodPending && string(name) == string(corev1.PodReadyToStartContainers)
}
