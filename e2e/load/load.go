// Package load makes clusters of a given size, as large as Kubernetes supports,
// with a known number of things wrong in them: in memory, or straight in the
// etcd of a control plane, which takes seconds where its API would take hours.
package load

import (
	"fmt"
	"iter"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/trim"
)

// Driver is the CSI driver of all volumes.
const Driver = "ebs.csi.aws.com"

// Size is how much there is of a cluster. Each volume has a claim, a pod that
// uses it and, on the pod's node, a VolumeAttachment.
type Size struct{ Nodes, Pods, Volumes int }

// Drift is one thing that is wrong, as diagnose must name it.
type Drift struct {
	// Check is the failure mode's name.
	Check string
	// Subject is the kind and the name of what it is about.
	Subject string
}

// driftEvery is how many volumes there are for each drift of a kind.
const driftEvery = 1000

// Cluster is a cluster to be made. The same size and time give the same one.
type Cluster struct {
	Size Size
	// Now is when the cluster is looked at.
	Now time.Time
}

// Object is any object of a cluster.
type Object interface {
	runtime.Object
	metav1.Object
}

// All are the cluster's objects, made one at a time.
func (c Cluster) All() iter.Seq[Object] {
	return func(yield func(Object) bool) {
		for _, part := range []iter.Seq[Object]{c.singles(), c.renewed(), c.nodes(), c.volumes(), c.leftovers(), c.pods()} {
			for o := range part {
				if !yield(o) {
					return
				}
			}
		}
	}
}

// Drifts are all that diagnose is to find.
func (c Cluster) Drifts() []Drift {
	var drifts []Drift
	for v := range c.Size.Volumes {
		if c.unlisted(v) {
			drifts = append(drifts, Drift{"inuse-not-attached", "Pod " + VolumePod(v)})
		}
	}
	for i := range c.leftoverCount() {
		drifts = append(drifts,
			Drift{"va-pv-missing", "VolumeAttachment " + c.orphan(i).Name},
			Drift{"va-stuck-deleting", "VolumeAttachment " + c.stuck(i).Name})
	}
	return drifts
}

// unlisted reports whether the volume has fallen out of its node's volumesAttached.
func (c Cluster) unlisted(volume int) bool { return volume%driftEvery == 7 }

func (c Cluster) leftoverCount() int { return (c.Size.Volumes + driftEvery - 1) / driftEvery }

// Snapshot is the cluster as a reading of it would give it, in memory.
func (c Cluster) Snapshot() *snapshot.Snapshot {
	var o snapshot.Objects
	for object := range c.All() {
		trim.Object(object)
		add(&o, object)
	}
	return snapshot.New(c.Now, snapshot.Source{ServerVersion: "v1.37.2"}, o, nil)
}

func add(o *snapshot.Objects, object Object) {
	switch object := object.(type) {
	case *storagev1.VolumeAttachment:
		o.VolumeAttachments = append(o.VolumeAttachments, object)
	case *corev1.Node:
		o.Nodes = append(o.Nodes, object)
	case *storagev1.CSINode:
		o.CSINodes = append(o.CSINodes, object)
	case *storagev1.CSIDriver:
		o.CSIDrivers = append(o.CSIDrivers, object)
	case *storagev1.StorageClass:
		o.StorageClasses = append(o.StorageClasses, object)
	case *corev1.PersistentVolume:
		o.Volumes = append(o.Volumes, object)
	case *corev1.PersistentVolumeClaim:
		o.Claims = append(o.Claims, object)
	case *coordinationv1.Lease:
		o.Leases = append(o.Leases, object)
	case *corev1.Pod:
		o.Pods = append(o.Pods, object)
	}
}

// Compare lists the drifts that were not found, and the findings that no drift explains.
func Compare(drifts []Drift, findings []finding.Finding) []string {
	var wrong []string
	left := slices.Clone(drifts)
	for _, f := range findings {
		i := slices.Index(left, Drift{Check: f.Check, Subject: f.Subject.Kind + " " + f.Subject.Name})
		if i < 0 {
			wrong = append(wrong, fmt.Sprintf("nobody broke this: %s: %s", f.Check, f.Message))
			continue
		}
		left = slices.Delete(left, i, i+1)
	}
	for _, d := range left {
		wrong = append(wrong, fmt.Sprintf("not found: %s of %s", d.Check, d.Subject))
	}
	return wrong
}
