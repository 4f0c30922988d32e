package main

import (
	"bytes"
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
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// BenchmarkModel is all that happens between reading and printing: world, plan,
// every check and what would repair the findings.
func BenchmarkModel(b *testing.B) { benchmarkModel(b, load.Cluster.Snapshot) }

// BenchmarkModelOfBrokenCluster is the same where so much is wrong that whatever
// a check looks for once for each finding shows: the time must grow with the
// cluster, and not with its square.
func BenchmarkModelOfBrokenCluster(b *testing.B) { benchmarkModel(b, broken) }

// BenchmarkModelOfDoubledVolumes is the same for what a broken cluster does not
// have: an attacher that lives, and tells of other nodes.
func BenchmarkModelOfDoubledVolumes(b *testing.B) { benchmarkModel(b, doubled) }

// BenchmarkModelOfManyClusters is of 150,000 pods in each case, in clusters of the
// size: what one large cluster takes longer than many small ones is not for the
// distance of the memory, which is the same.
func BenchmarkModelOfManyClusters(b *testing.B) {
	for _, pods := range []int{1_500, 15_000, 150_000} {
		b.Run(fmt.Sprintf("pods=%d", pods), func(b *testing.B) {
			clusters := make([]*snapshot.Snapshot, 150_000/pods)
			for i := range clusters {
				clusters[i] = asRead(b, sized(pods).Snapshot())
			}
			for b.Loop() {
				for _, s := range clusters {
					repair.Examine(s, reconcile.Options{}, repair.Consent{}, diagnose.Request{})
				}
			}
		})
	}
}

func sized(pods int) load.Cluster {
	return load.Cluster{Size: load.Size{Nodes: pods / 30, Pods: pods, Volumes: pods / 5}, Now: time.Now()}
}

// asRead is the cluster as the commands have it in memory: what many objects say alike
// they share. The commands drop most pods that have no volume; here all are kept.
func asRead(b *testing.B, s *snapshot.Snapshot) *snapshot.Snapshot {
	b.Helper()
	var file bytes.Buffer
	if err := snapshot.Write(&file, s); err != nil {
		b.Fatal(err)
	}
	read, _, err := snapshot.Read("the cluster", bytes.NewReader(file.Bytes()), snapshot.ReadOptions{})
	if err != nil {
		b.Fatal(err)
	}
	return read
}

func benchmarkModel(b *testing.B, made func(load.Cluster) *snapshot.Snapshot) {
	for _, pods := range []int{1_500, 15_000, 150_000} {
		b.Run(fmt.Sprintf("pods=%d", pods), func(b *testing.B) {
			s := asRead(b, made(sized(pods)))
			b.ReportAllocs()
			var view *repair.View
			for b.Loop() {
				view, _ = repair.Examine(s, reconcile.Options{}, repair.Consent{}, diagnose.Request{})
			}
			b.ReportMetric(float64(len(view.Report.Findings)), "findings")
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
			next.Spec.NodeName = o.Nodes[i/10*10%c.Size.Nodes+1].Name
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
			if other.Spec.NodeName = o.Nodes[i/10*10%c.Size.Nodes+2].Name; other.Spec.NodeName == va.Spec.NodeName {
				continue
			}
			other.Name = reconcile.VolumeAttachmentName(pv.Spec.CSI.VolumeHandle, load.Driver, types.NodeName(other.Spec.NodeName))
			o.VolumeAttachments = append(o.VolumeAttachments, other)
		case i%15 == 2:
			va.CreationTimestamp, va.Status = long, storagev1.VolumeAttachmentStatus{}
		}
	}
	return snapshot.New(c.Now, whole.Source, o, nil)
}

// doubled is the cluster once a part of it was restored beside the original: of
// each fifteen volumes two are the same disk as another, and two are refused
// because a node has them on which there is no record of it.
func doubled(c load.Cluster) *snapshot.Snapshot {
	whole := c.Snapshot()
	o, long := whole.Objects, metav1.NewTime(c.Now.Add(-time.Hour))
	refused := map[string]bool{} // the claims' names
	for i, va := range o.VolumeAttachments {
		pv := whole.Volume(*va.Spec.Source.PersistentVolumeName)
		switch other := o.VolumeAttachments[(i+1)%len(o.VolumeAttachments)]; {
		case pv == nil || pv.Spec.ClaimRef == nil || other.Spec.Source.PersistentVolumeName == nil:
		case i%15 < 2:
			if double := whole.Volume(*other.Spec.Source.PersistentVolumeName); double != nil {
				pv.Spec.CSI.VolumeHandle = double.Spec.CSI.VolumeHandle
			}
		case i%15 < 4:
			refused[pv.Spec.ClaimRef.Namespace+"/"+pv.Spec.ClaimRef.Name] = true
			va.CreationTimestamp, va.Status = long, storagev1.VolumeAttachmentStatus{AttachError: &storagev1.VolumeError{
				Time: metav1.NewTime(c.Now.Add(-time.Minute)), Message: "the volume is already attached to " + other.Spec.NodeName,
			}}
		}
	}
	for i, pod := range o.Pods {
		for j := range pod.Spec.Volumes {
			if refused[pod.Namespace+"/"+reconcile.ClaimName(pod, &pod.Spec.Volumes[j])] {
				o.Pods[i] = pod.DeepCopy()
				o.Pods[i].CreationTimestamp, o.Pods[i].Status = long, corev1.PodStatus{Phase: corev1.PodPending}
			}
		}
	}
	return snapshot.New(c.Now, whole.Source, o, nil)
}
