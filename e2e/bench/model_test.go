package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/load"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// BenchmarkModel is all that happens between reading and printing: world, plan
// and every check.
func BenchmarkModel(b *testing.B) { benchmarkModel(b, load.Cluster.Snapshot) }

// BenchmarkModelOfBrokenCluster is the same where so much is wrong that whatever
// a check looks for once for each finding shows: the time must grow with the
// cluster, and not with its square.
func BenchmarkModelOfBrokenCluster(b *testing.B) { benchmarkModel(b, broken) }

func benchmarkModel(b *testing.B, read func(load.Cluster) *snapshot.Snapshot) {
	for _, pods := range []int{1_500, 15_000, 150_000} {
		b.Run(fmt.Sprintf("pods=%d", pods), func(b *testing.B) {
			s := read(load.Cluster{Size: load.Size{Nodes: pods / 30, Pods: pods, Volumes: pods / 5}, Now: time.Now()})
			b.ReportAllocs()
			var report *diagnose.Report
			for b.Loop() {
				report = diagnose.Diagnose(s, diagnose.Options{})
			}
			b.ReportMetric(float64(len(report.Findings)), "findings")
		})
	}
}

// broken is the cluster after a bad night: a tenth of the nodes is lost, and
// half of their pods with them; the attacher is dead; and of each fifteen
// volumes one has lost its pod and is kept, one has an attachment without a
// volume beside its own, one is for many nodes and forgotten on one of them, and
// one is not attached yet. As many pods as that have no node.
func broken(c load.Cluster) *snapshot.Snapshot {
	whole := c.Snapshot()
	o, long := whole.Objects, metav1.NewTime(c.Now.Add(-time.Hour))
	lost := map[string]bool{}
	for i, node := range o.Nodes {
		if i%10 != 0 {
			continue
		}
		lost[node.Name] = true
		for j := range node.Status.Conditions {
			if node.Status.Conditions[j].Type == corev1.NodeReady {
				node.Status.Conditions[j].Status, node.Status.Conditions[j].LastTransitionTime = corev1.ConditionUnknown, long
			}
		}
	}
	for _, lease := range o.Leases {
		if lost[lease.Name] || strings.HasPrefix(lease.Name, "external-attacher-leader-") {
			renewed := metav1.NewMicroTime(long.Time)
			lease.Spec.RenewTime = &renewed
		}
	}
	o.Pods = nil
	for i, pod := range whole.Pods {
		uses := strings.HasPrefix(pod.Name, "db-")
		if uses && (lost[pod.Spec.NodeName] || i%15 == 3) {
			next := pod.DeepCopy()
			next.Name, next.UID, next.CreationTimestamp = pod.Name+"-next", pod.UID+"-next", long
			next.Status = corev1.PodStatus{Phase: corev1.PodPending}
			next.Spec.NodeName = o.Nodes[i/10*10%len(o.Nodes)+1].Name
			if i%15 == 3 {
				next.Spec.NodeName = ""
			}
			o.Pods = append(o.Pods, next)
		}
		if uses && (lost[pod.Spec.NodeName] && i%2 == 0 || i%15 == 4) {
			continue
		}
		o.Pods = append(o.Pods, pod)
	}
	for i, va := range whole.VolumeAttachments {
		va.Status.DetachError = nil // which would prove that the attacher lives
		pv := whole.Volume(*va.Spec.Source.PersistentVolumeName)
		switch {
		case pv == nil:
		case i%15 == 0:
			orphan := va.DeepCopy()
			gone := "gone-" + pv.Name
			orphan.Name, orphan.Spec.Source.PersistentVolumeName = fmt.Sprintf("csi-%064x", i), &gone
			o.VolumeAttachments = append(o.VolumeAttachments, orphan)
		case i%15 == 1:
			pv.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
			other := va.DeepCopy()
			other.Spec.NodeName = o.Nodes[i/10*10%len(o.Nodes)+2].Name
			other.Name = reconcile.VolumeAttachmentName(pv.Spec.CSI.VolumeHandle, load.Driver, types.NodeName(other.Spec.NodeName))
			o.VolumeAttachments = append(o.VolumeAttachments, other)
		case i%15 == 2:
			va.CreationTimestamp, va.Status = long, storagev1.VolumeAttachmentStatus{}
		}
	}
	return snapshot.New(c.Now, whole.Source, o, nil)
}
