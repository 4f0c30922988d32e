// Package testworld makes, for the tests of every package, a small cluster by hand: one pod
// runs on one of two nodes with one volume that is attached there. A test then removes a part
// of it.
package testworld

import (
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// The names of the driver and the volume.
const (
	Driver = "ebs.csi.aws.com"
	Volume = corev1.UniqueVolumeName("kubernetes.io/csi/ebs.csi.aws.com^vol-1")
	Image  = "app:1"
)

// Now is the moment of the snapshot.
var Now = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

// MinutesAgo is a moment before Now.
func MinutesAgo(m float64) metav1.Time {
	return metav1.NewTime(Now.Add(-time.Duration(m * float64(time.Minute))))
}

// World is a cluster in which one pod runs with one attached volume, until a test removes a
// part.
type World struct {
	snapshot.Objects
	Gaps []snapshot.Gap
	Pod  *corev1.Pod
	Node *corev1.Node
}

// New is the cluster without any fault.
func New() *World {
	w := &World{Node: NewNode("n1")}
	w.Node.Status.VolumesInUse = []corev1.UniqueVolumeName{Volume}
	w.Node.Status.VolumesAttached = []corev1.AttachedVolume{{Name: Volume}}
	w.Pod = NewPod("app", "n1")
	required := true
	w.Objects = snapshot.Objects{
		Nodes:      []*corev1.Node{w.Node, NewNode("n2")},
		Pods:       []*corev1.Pod{w.Pod},
		CSINodes:   []*storagev1.CSINode{NewCSINode("n1"), NewCSINode("n2")},
		CSIDrivers: []*storagev1.CSIDriver{{ObjectMeta: Meta("", Driver), Spec: storagev1.CSIDriverSpec{AttachRequired: &required}}},
		Volumes: []*corev1.PersistentVolume{{ObjectMeta: Meta("", "pv-data"), Spec: corev1.PersistentVolumeSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			ClaimRef:    &corev1.ObjectReference{Namespace: "default", Name: "data", UID: "uid-data"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: Driver, VolumeHandle: "vol-1"}},
		}}},
		Claims: []*corev1.PersistentVolumeClaim{{ObjectMeta: Meta("default", "data"),
			Spec:   corev1.PersistentVolumeClaimSpec{VolumeName: "pv-data"},
			Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound}}},
		VolumeAttachments: []*storagev1.VolumeAttachment{NewAttachment("n1")},
		Leases:            []*coordinationv1.Lease{NewLease("kube-system", reconcile.ControllerManager, MinutesAgo(1440), MinutesAgo(0))},
	}
	return w
}

// Meta is the metadata of an object of that name that was made a day ago.
func Meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-" + name), CreationTimestamp: MinutesAgo(1440)}
}

// NewNode is a node that is ready.
func NewNode(name string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: Meta("", name)}
	n.Annotations = map[string]string{reconcile.ManagedAnnotation: "true"}
	n.Status.NodeInfo.KubeletVersion = "v1.36.3"
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady",
		LastTransitionTime: MinutesAgo(1440), LastHeartbeatTime: MinutesAgo(1)}}
	return n
}

// NewCSINode is the CSINode of a node on which the driver is registered.
func NewCSINode(name string) *storagev1.CSINode {
	return &storagev1.CSINode{ObjectMeta: Meta("", name), Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: Driver, NodeID: "i-" + name}}}}
}

// NewAttachment is the VolumeAttachment of the volume on that node: attached.
func NewAttachment(node string) *storagev1.VolumeAttachment {
	pv := "pv-data"
	va := &storagev1.VolumeAttachment{ObjectMeta: Meta("", reconcile.VolumeAttachmentName("vol-1", Driver, types.NodeName(node)))}
	va.Finalizers = []string{"external-attacher/ebs-csi-aws-com"}
	va.Spec = storagev1.VolumeAttachmentSpec{Attacher: Driver, NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &pv}}
	va.Status.Attached = true
	return va
}

// NewLease is a lease that was taken and renewed then.
func NewLease(namespace, name string, acquired, renewed metav1.Time) *coordinationv1.Lease {
	a, r := metav1.NewMicroTime(acquired.Time), metav1.NewMicroTime(renewed.Time)
	return &coordinationv1.Lease{ObjectMeta: Meta(namespace, name), Spec: coordinationv1.LeaseSpec{AcquireTime: &a, RenewTime: &r}}
}

// NewPod is a pod that runs on the node with the volume.
func NewPod(name, node string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: Meta("default", name)}
	p.Spec.NodeName = node
	p.Spec.Containers = []corev1.Container{{Name: "app", Image: Image, VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}}}
	p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	p.Status.Phase = corev1.PodRunning
	start := MinutesAgo(60)
	p.Status.StartTime = &start
	p.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: MinutesAgo(60)},
		{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionTrue, LastTransitionTime: MinutesAgo(59)},
	}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", Image: Image, Ready: true,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: MinutesAgo(59)}}}}
	return p
}

// Pending makes the pod one that was bound so many minutes ago and still waits for its
// volumes.
func (w *World) Pending(minutes float64) *World {
	w.Pod.CreationTimestamp = MinutesAgo(minutes)
	w.Pod.Status.Phase = corev1.PodPending
	w.Pod.Status.Conditions[0].LastTransitionTime = MinutesAgo(minutes)
	w.Pod.Status.Conditions[1].Status = corev1.ConditionFalse
	w.Waiting("ContainerCreating")
	return w
}

// Waiting makes the container wait for that reason.
func (w *World) Waiting(reason string) {
	w.Pod.Status.ContainerStatuses[0].Ready = false
	w.Pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}
}

// Unattached removes the volume from the node and detaches it.
func (w *World) Unattached() *World {
	w.VolumeAttachments = nil
	w.Node.Status.VolumesAttached = nil
	return w
}

// Stopped makes the pod one whose deletion was asked for so many minutes ago and whose
// containers have ended.
func (w *World) Stopped(minutes float64) *World {
	deleted := MinutesAgo(minutes)
	w.Pod.DeletionTimestamp = &deleted
	w.Pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: deleted}}
	w.Pod.Status.Conditions[1].Status = corev1.ConditionFalse
	return w
}

// Event adds an event of the kubelet about the pod, so many minutes ago.
func (w *World) Event(reason, message string, minutes float64) *World {
	at := MinutesAgo(minutes)
	w.Events = append(w.Events, &corev1.Event{ObjectMeta: Meta("default", fmt.Sprintf("event-%d", len(w.Events))), Reason: reason, Message: message,
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: w.Pod.Name, UID: w.Pod.UID}, FirstTimestamp: at, LastTimestamp: at,
		Source: corev1.EventSource{Component: "kubelet", Host: "n1"}})
	return w
}

// SaidAgain repeats the last event until now.
func (w *World) SaidAgain() *World {
	e := w.Events[len(w.Events)-1]
	e.LastTimestamp, e.Count = MinutesAgo(0.1), 9
	return w
}

// Without makes these kinds gaps.
func (w *World) Without(kinds ...snapshot.Kind) *World {
	for _, kind := range kinds {
		w.Gaps = append(w.Gaps, snapshot.Gap{Kind: kind, Reason: snapshot.ReasonForbidden})
	}
	return w
}

// Snapshot is the cluster as it was read.
func (w *World) Snapshot() *snapshot.Snapshot {
	return snapshot.New(Now, snapshot.Source{ServerVersion: "v1.36.3"}, w.Objects, w.Gaps)
}

// With is the world after the change.
func With(w *World, change func(*World)) *World {
	change(w)
	return w
}

// Mounting is the snapshot with pods whose containers mount their volumes: the corpus leaves
// the mounts out.
func Mounting(s *snapshot.Snapshot) *snapshot.Snapshot {
	for _, pod := range s.Pods {
		for i := range pod.Spec.Containers {
			for _, v := range pod.Spec.Volumes {
				pod.Spec.Containers[i].VolumeMounts = append(pod.Spec.Containers[i].VolumeMounts, corev1.VolumeMount{Name: v.Name})
			}
		}
	}
	return s
}
