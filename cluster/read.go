package cluster

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

const (
	readOfMeta      = "metadata: name namespace uid resourceVersion creationTimestamp deletionTimestamp deletionGracePeriodSeconds ownerReferences finalizers "
	readOfContainer = ": name image volumeMounts.name volumeDevices.name securityContext.seLinuxOptions"
	readOfStatus    = ": name state lastState ready restartCount"
)

// readOf is what is read, anywhere here, of the kinds of which a large cluster
// has most: less than half of what they say, which need not be kept, and where
// it comes in maps costs more than all else. TestReadOf looks for whatever the
// code reads beside it. Of a pod that a command names more is told.
var readOf = map[snapshot.Kind]*part{
	snapshot.Pods: readOfPods(),
	snapshot.Nodes: annotated(only[corev1.Node](readOfMeta+"labels managedFields",
		"spec: providerID unschedulable taints", "status: conditions volumesInUse volumesAttached nodeInfo.kubeletVersion")),
	snapshot.Claims: annotated(only[corev1.PersistentVolumeClaim](readOfMeta,
		"spec: accessModes resources storageClassName volumeName", "status: phase capacity conditions allocatedResourceStatuses")),
	// What the translation of in-tree volumes reads is up to it.
	snapshot.Volumes: annotated(allBut[corev1.PersistentVolume](": metadata.managedFields", "spec: capacity mountOptions",
		"spec.persistentVolumeSource.csi: fsType volumeAttributes nodeStageSecretRef nodePublishSecretRef controllerExpandSecretRef nodeExpandSecretRef")),
}

func readOfPods() *part {
	p := annotated(only[corev1.Pod](readOfMeta+"labels",
		"spec: volumes nodeName hostNetwork terminationGracePeriodSeconds tolerations securityContext.seLinuxOptions securityContext.fsGroup",
		"spec.containers"+readOfContainer, "spec.initContainers"+readOfContainer, "spec.ephemeralContainers.ephemeralContainerCommon"+readOfContainer,
		"status: phase message reason podIP startTime conditions.type conditions.status conditions.lastTransitionTime conditions.message",
		"status.containerStatuses"+readOfStatus, "status.initContainerStatuses"+readOfStatus, "status.ephemeralContainerStatuses"+readOfStatus,
	))
	at[corev1.Pod](p, "metadata.labels").wants = labelIsRead
	at[corev1.Pod](p, "spec.volumes").wants = volumeIsRead
	at[corev1.Pod](p, "status.conditions").wants = conditionIsRead
	for _, containers := range []string{"spec.containers", "spec.initContainers", "spec.ephemeralContainers.ephemeralContainerCommon"} {
		at[corev1.Pod](p, containers+".volumeMounts").wants = volumeIsRead
		at[corev1.Pod](p, containers+".volumeDevices").wants = volumeIsRead
	}
	return p
}

// labelIsRead says of a label of a pod, by its key, that it tells the revision of
// a Deployment. Others have the pod's own name in them.
func labelIsRead(_ *corev1.Pod, key []byte) bool {
	return string(key) == appsv1.DefaultDeploymentUniqueLabelKey
}

// volumeIsRead says of a volume of the pod, by its name, that it may be attached
// or is one by which a driver's node plugin is told. Of the others, the token of
// a service account is called differently in each pod.
func volumeIsRead(pod *corev1.Pod, name []byte) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.Name == string(name) && (v.HostPath != nil || reconcile.CanBeAttached(&v))
	})
}

// conditionIsRead says so of a condition of the pod, by its type. Of a pod that
// has ended, each may tell when it was last heard of.
func conditionIsRead(pod *corev1.Pod, name []byte) bool {
	lives := pod.DeletionTimestamp == nil && (pod.Status.Phase == corev1.PodRunning || pod.Status.Phase == corev1.PodPending)
	return !lives || string(name) == string(corev1.PodScheduled) || string(name) == string(corev1.PodReady)
}
