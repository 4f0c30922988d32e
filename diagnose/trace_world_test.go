package diagnose_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

const (
	theDriver = "ebs.csi.aws.com"
	theVolume = corev1.UniqueVolumeName("kubernetes.io/csi/ebs.csi.aws.com^vol-1")
	theImage  = "app:1"
)

var traceNow = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

func minutesAgo(m float64) metav1.Time {
	return metav1.NewTime(traceNow.Add(-time.Duration(m * float64(time.Minute))))
}

// world is a cluster in which one pod runs with one attached volume, until a
// test takes something away.
type world struct {
	snapshot.Objects
	gaps []snapshot.Gap
	pod  *corev1.Pod
	node *corev1.Node
}

func newWorld() *world {
	w := &world{node: newNode("n1")}
	w.node.Status.VolumesInUse = []corev1.UniqueVolumeName{theVolume}
	w.node.Status.VolumesAttached = []corev1.AttachedVolume{{Name: theVolume}}
	w.pod = newPod("app", "n1")
	required := true
	w.Objects = snapshot.Objects{
		Nodes:      []*corev1.Node{w.node, newNode("n2")},
		Pods:       []*corev1.Pod{w.pod},
		CSINodes:   []*storagev1.CSINode{newCSINode("n1"), newCSINode("n2")},
		CSIDrivers: []*storagev1.CSIDriver{{ObjectMeta: meta("", theDriver), Spec: storagev1.CSIDriverSpec{AttachRequired: &required}}},
		Volumes: []*corev1.PersistentVolume{{ObjectMeta: meta("", "pv-data"), Spec: corev1.PersistentVolumeSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			ClaimRef:    &corev1.ObjectReference{Namespace: "default", Name: "data", UID: "uid-data"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: theDriver, VolumeHandle: "vol-1"}},
		}}},
		Claims: []*corev1.PersistentVolumeClaim{{ObjectMeta: meta("default", "data"),
			Spec:   corev1.PersistentVolumeClaimSpec{VolumeName: "pv-data"},
			Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound}}},
		VolumeAttachments: []*storagev1.VolumeAttachment{newAttachment("n1")},
		Leases:            []*coordinationv1.Lease{newLease("kube-system", "kube-controller-manager", minutesAgo(1440), minutesAgo(0))},
	}
	return w
}

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-" + name), CreationTimestamp: minutesAgo(1440)}
}

func newNode(name string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: meta("", name)}
	n.Annotations = map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true"}
	n.Status.NodeInfo.KubeletVersion = "v1.36.3"
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady",
		LastTransitionTime: minutesAgo(1440), LastHeartbeatTime: minutesAgo(1)}}
	return n
}

func newCSINode(name string) *storagev1.CSINode {
	return &storagev1.CSINode{ObjectMeta: meta("", name), Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: theDriver, NodeID: "i-" + name}}}}
}

func newAttachment(node string) *storagev1.VolumeAttachment {
	pv := "pv-data"
	va := &storagev1.VolumeAttachment{ObjectMeta: meta("", reconcile.VolumeAttachmentName("vol-1", theDriver, types.NodeName(node)))}
	va.Finalizers = []string{"external-attacher/ebs-csi-aws-com"}
	va.Spec = storagev1.VolumeAttachmentSpec{Attacher: theDriver, NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &pv}}
	va.Status.Attached = true
	return va
}

func newLease(namespace, name string, acquired, renewed metav1.Time) *coordinationv1.Lease {
	a, r := metav1.NewMicroTime(acquired.Time), metav1.NewMicroTime(renewed.Time)
	return &coordinationv1.Lease{ObjectMeta: meta(namespace, name), Spec: coordinationv1.LeaseSpec{AcquireTime: &a, RenewTime: &r}}
}

func newPod(name, node string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: meta("default", name)}
	p.Spec.NodeName = node
	p.Spec.Containers = []corev1.Container{{Name: "app", Image: theImage, VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}}}
	p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	p.Status.Phase = corev1.PodRunning
	start := minutesAgo(60)
	p.Status.StartTime = &start
	p.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: minutesAgo(60)},
		{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionTrue, LastTransitionTime: minutesAgo(59)},
	}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", Image: theImage, Ready: true,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: minutesAgo(59)}}}}
	return p
}

// pending makes the pod one that was bound so many minutes ago and has not come
// past its volumes.
func (w *world) pending(minutes float64) *world {
	w.pod.CreationTimestamp = minutesAgo(minutes)
	w.pod.Status.Phase = corev1.PodPending
	w.pod.Status.Conditions[0].LastTransitionTime = minutesAgo(minutes)
	w.pod.Status.Conditions[1].Status = corev1.ConditionFalse
	w.waiting("ContainerCreating")
	return w
}

func (w *world) waiting(reason string) {
	w.pod.Status.ContainerStatuses[0].Ready = false
	w.pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}
}

// unattached takes the volume off the node and off the driver.
func (w *world) unattached() *world {
	w.VolumeAttachments = nil
	w.node.Status.VolumesAttached = nil
	return w
}

// stopped makes the pod one that was told to go so many minutes ago and whose
// containers have ended.
func (w *world) stopped(minutes float64) *world {
	deleted := minutesAgo(minutes)
	w.pod.DeletionTimestamp = &deleted
	w.pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: deleted}}
	w.pod.Status.Conditions[1].Status = corev1.ConditionFalse
	return w
}

func (w *world) event(reason, message string, minutes float64) *world {
	at := minutesAgo(minutes)
	w.Events = append(w.Events, &corev1.Event{ObjectMeta: meta("default", fmt.Sprintf("event-%d", len(w.Events))), Reason: reason, Message: message,
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: w.pod.Name, UID: w.pod.UID}, FirstTimestamp: at, LastTimestamp: at,
		Source: corev1.EventSource{Component: "kubelet", Host: "n1"}})
	return w
}

// saidAgain has the last event repeated until now.
func (w *world) saidAgain() *world {
	e := w.Events[len(w.Events)-1]
	e.LastTimestamp, e.Count = minutesAgo(0.1), 9
	return w
}

func (w *world) without(kinds ...snapshot.Kind) *world {
	for _, kind := range kinds {
		w.gaps = append(w.gaps, snapshot.Gap{Kind: kind, Reason: snapshot.ReasonForbidden})
	}
	return w
}

func (w *world) snapshot() *snapshot.Snapshot {
	return snapshot.New(traceNow, snapshot.Source{ServerVersion: "v1.36.3"}, w.Objects, w.gaps)
}

func (w *world) trace(t *testing.T) *trace.Trace {
	t.Helper()
	s := w.snapshot()
	return diagnose.TracePod(s, w.pod, diagnose.Options{})
}

// chain is the stages of a volume in one line: + done, ~ waiting, ! blocked,
// ? unknown, - not needed; ^ follows the one in which it waits, and "late" the
// one that is beyond its bound.
func chain(v trace.VolumeTrace) string {
	marks := map[trace.StageState]string{trace.StageDone: "+", trace.StageWaiting: "~", trace.StageBlocked: "!",
		trace.StageUnknown: "?", trace.StageNotNeeded: "-"}
	var parts []string
	for _, s := range v.Stages {
		part := marks[s.State] + string(s.Stage)
		if s.Stage == v.Broken {
			part += "^"
			if s.Overdue {
				part += "late"
			}
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, " ")
}
